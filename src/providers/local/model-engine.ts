import type { Effects } from '../../../machines/effects.ts';
import type { EngineEvent, EngineSnapshot } from '../../../machines/engine.ts';
import { type ModelTurn, noTurn, turnAfter } from '../../../machines/engine-room.ts';
import type { NewEvent } from '../../../machines/events.ts';
import { isIn } from '../../../machines/step.ts';
import type { Completion } from '../../contract/events.ts';
import { keyOf, type LoadOrder, type Purpose } from '../../engine/index.ts';
import { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import type { ModelShape } from '../../models/index.ts';
import type { Log, StreamPort } from '../../ports/log.ts';
import { engineError, type Reply } from './answer.ts';
import { type EngineChild, type EngineChildOptions, startFailureOf } from './engine-child.ts';
import type { EngineOrder, EngineProcess } from './engine-process.ts';
import type { LoadGuard } from './load-guard.ts';
import { type ModelFile, variantOf } from './model-files.ts';
import { shortIdentity } from './model-identity.ts';

/** The machine of an engine. */
export type EnginePort = StreamPort<EngineSnapshot, EngineEvent>;

/** How a process has to be loaded. Null: any way will do. */
export interface Needs {
  threads: number | null;
  /** The least context of one run. */
  context_tokens: number | null;
  /** The identity of the model. No other load can change it. */
  model_file: string | null;
}
export const ANY: Needs = { threads: null, context_tokens: null, model_file: null };

/** Starts the process of one attempt, with a context for so many runs. */
export type Spawn<P> = (
  started: Pick<EngineChildOptions, 'started' | 'report'>,
  parallel: number,
) => P;

export interface ModelEngineOptions<P> {
  load: Pick<LoadOrder, 'purpose' | 'parallel' | 'context_tokens'>;
  limits: Limits;
  log: Log;
  guard: Pick<LoadGuard, 'admit' | 'readmit' | 'noteFailure' | 'noteLoaded'>;
  engine: EnginePort;
  model: ModelFile;
  /** Which model it is. Null: it cannot be read. */
  identify(model: ModelFile): Promise<string | null>;
  /** Determines the needs of the next process. `file`: the file of the model. */
  prepare(file: Promise<string | null>): Promise<Spawn<P>>;
  /**
   * Waits for memory for the next process, with this context or the usual one. Returns how many
   * runs its context is for. Throws model_too_large, and the signal's reason.
   */
  reserve(
    shape: ModelShape,
    context_tokens: number | null,
    signal: AbortSignal,
  ): Promise<{ parallel: number }>;
  /** The load of this attempt did not begin. */
  release(attempt: number): void;
  /** How long the model stays in memory without work. Undefined: the default. */
  keepMs(): number | undefined;
}

/** Work at a process. */
export interface StartedWork<P> {
  process: P;
  /** How long it waited for the load, if it did. */
  waited: Pick<Completion, 'load_ms'>;
  /** Call it once, when the work has ended. */
  end(): void;
}

/** An order that llama.cpp has. */
export interface StartedReply<R> extends Pick<StartedWork<EngineProcess>, 'waited'> {
  reply: R;
  stop(): void;
  /** The identity of the file that answers. */
  model_file: string | null;
}

/**
 * The engine of one model: its process, driven by its engine machine.
 *
 * 1. Only effects of the machine start, stop or kill the process. Callers append events and wait.
 * 2. Callers wait in a queue, so that two numbers of threads do not prevent each other's load.
 * 3. A load without a waiting caller is stopped.
 * 4. The machine is busy from before the first order of a process until after its last.
 */
export class ModelEngine<P extends EngineChild = EngineChild> {
  readonly model: ModelFile;
  readonly engine: EnginePort;
  /** When its last work began, on the monotonic clock. */
  usedAt = 0;
  /** Its turn in memory. */
  turn: ModelTurn = noTurn;
  private readonly options: ModelEngineOptions<P>;
  private readonly turns = new Turns();
  private process: P | null = null;
  /** Starts the next process, once a load has prepared it. */
  private spawn: (started: Effects['startEngine']) => P = () => {
    throw new SvcError('engine_failed');
  };
  /** The identity of the file that the process has, or loads. */
  private file: Promise<string | null> = Promise.resolve(null);

  constructor(options: ModelEngineOptions<P>) {
    this.options = options;
    this.model = options.model;
    this.engine = options.engine;
  }

  get purpose(): Purpose {
    return this.options.load.purpose;
  }

  /** Each purpose of a file has its own engine. */
  get key(): string {
    return keyOf(this.model.path, this.purpose, variantOf(this.model));
  }

  get snapshot(): EngineSnapshot {
    return this.engine.snapshot();
  }

  /** Call it after each event of the engine. */
  noteTurn(): void {
    this.turn = turnAfter(this.turn, this.snapshot);
  }

  /** Callers that wait for the process to be ready for them. */
  get waiting(): number {
    return this.turns.pendingCount;
  }

  /** Orders that the process has. */
  get orders(): number {
    return this.process?.orders ?? 0;
  }

  /** How much of the model is loaded, from 0 to 1. Null: it is not being loaded. */
  get progress(): number | null {
    return isLoading(this.snapshot) ? (this.process?.progress ?? 0) : null;
  }

  /** Loads the model if needed. Throws SvcError, or the signal's reason. */
  async warm(signal: AbortSignal): Promise<void> {
    await this.take(ANY, signal, () => true);
  }

  /** The same. Then the time without work begins again: the engine is idle when it resolves. */
  async renew(signal: AbortSignal): Promise<void> {
    const { process } = await this.begin(ANY, signal);
    await this.endWork(process);
  }

  /**
   * Loads the model as it is needed and gives its process an order. An abort asks the engine to
   * stop; then the reply ends. Throws SvcError, or the signal's reason.
   */
  async ask<R extends Reply>(
    this: ModelEngine<EngineProcess>,
    order: EngineOrder,
    replyOf: (threads: number | null) => R,
    needs: Needs,
    signal: AbortSignal,
  ): Promise<StartedReply<R>> {
    const { process, waited, end } = await this.begin(needs, signal);
    const model_file = await this.file;
    const { id, reply } = process.ask(order, replyOf);
    const stop = this.stopper(process, id, reply);
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    void reply.ended.then(() => {
      signal.removeEventListener('abort', stop);
      end();
      if (reply.failure?.code === 'engine_timed_out')
        void this.options.guard.noteFailure(process, reply.failure);
    });
    return { reply, stop, waited, model_file };
  }

  /** Stops the whole engine if it does not stop the order in time. */
  private stopper(
    this: ModelEngine<EngineProcess>,
    process: EngineProcess,
    id: number,
    { ended }: Reply,
  ): () => void {
    const { limits, log } = this.options;
    let timer: NodeJS.Timeout | null = null;
    return () => {
      if (timer !== null || !process.stopRun(id)) return;
      timer = setTimeout(() => {
        log.warn(
          { engine_attempt: process.attempt },
          'the engine does not stop its work, so it is stopped itself',
        );
        if (this.process === process)
          this.report({ type: 'engine.stop_requested', reason: 'requested' });
      }, limits.cancel_grace_ms);
      void ended.then(() => clearTimeout(timer ?? undefined));
    };
  }

  /** Ends the process if it has no work. False: it has some. */
  async unload(reason: 'room' | 'requested'): Promise<boolean> {
    if (this.waiting > 0 || isIn(this.snapshot, 'busy')) return false;
    if (this.snapshot.hasTag('free') || isLoading(this.snapshot))
      await this.engine.tryAppend({ type: 'engine.stop_requested', reason });
    return true;
  }

  /** Kills the process without the machine, for when no events can be appended. */
  async close(): Promise<void> {
    this.process?.kill();
    await this.process?.gone;
  }

  start(started: Effects['startEngine']): void {
    const { log } = this.options;
    if (this.process?.attempt === started.attempt) return;
    try {
      this.process = this.spawn(started);
    } catch (error) {
      log.warn({ err: error }, 'trouble with the engine process');
      this.report({
        type: 'engine.load_failed',
        attempt: started.attempt,
        error: startFailureOf(error),
      });
      this.find(started.attempt);
    }
  }

  stop(attempt: number): void {
    this.find(attempt)?.stop();
  }

  /**
   * A load that does not let the process stop counts as a failure, though no caller waits for it.
   */
  kill(attempt: number): void {
    const process = this.find(attempt);
    process?.kill();
    const message = 'It did not stop while it loaded.';
    const hung = { code: 'engine_timed_out', message, retryable: true };
    if (process?.isLoading) void this.options.guard.noteFailure(this.model, hung);
  }

  /** Loads the model as it is needed and begins work. Throws SvcError, or the signal's reason. */
  async begin(needs: Needs, signal: AbortSignal): Promise<StartedWork<P>> {
    const [before, asked_at] = [this.snapshot, performance.now()];
    const process = await this.take(needs, signal, (found) => this.beginWork(found));
    const wasThere = before.hasTag('loaded') && before.context.attempt === process.attempt;
    const waited = wasThere ? {} : { load_ms: Math.round(performance.now() - asked_at) };
    return { process, waited, end: () => void this.endWork(process) };
  }

  /** Returns the process with the model loaded, in the caller's turn. */
  private async take(needs: Needs, signal: AbortSignal, use: Use<P>): Promise<P> {
    let endTurn = () => {};
    try {
      endTurn = await this.turns.take(signal);
      return await this.reach(needs, signal, use);
    } finally {
      endTurn();
      if (this.turns.pendingCount === 0 && isLoading(this.snapshot))
        this.report({ type: 'engine.stop_requested', reason: 'requested' });
    }
  }

  /** Appends events until the engine is warm with the model and `use` agrees. */
  private reach(needs: Needs, signal: AbortSignal, use: Use<P>): Promise<P> {
    const { engine, model } = this;
    const { guard, load } = this.options;
    let ownAttempt = 0;
    return engine.waitFor(async (snapshot) => {
      const { attempt, error } = snapshot.context;
      const wanted = ownAttempt === attempt || canMeet(needs, snapshot, load.context_tokens);
      if (ownAttempt === attempt && error !== null) {
        await guard.noteFailure(model, error);
        throw engineError(error);
      }
      if (snapshot.hasTag('absent')) {
        if (await this.load(attempt + 1, needs, signal)) ownAttempt = attempt + 1;
      } else if (snapshot.hasTag('loaded') && wanted) {
        await guard.readmit(model);
        checkFile(needs, model, await this.file);
        const process = this.find(attempt);
        guard.noteLoaded(model);
        return process !== null && (await use(process)) ? process : null;
      } else if (snapshot.hasTag('free')) {
        await engine.tryAppend({ type: 'engine.stop_requested', reason: 'model_changed' });
      }
      return null;
    }, signal);
  }

  private async load(attempt: number, needs: Needs, signal: AbortSignal): Promise<boolean> {
    const { engine, model } = this;
    const { guard, identify, prepare, keepMs, reserve, release } = this.options;
    const shape = await guard.admit(model);
    const file = identify(model);
    if (needs.model_file !== null) checkFile(needs, model, await file);
    const { threads } = needs;
    const context_tokens = largerContext(needs, this.options.load.context_tokens);
    const { parallel } = await reserve(shape, context_tokens, signal);
    this.file = file;
    this.usedAt = performance.now();
    const spawn = await prepare(file);
    this.spawn = (started) => spawn({ started, report: (event) => this.report(event) }, parallel);
    const idle_ms = keepMs();
    let accepted = false;
    try {
      accepted = await engine.tryAppend({
        type: 'engine.load_requested',
        attempt,
        model: model.id,
        path: model.path,
        ...(threads === null ? {} : { threads }),
        ...(context_tokens === null ? {} : { context_tokens }),
        ...(idle_ms === undefined ? {} : { idle_ms }),
      });
      return accepted;
    } finally {
      if (!accepted) release(attempt);
    }
  }

  private async beginWork(process: P): Promise<boolean> {
    this.usedAt = performance.now();
    if (!process.enter() || (await this.engine.tryAppend({ type: 'engine.work_started' })))
      return true;
    process.leave();
    return false;
  }

  private async endWork(process: P): Promise<void> {
    if (!process.leave()) return;
    const idle_ms = this.options.keepMs();
    const isKnown = idle_ms === undefined || idle_ms === this.snapshot.context.idle_ms;
    await this.record({ type: 'engine.work_finished', ...(isKnown ? {} : { idle_ms }) });
  }

  /** Returns the process of an attempt. If it is gone, reports its exit to the machine. */
  private find(attempt: number): P | null {
    if (this.process?.attempt === attempt) return this.process;
    this.report({ type: 'engine.exited', attempt, exit_code: null, signal: null });
    return null;
  }

  private report(event: NewEvent<EngineEvent>): void {
    void this.record(event);
  }

  /** Resolves when the event is recorded, or refused. Never rejects. */
  private async record(event: NewEvent<EngineEvent>): Promise<void> {
    const { engine, log } = this.options;
    await engine
      .tryAppend(event)
      .catch((error: unknown) =>
        log.debug({ err: error, event: event.type }, 'a event of the engine was not recorded'),
      );
  }
}

/** Throws model_changed if the answer so far is of another file, template or adapter. */
function checkFile({ model_file }: Needs, { name }: ModelFile, found: string | null): void {
  if (model_file === null || model_file === found) return;
  throw new SvcError(
    'model_changed',
    `The answer so far is of another file, template or adapter of ${name}: ` +
      `${shortIdentity(model_file)}. Here it is ${shortIdentity(found)}.`,
  );
}

/** False: the process cannot be used. */
type Use<P> = (process: P) => boolean | Promise<boolean>;

/** Before the first event there is no machine. */
export function isLoading(snapshot: EngineSnapshot | undefined): boolean {
  return snapshot?.hasTag('loading') === true;
}

/** The context to ask for. Null: the usual one is enough. */
function largerContext({ context_tokens }: Needs, usual_tokens: number): number | null {
  return context_tokens !== null && context_tokens > usual_tokens ? context_tokens : null;
}

/**
 * Whether a loaded process meets the needs. A model with less context than requested has enough.
 */
function canMeet(
  needs: Needs,
  { context: { info, context_tokens } }: EngineSnapshot,
  usual_tokens: number,
): boolean {
  const { threads } = needs;
  const larger = largerContext(needs, usual_tokens);
  return (
    (threads === null || info === null || threads === info.threads) &&
    (larger === null || larger <= (context_tokens ?? usual_tokens))
  );
}

/** A queue: one turn at a time, in order. */
class Turns {
  private last: Promise<void> = Promise.resolve();
  private present = 0;

  /** Turns that wait or run. */
  get pendingCount(): number {
    return this.present;
  }

  /**
   * Waits for all earlier turns. Returns a function that ends this turn. Throws the signal's
   * reason and skips the turn.
   */
  async take(signal: AbortSignal): Promise<() => void> {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    this.present += 1;
    const end = () => {
      this.present -= 1;
      resolve();
    };
    const earlier = this.last;
    this.last = earlier.then(() => ended);
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const abort = () => reject(signal.reason);
    try {
      signal.throwIfAborted();
      signal.addEventListener('abort', abort);
      await Promise.race([earlier, aborted]);
      return end;
    } catch (reason) {
      end();
      throw reason;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }
}
