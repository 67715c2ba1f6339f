import { setTimeout as delay } from 'node:timers/promises';
import { TEXTS_FORMAT } from '../../../../machines/events.ts';
import { hasCode, SvcError } from '../../../errors.ts';
import { codeOf, notOpen } from '../../../kernel/store/failure.ts';
import { type AppendResult, CONFLICT, type Commit } from '../../../kernel/store/port.ts';
import { conflict, type EventRow } from '../../../kernel/store/row.ts';
import type { Connections } from '../connections.ts';
import { isAway, isDuplicate, isMissing, isRefused } from '../failure.ts';
import { MAY_REFER, RAISE_FORMAT } from '../schema.ts';
import { KnownTexts } from '../texts.ts';
import type { AppendAnswer } from './append-statement.ts';
import { type Epoch, type PreparedCommit, prepareCommit } from './commit.ts';

/** The lease of this process. */
export interface HeldLease {
  /** Throws lease_lost without a lease. */
  current(): Epoch;
  /** Renews a lease that is late. Throws lease_lost. */
  extend(): Promise<void>;
}

/**
 * Commits, one after the other. It owns their order.
 *
 * 1. A commit waits as long as the database is away. The caller sees that it is late.
 * 2. A commit with an unknown outcome is looked up by its first event. If that is not in the log,
 *    the commit is sent again. The first attempt may come late: then the second one is refused,
 *    and the event is looked up once more.
 * 3. Without the present epoch nothing is written, and the commit throws lease_lost.
 */
export class Appends {
  /** Bytes of the log after the last commit of this process. */
  bytes = 0;
  /** The last format that this process gave the log. */
  private format = 0;
  private readonly texts = new KnownTexts();
  private readonly connections: Connections;
  private readonly lease: HeldLease;
  private readonly retry_ms: number;
  private readonly closing: AbortSignal;
  private last: Promise<unknown> = Promise.resolve();

  constructor(options: {
    connections: Connections;
    lease: HeldLease;
    retry_ms: number;
    /** Ends commits that wait for a database that is away. */
    closing: AbortSignal;
  }) {
    this.connections = options.connections;
    this.lease = options.lease;
    this.retry_ms = options.retry_ms;
    this.closing = options.closing;
  }

  /** Resolves when all commits so far have ended. */
  get settled(): Promise<unknown> {
    return this.last;
  }

  append(commit: Commit): Promise<AppendResult> {
    const prepared = prepareCommit(commit);
    const appended = this.last.then(() => this.write(prepared));
    this.last = appended.catch(() => {});
    return appended;
  }

  private async write(commit: PreparedCommit): Promise<AppendResult> {
    // An earlier attempt may have been committed, or may still be.
    let isUnknown = false;
    for (;;) {
      try {
        if (isUnknown) {
          const seq = await this.find(commit.first);
          if (seq !== null) return { full: false, first_seq: seq };
        }
        const first_seq = await this.tryCommit(commit);
        if (first_seq !== null) return { full: false, first_seq };
        await this.lease.extend();
      } catch (error) {
        if (isUnknown && (isDuplicate(error) || codeOf(error) === CONFLICT)) {
          const seq = await this.find(commit.first).catch(() => null);
          if (seq !== null) return { full: false, first_seq: seq };
        }
        isUnknown ||= !isRefused(error) && isAway(error);
        if (!isAway(error) && !hasCode(error, 'store_stalled')) throw this.asAppendError(error);
        await this.wait(isUnknown);
      }
    }
  }

  /** The position of its first event; null if the lease is late. */
  private async tryCommit(commit: PreparedCommit): Promise<number | null> {
    const refers = commit.refers && (await this.mayRefer());
    const format = Math.max(commit.format ?? 0, refers ? TEXTS_FORMAT : 0);
    if (format > this.format) {
      await this.connections.write({ text: RAISE_FORMAT, values: [String(format)] });
      this.format = format;
    }
    const known = refers || !commit.refers ? this.texts : null;
    const { texts, ...statement } = commit.statement(this.lease.current(), known);
    const [answer] = await this.connections
      .write<AppendAnswer & Record<string, unknown>>(statement)
      .catch((error: unknown) => {
        if (!isMissing(error)) throw error;
        // Another node has removed a text meanwhile. The next attempt sends all of them.
        this.texts.forget();
        return [];
      });
    if (answer === undefined) return this.retryWithTexts(commit, texts.length);
    if (answer.base !== null) {
      this.texts.add(texts);
      this.bytes = answer.bytes ?? this.bytes;
      const { last } = commit;
      if (last !== null)
        this.connections.highWater.saw({ ...last, seq: answer.base + commit.events });
      return answer.base + 1;
    }
    if (answer.present !== true) throw new SvcError('lease_lost');
    if (answer.gap !== null) throw conflict(`The commit does not continue ${answer.gap}.`);
    if (answer.other !== null)
      throw new SvcError('lease_lost', `The run ${answer.other} is not one of this node.`);
    return null;
  }

  private async retryWithTexts(commit: PreparedCommit, sent: number): Promise<number | null> {
    const all = commit.statement(this.lease.current(), this.texts).texts.length;
    if (all === sent) throw conflict('The commit refers to a text that is missing.');
    return this.tryCommit(commit);
  }

  /**
   * Whether each node can read references. A log that has some is not opened by another version.
   */
  private async mayRefer(): Promise<boolean> {
    if (this.format >= TEXTS_FORMAT) return true;
    const { node_id } = this.lease.current();
    const [found] = await this.connections.write<{ may: boolean }>({
      text: MAY_REFER,
      values: [node_id, TEXTS_FORMAT],
    });
    return found?.may === true;
  }

  /** The position of an event, if this boot has written it. */
  private async find(event: EventRow | null): Promise<number | null> {
    if (event === null) return null;
    const [found] = await this.connections.write<{ seq: number }>({
      text: 'select seq from svc_events where stream = $1 and version = $2 and boot_id = $3',
      values: [event.stream, event.version, event.boot_id],
    });
    return found?.seq ?? null;
  }

  private asAppendError(error: unknown): unknown {
    if (codeOf(error) === CONFLICT) return error;
    if (isDuplicate(error)) return conflict('The commit is not the only one of its place.', error);
    return this.connections.asError(error);
  }

  /** Throws when the log is closed first: run_unconfirmed if the commit may count, or not_ready. */
  private async wait(isUnknown: boolean): Promise<void> {
    await delay(this.retry_ms, undefined, { signal: this.closing }).catch(() => {
      throw isUnknown ? new SvcError('run_unconfirmed') : notOpen();
    });
  }
}
