import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { Allowance } from '../../async/allowance.ts';
import { RETRY_AFTER_MS, SvcError } from '../../errors.ts';
import { isAlive } from '../../home/process-alive.ts';
import { ownerOf } from '../../home/runtime-file.ts';
import type { Limits } from '../../limits.ts';
import type { NamedToken, NewToken } from '../../operations/row.ts';
import type { Holder } from './holder.ts';
import type { TokenEntry, TokenFile } from './token-file.ts';

interface Live {
  entry: TokenEntry;
  hash: Buffer;
  end: AbortController;
  meter: Meter;
  /** Its process has ended. */
  isOver: boolean;
}

/**
 * The tokens of programs, each with a name and a scope. It owns which of them are valid.
 *
 * 1. A token is on disk before it is valid, and off the disk before it is invalid. So a restart
 *    changes nothing.
 * 2. Only its creation returns a token. Hashes are compared in constant time.
 * 3. Work that a token admitted ends with it: each token has a signal.
 * 4. A token of a process ends with it, also when that was killed, or while no daemon ran.
 * 5. A use is remembered at once, and written at most once in `WRITE_EVERY_MS`.
 */
export class NamedTokens {
  private readonly file: TokenFile;
  private readonly limits: Pick<Limits, 'tokens'>;
  private readonly now: () => number;
  private readonly live = new Map<string, Live>();
  /** Creations and revocations follow each other. */
  private last: Promise<unknown> = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;
  /** Runs while there is a token of a process. */
  private look: NodeJS.Timeout | undefined;
  private readonly expired: (name: string) => unknown;

  /**
   * `onExpired`: a token was revoked since its process has ended. Throws home_unusable for a list
   * that cannot be read.
   */
  constructor(
    file: TokenFile,
    limits: Pick<Limits, 'tokens'>,
    now: () => number = Date.now,
    onExpired: (name: string) => unknown = () => {},
  ) {
    this.file = file;
    this.limits = limits;
    this.now = now;
    this.expired = onExpired;
    for (const entry of file.read()) this.add(entry);
  }

  list(): NamedToken[] {
    return [...this.live.values()].map(({ entry }) => recordOf(entry));
  }

  /** Throws invalid_request, token_exists, busy, home_unusable. */
  create({
    name,
    scope,
    rate,
    concurrent,
    process,
  }: NewToken): Promise<NamedToken & { token: string }> {
    return this.runInTurn(async () => {
      if (!NAME.test(name))
        throw new SvcError(
          'invalid_request',
          'name must have 1 to 64 letters, digits, or the characters . _ -',
          { param: 'name' },
        );
      if (this.live.has(name))
        throw new SvcError('token_exists', `There is a token ${name} already.`, { param: 'name' });
      if (this.live.size >= this.limits.tokens)
        throw new SvcError('busy', `There are ${this.live.size} tokens, as many as are allowed.`, {
          hint: 'Remove one with: svc token revoke <name>. Or raise the limit tokens.',
        });
      const token = `svc_${randomBytes(32).toString('base64url')}`;
      const entry: TokenEntry = {
        name,
        scope,
        rate,
        concurrent,
        sha256: sha256(token).toString('hex'),
        created_at: this.now(),
        used_at: null,
        // In another namespace of processes the daemon cannot see it, so the token lasts.
        ...(process !== undefined && !hasEnded(process) ? { process } : {}),
      };
      await this.file.write([...this.entries(), entry]);
      this.add(entry);
      return { ...recordOf(entry), token };
    });
  }

  /** Throws token_unknown, home_unusable. */
  revoke(name: string): Promise<NamedToken> {
    return this.runInTurn(async () => {
      const found = this.live.get(name);
      if (found === undefined)
        throw new SvcError('token_unknown', `There is no token ${JSON.stringify(name)}.`, {
          param: 'name',
        });
      await this.file.write(this.entries().filter((entry) => entry.name !== name));
      this.live.delete(name);
      found.end.abort(new SvcError('unauthorised', `The token ${name} was revoked.`));
      return recordOf(found.entry);
    });
  }

  /** The holder of a token that a client sent. Null for an unknown one. */
  find(token: string): Holder | null {
    const hash = sha256(token);
    let found: Live | null = null;
    for (const each of this.live.values()) if (timingSafeEqual(each.hash, hash)) found = each;
    if (found === null) return null;
    const { entry, end, meter, isOver } = found;
    if (isOver || (entry.process !== undefined && !isAlive(entry.process.pid))) return null;
    entry.used_at = this.now();
    this.timer ??= setTimeout(() => void this.save().catch(() => {}), WRITE_EVERY_MS).unref();
    const { name, scope, concurrent } = entry;
    const request = meter.request(entry);
    return { name, scope, concurrent, ended: end.signal, ...request };
  }

  /** Writes the last uses. */
  async close(): Promise<void> {
    clearInterval(this.look);
    if (this.timer !== undefined) await this.save();
  }

  private save(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    return this.runInTurn(() => this.file.write(this.entries()));
  }

  private add(entry: TokenEntry): void {
    this.live.set(entry.name, {
      entry,
      hash: Buffer.from(entry.sha256, 'hex'),
      end: new AbortController(),
      meter: new Meter(this.now),
      isOver: hasEnded(entry.process),
    });
    if (entry.process !== undefined)
      this.look ??= setInterval(() => void this.endOver(), LOOK_EVERY_MS).unref();
  }

  /** Revokes the tokens whose process has ended. A failed write is tried again. */
  private async endOver(): Promise<void> {
    const bound = [...this.live.values()].filter(({ entry }) => entry.process !== undefined);
    for (const each of bound) {
      each.isOver ||= hasEnded(each.entry.process);
      if (!each.isOver) continue;
      const { name } = each.entry;
      await this.revoke(name).then(
        () => this.expired(name),
        () => {},
      );
    }
    if (bound.length > 0) return;
    clearInterval(this.look);
    this.look = undefined;
  }

  private entries(): TokenEntry[] {
    return [...this.live.values()].map(({ entry }) => entry);
  }

  private runInTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.last.then(work);
    this.last = done.catch(() => {});
    return done;
  }
}

function recordOf({ name, scope, rate, concurrent, created_at, used_at }: TokenEntry): NamedToken {
  return {
    name,
    scope,
    rate,
    concurrent,
    created_at: new Date(created_at).toISOString(),
    last_used: used_at === null ? null : new Date(used_at).toISOString(),
  };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

const NAME = /^[A-Za-z0-9._-]{1,64}$/;
const WRITE_EVERY_MS = 60_000;
const LOOK_EVERY_MS = 2_000;

/** A reused pid is another process. Not all systems say the start of one. */
function hasEnded(process: TokenEntry['process']): boolean {
  return process !== undefined && ['gone', 'other'].includes(ownerOf(process));
}

/**
 * Counts the requests of one token. It owns how many it may begin now.
 *
 * 1. A token may begin its requests of a minute at once. Each comes back after its part of the
 *    minute.
 * 2. A refused request counts nothing.
 */
export class Meter {
  private readonly now: () => number;
  private open = 0;
  /** Open requests that began a run, which counts instead of them. */
  private running = 0;
  private readonly allowance = new Allowance();

  constructor(now: () => number) {
    this.now = now;
  }

  /** One request, which may begin. */
  request(entry: Bounds): Pick<Holder, 'begin' | 'others' | 'ran'> {
    let hasRun = false;
    return {
      begin: () => {
        const end = this.begin(entry);
        return () => {
          if (end() && hasRun) this.running -= 1;
        };
      },
      others: () => this.open - this.running - (hasRun ? 0 : 1),
      ran: () => {
        if (!hasRun) this.running += 1;
        hasRun = true;
      },
    };
  }

  /** Returns what ends the request; true if it was open. Throws rate_limited. */
  private begin({ name, rate, concurrent }: Bounds): () => boolean {
    if (concurrent !== null && this.open >= concurrent)
      throw refusal(
        `The token ${name} has ${this.open} requests in progress, as many as it may have.`,
        RETRY_AFTER_MS,
      );
    if (rate !== null) {
      const early = this.allowance.take(this.now(), MINUTE_MS / rate, MINUTE_MS);
      if (early > 0)
        throw refusal(`The token ${name} may send ${rate} requests a minute.`, Math.ceil(early));
    }
    this.open += 1;
    let isOpen = true;
    return () => {
      const wasOpen = isOpen;
      if (isOpen) this.open -= 1;
      isOpen = false;
      return wasOpen;
    };
  }
}

type Bounds = Pick<TokenEntry, 'name' | 'rate' | 'concurrent'>;

function refusal(message: string, retry_after_ms: number): SvcError {
  return new SvcError('rate_limited', message, { details: { retry_after_ms } });
}

const MINUTE_MS = 60_000;
