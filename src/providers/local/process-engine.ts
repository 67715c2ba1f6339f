import type { Effects } from '../../../machines/effects.ts';
import type { EngineEvent, EngineSnapshot } from '../../../machines/engine.ts';
import { type ModelTurn, noTurn, turnAfter } from '../../../machines/engine-room.ts';
import type { NewEvent } from '../../../machines/events.ts';
import { isIn } from '../../../machines/step.ts';
import type { Completion } from '../../contract/events.ts';
import { engineError } from './answer.ts';
import { keyOf, type Purpose } from './engine/messages.ts';
import { type EngineChild, notStarted } from './engine-child.ts';
import {
  ANY,
  checkFile,
  type EnginePort,
  isLoading,
  largerContext,
  type ModelEngineOptions,
  type ModelFile,
  meets,
  type Needs,
  type Use,
} from './model-engine-options.ts';

/** Work at a process, which must end. */
export interface StartedWork<P> {
  process: P;
  /** How long it waited for the load, if it did. */
  waited: Pick<Completion, 'load_ms'>;
}

/**
 * The process of one engine, driven by its engine machine.
 *
 * 1. Only effects of the machine start, stop or kill the process. Callers append events and wait.
 * 2. Callers wait in a queue, so that two numbers of threads do not prevent each other's load.
 * 3. A load without a waiting caller is stopped.
 * 4. The machine is busy from before the first order of a process until after its last.
 */
export abstract class ProcessEngine<P extends EngineChild = EngineChild> {
  readonly model: ModelFile;
  readonly engine: EnginePort;
  /** When its last work began, on the monotonic clock. */
  usedAt = 0;
  /** Its turn in memory. */
  turn: ModelTurn = noTurn;
  protected readonly options: ModelEngineOptions;
  private readonly turns = new Turns();
  protected process: P | null = null;
  protected parallel = 1;
  /** The identity of the file that the process has, or loads. */
  protected file: Promise<string | null> = Promise.resolve(null);

  constructor(options: ModelEngineOptions) {
    this.options = options;
    this.model = options.model;
    this.engine = options.engine;
    this.parallel = options.load.parallel;
  }

  get purpose(): Purpose {
    return this.options.load.purpose;
  }

  /** Each purpose of a file has its own engine. */
  get key(): string {
    return keyOf(this.model.path, this.purpose, this.model.scales);
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
    return this.turns.wanted;
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
    const { process } = await this.takeForWork(ANY, signal);
    await this.endWork(process);
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
        error: notStarted(error),
      });
      this.find(started.attempt);
    }
  }

  /** What the next process needs. */
  protected async prepare(): Promise<void> {}

  protected abstract spawn(started: Effects['startEngine']): P;

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

  /** Begins work at the process, with how long that waited for the load, if it did. */
  protected async takeForWork(needs: Needs, signal: AbortSignal): Promise<StartedWork<P>> {
    const [before, asked_at] = [this.snapshot, performance.now()];
    const process = await this.take(needs, signal, (found) => this.beginWork(found));
    const wasThere = before.hasTag('loaded') && before.context.attempt === process.attempt;
    const waited = wasThere ? {} : { load_ms: Math.round(performance.now() - asked_at) };
    return { process, waited };
  }

  /** Returns the process with the model loaded, in the caller's turn. */
  private async take(needs: Needs, signal: AbortSignal, use: Use<P>): Promise<P> {
    let endTurn = () => {};
    try {
      endTurn = await this.turns.take(signal);
      return await this.reach(needs, signal, use);
    } finally {
      endTurn();
      if (this.turns.wanted === 0 && isLoading(this.snapshot))
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
      const wanted = ownAttempt === attempt || meets(needs, snapshot, load.context_tokens);
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
    const { guard, identify, keepMs, reserve, release } = this.options;
    const shape = await guard.admit(model);
    const file = identify(model);
    if (needs.model_file !== null) checkFile(needs, model, await file);
    const { threads } = needs;
    const context_tokens = largerContext(needs, this.options.load.context_tokens);
    const { parallel } = await reserve(shape, context_tokens, signal);
    this.parallel = parallel;
    this.file = file;
    this.usedAt = performance.now();
    await this.prepare();
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

  protected async beginWork(process: P): Promise<boolean> {
    this.usedAt = performance.now();
    if (!process.enter() || (await this.engine.tryAppend({ type: 'engine.work_started' })))
      return true;
    process.leave();
    return false;
  }

  protected async endWork(process: P): Promise<void> {
    if (!process.leave()) return;
    const idle_ms = this.options.keepMs();
    const isKnown = idle_ms === undefined || idle_ms === this.snapshot.context.idle_ms;
    await this.record({ type: 'engine.work_finished', ...(isKnown ? {} : { idle_ms }) });
  }

  /** Returns the process of an attempt. If there is none, reports its exit to the machine. */
  private find(attempt: number): P | null {
    if (this.process?.attempt === attempt) return this.process;
    this.report({ type: 'engine.exited', attempt, exit_code: null, signal: null });
    return null;
  }

  protected report(event: NewEvent<EngineEvent>): void {
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

/** A queue: one turn at a time, in order. */
class Turns {
  private last: Promise<void> = Promise.resolve();
  private present = 0;

  /** Turns that wait or run. */
  get wanted(): number {
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
