import { readFileSync } from 'node:fs';
import type { Failure } from '../../../machines/events.ts';
import type { Completion } from '../../contract/events.ts';
import { keyOf, type Purpose, readMeasured } from '../../engine/index.ts';
import { SvcError } from '../../errors.ts';
import { writeAtomic } from '../../home/atomic-write.ts';
import { freeMemory } from '../../models/index.ts';
import type { EffectHandlers } from '../../ports/log.ts';
import type { LoadedModels } from '../../ports/providers.ts';
import { engineError, type Reply } from './answer.ts';
import { Engine, type EnginePort } from './engine.ts';
import type { EngineChild, Spawn } from './engine-child.ts';
import {
  type EngineOrder,
  type EngineProcess,
  type EngineSettings,
  prepareModel,
} from './engine-process.ts';
import { admit, readmit } from './load-check.ts';
import { LoadGuard } from './load-guard.ts';
import { type ModelFile, variantOf, withScales } from './model-files.ts';
import { loadedRecord } from './model-record.ts';
import {
  ANY,
  checkFile,
  ENGINES_KEPT,
  largerContext,
  type Needs,
  nextStep,
  Residency,
  type ResidencyOptions,
} from './residency.ts';
import { prepareServer, type ServerProcess } from './servers/server-process.ts';

/** The machines of the engines. */
export interface EnginePorts {
  /** Creates the machine of one more engine. */
  create(number: number): Promise<EnginePort>;
  /** Drops a machine without a process. */
  forget(number: number): void;
}

/** An order for llama.cpp. */
export interface Asking<R extends Reply> {
  purpose?: Purpose;
  order: EngineOrder;
  needs: Needs;
  /** Makes the reply, given the threads that compute it. */
  reply(threads: number | null): R;
}

/** Work at a process. */
export interface StartedWork<P> {
  process: P;
  /** How long it waited for the load, if it did. */
  waited: Pick<Completion, 'load_ms'>;
  /** Call it once, when the work has ended. */
  end(): Promise<void>;
}

/** An order that llama.cpp has. */
export interface StartedReply<R> extends Pick<StartedWork<EngineProcess>, 'waited'> {
  reply: R;
  stop(): void;
  /** The identity of the file that answers. */
  model_file: string | null;
}

export interface EnginesOptions
  extends EngineSettings,
    Pick<ResidencyOptions, 'budget_bytes' | 'keep'> {
  engines: EnginePorts;
  /** Finds the file of a name. Throws SvcError. */
  find(name: string): Promise<ModelFile>;
  /** Which file it is. Null: it cannot be read. */
  identify(model: ModelFile): Promise<string | null>;
  /** The versions of files that are refused. */
  refused_file: string;
  /** Bytes of memory that are free. Absent: those of this machine. */
  free?: (() => number) | undefined;
  /** Milliseconds since the epoch, as in the events of the engines. */
  now(): number;
}

/**
 * The engines of all models: one process, and one machine, for each model in memory.
 *
 * 1. A model has at most one engine for each purpose. It keeps its machine while there are few.
 * 2. `Residency` decides which engines have a process, `LoadGuard` which files are loaded.
 * 3. Callers append events and wait. They wait in a line, so that two numbers of threads do not
 *    prevent each other's load. A load without a waiting caller is stopped.
 */
export class Engines {
  readonly handlers: Pick<EffectHandlers, 'startEngine' | 'stopEngine' | 'killEngine'>;
  readonly residency: Residency<Engine>;
  readonly guard: LoadGuard;
  private readonly options: EnginesOptions;
  private readonly byKey = new Map<string, Promise<Engine>>();
  private readonly byNumber = new Map<number, Engine>();
  private count = 0;
  private isServing = false;
  private hasChanged = false;
  private writing: Promise<void> = Promise.resolve();

  constructor(options: EnginesOptions) {
    const { free = freeMemory } = options;
    this.options = options;
    this.residency = new Residency({ ...options, free, look: (name) => void this.look(name) });
    this.guard = new LoadGuard({ ...options, refused: readText(options.refused_file) });
    void readMeasured(options.load.threads_file, 'gpu_bytes').then((known) => {
      this.residency.gpu_bytes ??= Object.values(known).at(-1) ?? null;
    });
    this.handlers = {
      startEngine: (started) => this.byNumber.get(started.engine)?.start(started),
      stopEngine: ({ engine, attempt }) => this.byNumber.get(engine)?.find(attempt)?.stop(),
      killEngine: ({ engine, attempt }) => this.kill(this.byNumber.get(engine), attempt),
    };
  }

  /** Finds out what a model needs. */
  private async look(name: string): Promise<void> {
    const { options, guard } = this;
    const found = await options
      .find(name)
      .then(async (model) => ({ key: model.path, shape: await admit(model, guard, options) }))
      .catch(() => ({ key: name, shape: null }));
    const { bytes } = this.residency.remember(name, found.key, found.shape);
    if (bytes === 0) setTimeout(() => this.residency.forget(name), AGAIN_MS).unref();
  }

  /** Loads the model if needed. Throws SvcError, or the signal's reason. */
  async warm(model: ModelFile, signal: AbortSignal): Promise<void> {
    await this.take(await this.engineOf(model), ANY, signal, () => true);
  }

  /** The same. Then begins work: after its end the time without work begins again. */
  async enter(model: ModelFile, signal: AbortSignal): Promise<StartedWork<ServerProcess>> {
    return this.begin<ServerProcess>(await this.engineOf(model), ANY, signal);
  }

  /**
   * Loads the model as it is needed and gives it an order, with the context that the order wants.
   * An abort asks the engine to stop; then the reply ends. Throws SvcError, or the signal's reason.
   */
  async ask<R extends Reply>(
    model: ModelFile,
    { purpose, order, needs, reply: replyOf }: Asking<R>,
    signal: AbortSignal,
  ): Promise<StartedReply<R>> {
    const { lora, context_tokens = needs.context_tokens } =
      order.type === 'run' ? order.options : {};
    const scaled =
      lora === undefined ? model : withScales(model, lora, await this.options.adaptersOf(model));
    const engine = await this.engineOf(scaled, purpose);
    const wanted = { ...needs, context_tokens };
    const { process, waited, end } = await this.begin<EngineProcess>(engine, wanted, signal);
    const model_file = await engine.file;
    const { reply, stop } = process.ask(order, replyOf);
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    void reply.ended.then(() => {
      signal.removeEventListener('abort', stop);
      void end();
      if (reply.failure?.code === 'engine_timed_out') void this.noteFailure(model, reply.failure);
    });
    return { reply, stop, waited, model_file };
  }

  stateOf(path: string): 'available' | 'loading' | 'loaded' {
    const engines = this.at(path);
    if (engines.some(({ snapshot }) => snapshot.hasTag('loaded'))) return 'loaded';
    return engines.some(({ isLoading }) => isLoading) ? 'loading' : 'available';
  }

  /** How much of a model that runs wait for is loaded. Null: it is not being loaded. */
  loadingOf(name: string): number | null {
    const key = this.residency.find(name)?.key ?? name;
    return this.all.find((each) => each.key === key)?.progress ?? null;
  }

  listLoaded(now: number): LoadedModels {
    const engines = this.all.filter(({ snapshot }) => !snapshot.hasTag('absent'));
    return {
      models: engines.map((engine) => loadedRecord(engine, this.residency.bytesOf(engine), now)),
      budget_bytes: this.residency.bytes,
      reserved_bytes: this.residency.usedBytes,
    };
  }

  /** Resolves when no process uses the file. Throws model_in_use. */
  async unload(path: string, signal: AbortSignal): Promise<void> {
    const inUse = (cause?: unknown) =>
      new SvcError('model_in_use', 'Runs are using the model, or it is being loaded.', {
        param: 'model',
        cause,
      });
    const look = async (engine: Engine) => {
      const { snapshot } = engine;
      if (snapshot.hasTag('absent') || snapshot.hasTag('failing')) return true;
      if (!snapshot.hasTag('leaving') && !(await engine.unload('requested'))) throw inUse();
      return null;
    };
    for (const engine of this.at(path))
      await engine.changes
        .waitFor(() => look(engine), signal)
        .catch((error: unknown) => {
          throw error instanceof SvcError ? error : inUse(error);
        });
  }

  /** The user says that the server can start now. */
  async pardon(model: ModelFile): Promise<void> {
    if (this.guard.pardon(model)) await this.saveRefusals();
  }

  /**
   * Kills all processes, or those of a file, without their machines, for when no events can be
   * appended.
   */
  async close(path?: string): Promise<void> {
    const engines = path === undefined ? this.all : this.at(path);
    await Promise.all(engines.map((engine) => engine.close()));
  }

  private get all(): Engine[] {
    return [...this.byNumber.values()];
  }

  /** The engines of a file. */
  private at(path: string): Engine[] {
    return this.all.filter(({ model }) => model.path === path);
  }

  private engineOf(model: ModelFile, purpose: Purpose = 'answers'): Promise<Engine> {
    const key = keyOf(model.path, purpose, variantOf(model));
    let engine = this.byKey.get(key);
    if (engine === undefined) {
      engine = this.create(model, purpose);
      this.byKey.set(key, engine);
      engine.catch(() => this.byKey.delete(key));
    }
    return engine;
  }

  private async create(model: ModelFile, purpose: Purpose): Promise<Engine> {
    this.forgetOne();
    this.count += 1;
    const number = this.count;
    const port = await this.options.engines.create(number);
    const wanted = this.residency.contextOf(purpose);
    const engine = new Engine({ model, purpose, wanted }, port, this.options.log);
    this.byNumber.set(number, engine);
    port.subscribe(() => {
      this.residency.note(engine);
      void this.serve();
      engine.changes.notify();
      this.residency.changes.notify();
    });
    return engine;
  }

  /** Drops the machine of an engine without a process, if there are many machines. */
  private forgetOne(): void {
    if (this.byNumber.size < ENGINES_KEPT) return;
    for (const [number, { key, line, snapshot }] of this.byNumber) {
      if (line.length > 0 || !snapshot.hasTag('absent')) continue;
      this.byNumber.delete(number);
      this.byKey.delete(key);
      this.options.engines.forget(number);
      return;
    }
  }

  /** Loads the model as it is needed and begins work. Throws SvcError, or the signal's reason. */
  private async begin<P extends EngineChild>(
    engine: Engine,
    needs: Needs,
    signal: AbortSignal,
  ): Promise<StartedWork<P>> {
    const [before, asked_at] = [engine.snapshot, performance.now()];
    const process = await this.take(engine, needs, signal, (found) => engine.beginWork(found));
    const wasThere = before.hasTag('loaded') && before.context.attempt === process.attempt;
    const waited = wasThere ? {} : { load_ms: Math.round(performance.now() - asked_at) };
    const end = () => engine.endWork(process, this.residency.keepMs(engine.model));
    return { process: process as P, waited, end };
  }

  /** Takes the next place in the line, and appends events until `use` agrees to the process. */
  private async take(
    engine: Engine,
    needs: Needs,
    signal: AbortSignal,
    use: (process: EngineChild) => boolean | Promise<boolean>,
  ): Promise<EngineChild> {
    const { model, line, changes } = engine;
    const place = {};
    let ownAttempt = 0;
    const look = async (): Promise<EngineChild | null> => {
      const { attempt, error } = engine.snapshot.context;
      if (line[0] !== place) return null;
      const isOwn = ownAttempt === attempt;
      if (isOwn && error !== null) {
        await this.noteFailure(model, error);
        throw engineError(error);
      }
      const step = nextStep(engine, needs, isOwn);
      if (step === 'load') {
        if (await this.load(engine, attempt + 1, needs, signal)) ownAttempt = attempt + 1;
      } else if (step === 'use') {
        await readmit(model, this.guard);
        checkFile(needs, model, await engine.file);
        const process = engine.find(attempt);
        this.guard.noteLoaded(model);
        return process !== null && (await use(process)) ? process : null;
      } else if (step === 'replace') {
        await engine.propose({ type: 'engine.stop_requested', reason: 'model_changed' });
      }
      return null;
    };
    line.push(place);
    try {
      return await changes.waitFor(look, signal);
    } finally {
      line.splice(line.indexOf(place), 1);
      changes.notify();
      if (line.length === 0 && engine.isLoading)
        void engine.report({ type: 'engine.stop_requested', reason: 'requested' });
    }
  }

  /** Requests a load, once there is memory for it. False: the machine refused it. */
  private async load(
    engine: Engine,
    attempt: number,
    needs: Needs,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { model, wanted, changes } = engine;
    const shape = await admit(model, this.guard, this.options);
    const file = model.server === undefined ? this.options.identify(model) : Promise.resolve(null);
    if (needs.model_file !== null) checkFile(needs, model, await file);
    const { threads } = needs;
    const context_tokens = largerContext(needs, wanted);
    signal.throwIfAborted();
    const claim = this.residency.claim(engine, shape, context_tokens);
    let isAccepted = false;
    try {
      void this.serve();
      await changes.waitFor(() => claim.isGranted || null, signal);
      engine.file = file;
      engine.used_at = performance.now();
      const spawn = await this.prepare(engine);
      const report = engine.report.bind(engine);
      engine.spawn = (started) => spawn({ started, report }, claim.parallel);
      const idle_ms = this.residency.keepMs(model);
      isAccepted = await engine.propose({
        type: 'engine.load_requested',
        attempt,
        model: model.id,
        path: model.path,
        ...(threads === null ? {} : { threads }),
        ...(context_tokens === null ? {} : { context_tokens }),
        ...(idle_ms === undefined ? {} : { idle_ms }),
      });
      return isAccepted;
    } finally {
      if (!isAccepted) this.residency.release(claim);
      void this.serve();
    }
  }

  private prepare(engine: Engine): Promise<Spawn<EngineChild>> {
    const { model, purpose, wanted, file } = engine;
    if (model.server !== undefined)
      return prepareServer(model.server, this.options, (attempt, bytes) =>
        this.residency.grow(engine, attempt, bytes),
      );
    const { context_tokens } = wanted;
    const load = { ...this.options.load, context_tokens, purpose };
    return prepareModel(model, { ...this.options, load }, file);
  }

  /**
   * Grants memory to those that wait for it, and ends processes that leave for them. One decision
   * follows the other: the next one knows who leaves.
   */
  private async serve(): Promise<void> {
    this.hasChanged = true;
    if (this.isServing) return;
    this.isServing = true;
    while (this.hasChanged) {
      this.hasChanged = false;
      const { granted, leaving } = this.residency.serve(this.options.now());
      for (const { changes } of granted) changes.notify();
      // The event of a caller that waits will fail too.
      for (const engine of leaving) await engine.unload('room').catch(() => false);
    }
    this.isServing = false;
  }

  /**
   * A load that does not let the process stop counts as a failure, though no caller waits for it.
   */
  private kill(engine: Engine | undefined, attempt: number): void {
    const process = engine?.find(attempt);
    process?.kill();
    const message = 'It did not stop while it loaded.';
    const hung = { code: 'engine_timed_out', message, retryable: true };
    if (engine !== undefined && process?.isLoading) void this.noteFailure(engine.model, hung);
  }

  private async noteFailure(
    model: ModelFile,
    failure: Pick<Failure, 'code' | 'message' | 'retryable'>,
  ): Promise<void> {
    if (this.guard.noteFailure(model, failure)) await this.saveRefusals();
  }

  /** A failed write only loses the memory of a restart. */
  private saveRefusals(): Promise<void> {
    const save = () => writeAtomic(this.options.refused_file, this.guard.text).catch(() => {});
    this.writing = this.writing.then(save);
    return this.writing;
  }
}

/** Null: it cannot be read. */
function readText(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}

/** A model that could not load may be another file by then. */
const AGAIN_MS = 1000;
