import type { Effects } from '../../../machines/effects.ts';
import type { EngineSnapshot } from '../../../machines/engine.ts';
import type { EngineEvent, NewEvent } from '../../../machines/events.ts';
import { isIn } from '../../../machines/step.ts';
import type { EffectHandlers, Log } from '../../kernel/port.ts';
import type { Limits } from '../../limits.ts';
import { type Answer, engineError } from './answer.ts';
import type { LoadOrder, RunOrder } from './engine/messages.ts';
import { EngineProcess, notStarted } from './engine-process.ts';
import type { LoadGuard } from './load-guard.ts';
import { Turns } from './turns.ts';
import { type EnginePort, waitForEngine } from './wait-for-engine.ts';

export interface LocalEngineOptions {
  engine: EnginePort;
  load: Omit<LoadOrder, 'type' | 'path'>;
  env: NodeJS.ProcessEnv;
  limits: Limits;
  log: Log;
  /** The built-in model: its chat template is trusted. */
  built_in: string;
  guard: Pick<LoadGuard, 'admit' | 'readmit' | 'noteFailure' | 'noteLoaded'>;
}

export interface ModelFile {
  /** `local/name`. */
  id: string;
  name: string;
  path: string;
}

type FindModel = () => Promise<ModelFile>;
type Order = Omit<RunOrder, 'type' | 'id'>;
/** False: the process cannot be used. */
type Use = (process: EngineProcess) => boolean | Promise<boolean>;

/**
 * The engine process, driven by the engine machine.
 *
 * 1. Only effects of the machine start, stop or kill the process. Callers append events and wait.
 * 2. Callers wait in a queue, so that two models do not prevent each other from loading.
 * 3. A load without a waiting caller is stopped. So is the load of another model than the next
 *    caller needs.
 * 4. The machine is busy from before the first order of a process until after its last.
 */
export class LocalEngine {
  readonly handlers: Pick<EffectHandlers, 'startEngine' | 'stopEngine' | 'killEngine'>;
  private readonly options: LocalEngineOptions;
  private readonly turns = new Turns();
  private process: EngineProcess | null = null;

  constructor(options: LocalEngineOptions) {
    this.options = options;
    this.handlers = {
      startEngine: (started) => this.start(started),
      stopEngine: ({ attempt }) => this.find(attempt)?.stop(),
      killEngine: ({ attempt }) => this.kill(attempt),
    };
  }

  /** Loads the model if needed. Throws the errors of `find`, SvcError, or the signal's reason. */
  async warm(find: FindModel, signal: AbortSignal): Promise<void> {
    await this.take(find, null, signal, () => true);
  }

  /**
   * Loads the model and asks it for an answer, with the given number of threads. An abort asks
   * the engine to stop; then the answer ends.
   */
  async ask(
    find: FindModel,
    order: Order,
    threads: number | null,
    signal: AbortSignal,
  ): Promise<{ answer: Answer; stop(): void }> {
    const process = await this.take(find, threads, signal, (found) => this.beginWork(found));
    const { id, answer } = process.ask(order);
    const stop = this.stopper(process, id, answer);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    void answer.ended.then(() => {
      signal.removeEventListener('abort', stop);
      if (process.leave()) this.report({ type: 'engine.work_finished' });
      if (answer.failure?.code === 'engine_timed_out')
        void this.options.guard.noteFailure(process, answer.failure);
    });
    return { answer, stop };
  }

  /** Kills the process without the machine, for when no events can be appended. */
  async close(): Promise<void> {
    this.process?.kill();
    await this.process?.gone;
  }

  /** Returns the process with the model loaded, in the caller's turn. */
  private async take(
    find: FindModel,
    threads: number | null,
    signal: AbortSignal,
    use: Use,
  ): Promise<EngineProcess> {
    let endTurn = () => {};
    try {
      endTurn = await this.turns.take(signal);
      return await this.reach(await find(), threads, signal, use);
    } finally {
      endTurn();
      if (this.turns.wanted === 0 && isLoading(this.options.engine.snapshot()))
        this.report({ type: 'engine.stop_requested', reason: 'requested' });
    }
  }

  private start(started: Effects['startEngine']): void {
    const { built_in, env, limits, log } = this.options;
    const load = {
      ...this.options.load,
      ...(started.path === built_in ? { template_ms: null } : {}),
    };
    if (this.process?.attempt === started.attempt) return;
    try {
      this.process = new EngineProcess({
        started,
        load,
        env,
        limits,
        log,
        report: (event) => this.report(event),
      });
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

  /** Appends events until the engine is warm with the model and `use` agrees. */
  private reach(
    model: ModelFile,
    threads: number | null,
    signal: AbortSignal,
    use: Use,
  ): Promise<EngineProcess> {
    const { engine, guard } = this.options;
    let asked = 0;
    return waitForEngine(engine, signal, async (snapshot) => {
      const { attempt, path, error, info } = snapshot.context;
      const wanted =
        path === model.path &&
        (threads === null || info === null || threads === info.threads || asked === attempt);
      if (asked === attempt && error !== null) {
        await guard.noteFailure(model, error);
        throw engineError(error);
      }
      if (isIn(snapshot, 'cold')) {
        await guard.admit(model);
        const accepted = await engine.tryAppend({
          type: 'engine.load_requested',
          attempt: attempt + 1,
          model: model.id,
          path: model.path,
          ...(threads === null ? {} : { threads }),
        });
        if (accepted) asked = attempt + 1;
      } else if (isIn(snapshot, 'warm') && wanted) {
        await guard.readmit(model);
        const process = this.find(attempt);
        guard.noteLoaded(model);
        return process !== null && (await use(process)) ? process : null;
      } else if (isIn(snapshot, 'idle') || (isLoading(snapshot) && path !== model.path)) {
        // Check the new file first: a refused file must not unload the current one.
        await guard.admit(model);
        await engine.tryAppend({ type: 'engine.stop_requested', reason: 'model_changed' });
      }
      return null;
    });
  }

  private async beginWork(process: EngineProcess): Promise<boolean> {
    if (!process.enter() || (await this.options.engine.tryAppend({ type: 'engine.work_started' })))
      return true;
    process.leave();
    return false;
  }

  /**
   * A load that does not let the process stop counts as a failure, though no caller waits for it.
   */
  private kill(attempt: number): void {
    const process = this.find(attempt);
    process?.kill();
    const hung = { code: 'engine_timed_out', retryable: true };
    if (process?.isLoading) void this.options.guard.noteFailure(process, hung);
  }

  /** Stops the whole engine if it does not stop the work in time. */
  private stopper(process: EngineProcess, id: number, answer: Answer): () => void {
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
      void answer.ended.then(() => clearTimeout(timer ?? undefined));
    };
  }

  /** Returns the process of an attempt. If there is none, reports its exit to the machine. */
  private find(attempt: number): EngineProcess | null {
    if (this.process?.attempt === attempt) return this.process;
    this.report({ type: 'engine.exited', attempt, exit_code: null, signal: null });
    return null;
  }

  private report(event: NewEvent<EngineEvent>): void {
    const { engine, log } = this.options;
    engine
      .tryAppend(event)
      .catch((error: unknown) =>
        log.debug({ err: error, event: event.type }, 'a event of the engine was not recorded'),
      );
  }
}

/** Before the first event there is no machine. */
function isLoading(snapshot: EngineSnapshot | undefined): boolean {
  return isIn(snapshot, 'starting') || isIn(snapshot, 'loading');
}
