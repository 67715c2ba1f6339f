import type { Effects } from '../../machines/effects.ts';
import type { Failure, NewEvent } from '../../machines/events.ts';
import type { PullEvent } from '../../machines/pull.ts';
import { afterPullFailure, type PullSnapshot } from '../../machines/pull.ts';
import type { Fit } from '../contract/model-record.ts';
import type { SvcError } from '../errors.ts';
import { freeBytes } from '../home/disk.ts';
import type { Limits } from '../limits.ts';
import type { Log, StreamPort } from '../ports/log.ts';
import type { FoundModel, PullerPort, PullInput } from '../ports/models.ts';
import { attemptPull } from './attempt.ts';
import type { PullContext } from './context.ts';
import { ANOTHER, asPullError, isAbsent, pullError } from './failure.ts';
import { HubClient } from './hub/client.ts';
import { searchHub } from './hub/search.ts';
import { type ImportInput, importModel } from './import.ts';
import type { Origins } from './origins.ts';
import type { Report } from './report.ts';
import { readHub, readTask, type Task } from './task.ts';

/**
 * Downloads models: the effects of the pull machine.
 *
 * 1. A pull has one attempt at a time: an attempt starts when the one before has ended.
 * 2. At most one pull writes a file.
 * 3. A step is committed before the next one begins. If its event is refused, the attempt stops.
 */

export interface PullerOptions {
  /** The models folder. */
  folder: string;
  env: NodeJS.ProcessEnv;
  limits: Limits;
  log: Log;
  host_boot_id: string | null;
  stream(pull_id: string): StreamPort<PullSnapshot, PullEvent>;
  now(): number;
  origins?: Origins;
  freeBytes?: PullContext['freeBytes'];
  /** Whether a model with a file of this size fits the memory. Absent: unknown. */
  fit?(size_bytes: number): Fit;
}

interface Work {
  abort: AbortController;
  ended: Promise<void>;
}

export class Puller implements PullerPort<Task> {
  private readonly options: PullerOptions;
  private readonly context: PullContext;
  private readonly tasks = new Map<string, Task>();
  private readonly works = new Map<string, Work>();
  /** The pull that writes a file, by file name. */
  private readonly claims = new Map<string, string>();

  constructor(options: PullerOptions) {
    const { folder, env, limits, host_boot_id } = options;
    this.options = options;
    this.context = {
      hubClient: new HubClient(env, limits),
      limits,
      folder,
      host_boot_id,
      origins: options.origins ?? null,
      freeBytes: options.freeBytes ?? freeBytes,
      fit: (size_bytes) => this.fit(size_bytes),
    };
  }

  read(input: PullInput): Task {
    return readTask(input, this.options.env);
  }

  fit(size_bytes: number | null): Fit | null {
    return size_bytes === null ? null : (this.options.fit?.(size_bytes) ?? null);
  }

  search(words: string, signal: AbortSignal): Promise<FoundModel[]> {
    return searchHub(this.context, readHub(this.options.env), words, signal);
  }

  /** Puts a file into the models folder. Resolves with its path. Throws SvcError. */
  import(input: ImportInput, signal: AbortSignal): Promise<string> {
    const isWriting = (file: string) => this.isWriting(file);
    return importModel(input, { ...this.context, isWriting }, signal);
  }

  /** Whether a pull writes this file of the models folder. */
  isWriting(file: string): boolean {
    return this.claims.has(file.toLowerCase());
  }

  accept(pull_id: string, task: Task): void {
    this.tasks.set(pull_id, task);
  }

  release(pull_id: string): void {
    this.tasks.delete(pull_id);
  }

  start({ pull_id, attempt }: Effects['startPull']): void {
    const before = this.works.get(pull_id);
    const abort = new AbortController();
    const ended = Promise.resolve(before?.ended)
      .then(() => this.work(pull_id, attempt, abort))
      .catch((error: unknown) =>
        this.options.log.error({ err: error, pull_id }, 'the outcome of a pull was not recorded'),
      )
      .finally(() => this.works.get(pull_id)?.abort === abort && this.works.delete(pull_id));
    this.works.set(pull_id, { abort, ended });
  }

  stop({ pull_id }: Effects['stopPull']): void {
    const work = this.works.get(pull_id);
    if (work !== undefined) work.abort.abort();
    else
      this.recordEnd(pull_id).catch((error: unknown) =>
        this.options.log.error({ err: error, pull_id }, 'the end of a pull was not recorded'),
      );
  }

  async close(): Promise<void> {
    const works = [...this.works.values()];
    for (const { abort } of works) abort.abort();
    await Promise.all(works.map(({ ended }) => ended));
    await this.context.hubClient.close();
  }

  private async work(pull_id: string, attempt: number, abort: AbortController): Promise<void> {
    const { signal } = abort;
    const { log } = this.options;
    const task = this.tasks.get(pull_id);
    try {
      if (task === undefined)
        throw pullError('pull_failed', 'The daemon does not know this pull any more.');
      if (!signal.aborted)
        await attemptPull({
          task,
          context: this.context,
          report: this.report(pull_id, attempt, abort),
          claim: (file) => this.claim(file, pull_id),
          signal,
        });
    } catch (thrown) {
      const failure = asPullError(thrown);
      if (!signal.aborted) {
        // The event has the message. The cause is for a closer look.
        log.debug(
          {
            pull_id,
            attempt,
            code: failure.code,
            ...(failure.cause === undefined ? {} : { err: failure.cause }),
          },
          failure.message,
        );
        await this.recordFailure(pull_id, attempt, failure);
      }
    } finally {
      for (const [file, owner] of this.claims) if (owner === pull_id) this.claims.delete(file);
    }
    await this.recordEnd(pull_id);
  }

  private claim(file: string, pull_id: string): void {
    // Some file systems ignore case.
    const name = file.toLowerCase();
    const owner = this.claims.get(name);
    if (owner !== undefined && owner !== pull_id)
      throw pullError('busy', `Another pull downloads ${file} now.`, { hint: ANOTHER });
    this.claims.set(name, pull_id);
  }

  private report(pull_id: string, attempt: number, abort: AbortController): Report {
    const stream = this.options.stream(pull_id);
    const append = async (event: NewEvent<PullEvent>) => {
      if (!(await stream.tryAppend(event))) abort.abort();
      abort.signal.throwIfAborted();
    };
    return {
      resolved: (source, offset_bytes) =>
        append({ type: 'pull.resolved', attempt, ...source, offset_bytes }),
      progressed: (bytes) => append({ type: 'pull.progressed', attempt, bytes }),
      downloaded: (bytes, existing) =>
        append({ type: 'pull.downloaded', attempt, bytes, existing }),
      hashed: (bytes) => append({ type: 'pull.hashed', attempt, bytes }),
      verified: (sha256, compared) => append({ type: 'pull.verified', attempt, sha256, compared }),
      completed: (path) => append({ type: 'pull.completed', attempt, path }),
    };
  }

  private async recordFailure(pull_id: string, attempt: number, failure: SvcError): Promise<void> {
    const stream = this.options.stream(pull_id);
    const snapshot: PullSnapshot | undefined = stream.snapshot();
    if (snapshot?.context.attempt !== attempt) return;
    const error: Failure = {
      ...failure.summary(),
      ...(isAbsent(failure) && snapshot.context.bytes_most === 0 ? { retryable: false } : {}),
    };
    const event = afterPullFailure(
      snapshot.context,
      error,
      this.options.now(),
      failure.retryAfterMs,
    );
    // After the download no other attempt is accepted.
    if (!(await stream.tryAppend(event)))
      await stream.tryAppend({ type: 'pull.failed', attempt, error });
  }

  /** Ends a pull that is being cancelled. */
  private async recordEnd(pull_id: string): Promise<void> {
    const stream = this.options.stream(pull_id);
    // After its end a pull has no snapshot.
    const snapshot: PullSnapshot | undefined = stream.snapshot();
    if (snapshot?.matches('cancelling'))
      await stream.tryAppend({ type: 'pull.cancelled', forced: false });
  }
}
