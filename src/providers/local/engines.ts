import type { ModelNeeds } from '../../../machines/runs-to-start.ts';
import { setNewest } from '../../async/newest.ts';
import type { Fit } from '../../contract/model-record.ts';
import { keyOf, type Purpose, readMeasured } from '../../engine/index.ts';
import { SvcError } from '../../errors.ts';
import { LOCAL_RUNS } from '../../limits.ts';
import type { ContextPlan, MemoryThere, ModelShape } from '../../models/index.ts';
import type { EffectHandlers } from '../../ports/log.ts';
import type { LoadedModels, LocalRoom } from '../../ports/providers.ts';
import type { Reply } from './answer.ts';
import {
  type EngineOrder,
  type EngineProcess,
  type EngineSettings,
  prepareModel,
} from './engine-process.ts';
import {
  type EnginePort,
  isLoading,
  ModelEngine,
  type ModelEngineOptions,
  type Needs,
  type StartedReply,
} from './model-engine.ts';
import { type ModelFile, variantOf } from './model-files.ts';
import { ModelMemory } from './model-memory.ts';
import { loadedRecord } from './model-record.ts';
import { prepareServer, type ServerProcess } from './servers/server-process.ts';

/** The machines of the engines. */
export interface EnginePorts {
  /** Creates the machine of one more engine. */
  create(number: number): Promise<EnginePort>;
  /** Drops a machine without a process. */
  forget(number: number): void;
}

/** The purpose and settings that a run needs of a model. */
export interface Asking<R extends Reply> {
  purpose?: Purpose;
  /** The order for the file of the model. */
  order(model: ModelFile): EngineOrder;
  needs: Needs;
  /** Makes the reply, given the threads that compute it. */
  reply(threads: number | null): R;
}

export interface EnginesOptions
  extends EngineSettings,
    Pick<ModelEngineOptions<EngineProcess>, 'guard'> {
  engines: EnginePorts;
  /** Finds the file of a name. Throws SvcError. */
  find(name: string): Promise<ModelFile>;
  /** Which file it is. Null: it cannot be read. */
  identify(model: ModelFile): Promise<string | null>;
  /** How long models stay in memory without work, by name. */
  keep: Readonly<Record<string, number>>;
  budget_bytes: number;
  /** Bytes of memory that are free. Absent: those of this machine. */
  free?: () => number;
  /** Milliseconds since the epoch, as in the events of the engines. */
  now(): number;
}

/**
 * The engines of all models: one process, and one machine, for each model in memory.
 *
 * 1. A model has at most one engine for each purpose. It keeps its machine while there are few.
 * 2. `memory` decides which engines have a process.
 * 3. The needs of a model are learned before its runs start.
 */
export class Engines implements LocalRoom {
  readonly handlers: Pick<EffectHandlers, 'startEngine' | 'stopEngine' | 'killEngine'>;
  /** The names of models that runs wait for. */
  queued: () => ReadonlySet<string> = () => new Set();
  private readonly options: EnginesOptions;
  private readonly memory: ModelMemory;
  private readonly byKey = new Map<string, Promise<ModelEngine>>();
  private readonly byNumber = new Map<number, ModelEngine>();
  private count = 0;
  /** By name of a model: its file, and the memory that it needs. */
  private readonly learned = new Map<string, ModelNeeds>();
  private readonly learning = new Set<string>();
  /** By path: how long the last request keeps the model. */
  private readonly kept = new Map<string, number>();
  private readonly listeners: (() => void)[] = [];
  /** Memory of the GPU, as the last load found it. */
  private gpu_bytes: MemoryThere['gpu_bytes'] = null;

  constructor(options: EnginesOptions) {
    this.options = options;
    const bounds = { bytes: options.budget_bytes, models: options.limits.local_engines };
    const { engine_turn_ms: turn_ms, engine_turn_max_ms: turn_max_ms } = options.limits;
    this.memory = new ModelMemory({
      bounds,
      engine_bytes: options.limits.engine_memory_bytes,
      turns: { turn_ms, turn_max_ms },
      isWanted: (path) => [...this.queued()].some((name) => this.learned.get(name)?.key === path),
      now: options.now,
      free: options.free,
    });
    void readMeasured(options.load.threads_file, 'gpu_bytes').then((known) => {
      this.gpu_bytes ??= Object.values(known).at(-1) ?? null;
    });
    this.handlers = {
      startEngine: (started) => this.byNumber.get(started.engine)?.start(started),
      stopEngine: ({ engine, attempt }) => this.byNumber.get(engine)?.stop(attempt),
      killEngine: ({ engine, attempt }) => this.byNumber.get(engine)?.kill(attempt),
    };
  }

  get bytes(): number {
    return this.memory.bounds.bytes;
  }

  get models(): number {
    return this.memory.bounds.models;
  }

  /** Whether a model fits the memory: by its shape, or by the size of its file alone. */
  fit(model: ModelShape | { weights: number }, purpose: Purpose = 'answers'): Fit {
    const { gpu_layers } = this.options.load;
    const plan = this.contextOf(purpose);
    return this.memory.fit(model, plan, { gpu_bytes: this.gpu_bytes, gpu_layers });
  }

  residents(now: number) {
    return this.memory.residents(now);
  }

  restEnds(now: number): number | null {
    return this.memory.restEnds(now);
  }

  find(name: string): ModelNeeds | undefined {
    return this.learned.get(name);
  }

  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  /**
   * Finds the model and its needs, unless they are known. A model that cannot load needs nothing.
   */
  learn(name: string): void {
    if (this.learned.has(name) || this.learning.has(name)) return;
    this.learning.add(name);
    void this.needsOf(name)
      .catch((): ModelNeeds => ({ key: name, bytes: 0 }))
      .then((needs) => {
        this.learning.delete(name);
        this.remember(name, needs);
        this.tell();
      });
  }

  /** Loads the model if needed. Throws SvcError, or the signal's reason. */
  async warm(name: string, signal: AbortSignal): Promise<void> {
    const engine = await this.engineOf(await this.modelAt(name));
    await engine.warm(signal);
  }

  /** The same. Then its time without work begins again. */
  async renew(model: ModelFile, signal: AbortSignal): Promise<void> {
    const engine = await this.engineOf(model);
    await engine.renew(signal);
  }

  /**
   * Loads the model as it is needed and gives it an order, with the context that the order wants.
   * An abort asks the engine to stop; then the reply ends. Throws SvcError, or the signal's reason.
   */
  async ask<R extends Reply>(
    name: string,
    { purpose, order: orderFor, needs, reply }: Asking<R>,
    signal: AbortSignal,
  ): Promise<StartedReply<R>> {
    const model = await this.modelAt(name);
    const order = orderFor(model);
    const { lora, context_tokens = needs.context_tokens } =
      order.type === 'run' ? order.options : {};
    const scaled = await this.withScales(model, lora);
    const engine = (await this.engineOf(scaled, purpose)) as ModelEngine<EngineProcess>;
    return engine.ask(order, reply, { ...needs, context_tokens }, signal);
  }

  /** How long the model stays in memory from now on. It counts from its last work. */
  keep(path: string, idle_ms: number): void {
    setNewest(this.kept, path, idle_ms, ENGINES_KEPT);
  }

  stateOf(path: string): 'available' | 'loading' | 'loaded' {
    const snapshots = this.at(path).map(({ snapshot }) => snapshot);
    if (snapshots.some((snapshot) => snapshot.hasTag('loaded'))) return 'loaded';
    return snapshots.some(isLoading) ? 'loading' : 'available';
  }

  /** How much of a model that runs wait for is loaded. Null: it is not being loaded. */
  loadingOf(name: string): number | null {
    const key = this.learned.get(name)?.key ?? name;
    const engine = [...this.byNumber.values()].find((each) => each.key === key);
    return engine?.progress ?? null;
  }

  /** Resolves when no process uses the file. Throws model_in_use. */
  async unload(path: string, signal: AbortSignal): Promise<void> {
    for (const engine of this.at(path)) await this.unloadOne(engine, signal);
  }

  private async unloadOne(engine: ModelEngine, signal: AbortSignal): Promise<void> {
    const inUse = (cause?: unknown) =>
      new SvcError('model_in_use', 'Runs are using the model, or it is being loaded.', {
        param: 'model',
        cause,
      });
    await engine.engine
      .waitFor(async (snapshot) => {
        if (snapshot.hasTag('absent') || snapshot.hasTag('failing')) return true;
        if (!snapshot.hasTag('leaving') && !(await engine.unload('requested'))) throw inUse();
        return null;
      }, signal)
      .catch((error: unknown) => {
        throw error instanceof SvcError ? error : inUse(error);
      });
  }

  listLoaded(now: number): LoadedModels {
    const engines = [...this.byNumber.values()].filter(
      ({ snapshot }) => !snapshot.hasTag('absent'),
    );
    return {
      models: engines.map((engine) => loadedRecord(engine, this.memory.reservedBytes(engine), now)),
      budget_bytes: this.memory.bounds.bytes,
      reserved_bytes: this.memory.usedBytes,
    };
  }

  /** Kills all processes without their machines, for when no events can be appended. */
  async close(): Promise<void> {
    await Promise.all([...this.byNumber.values()].map((engine) => engine.close()));
  }

  private tell(): void {
    for (const listener of this.listeners) listener();
  }

  /** The engine of a server, with its machine. */
  serverEngine(model: ModelFile): Promise<ModelEngine<ServerProcess>> {
    return this.engineOf(model) as Promise<ModelEngine<ServerProcess>>;
  }

  private async modelAt(name: string): Promise<ModelFile> {
    const model = await this.options.find(name);
    const known = this.learned.get(name);
    if (known !== undefined && known.key !== model.path) this.learned.delete(name);
    return model;
  }

  /**
   * The model with adapters of these scales, by id. One that is not named has none, as at
   * llama-server. Throws capability_missing.
   */
  private async withScales(
    model: ModelFile,
    lora: Readonly<Record<string, number>> | undefined,
  ): Promise<ModelFile> {
    if (lora === undefined) return model;
    const adapters = await this.options.adaptersOf(model);
    const unknown = Object.keys(lora).find((id) => adapters[Number(id)] === undefined);
    if (unknown !== undefined)
      throw new SvcError(
        'capability_missing',
        `${model.name} has no adapter with the id ${unknown}: it has ${adapters.length}.`,
        { param: 'lora', hint: 'The setting model_adapters names the adapters of a model.' },
      );
    const scales = adapters.map((_, id) => lora[id] ?? 0);
    return scales.every((scale, id) => scale === adapters[id]?.scale)
      ? model
      : { ...model, scales };
  }

  private engineOf(model: ModelFile, purpose: Purpose = 'answers'): Promise<ModelEngine> {
    const key = keyOf(model.path, purpose, variantOf(model));
    let engine = this.byKey.get(key);
    if (engine === undefined) {
      engine = this.create(model, purpose);
      this.byKey.set(key, engine);
      engine.catch(() => this.byKey.delete(key));
    }
    return engine;
  }

  private async create(model: ModelFile, purpose: Purpose): Promise<ModelEngine> {
    const { engines, keep } = this.options;
    this.forgetOne();
    this.count += 1;
    const number = this.count;
    const port = await engines.create(number);
    const wanted = this.contextOf(purpose);
    const { batch: _, attention: __, ...context } = wanted;
    const ownMs = keep[model.id] ?? keep[model.name];
    const usualMs = () => ownMs ?? this.options.limits.engine_idle_ms;
    const { server } = model;
    const settings = { ...this.options, load: { ...this.options.load, ...context, purpose } };
    const grow = (attempt: number, bytes: number) => this.memory.grow(engine, attempt, bytes);
    const engine: ModelEngine = new ModelEngine<EngineProcess | ServerProcess>({
      ...settings,
      ...(server === undefined ? {} : { identify: async () => null }),
      engine: port,
      model,
      prepare: (file) =>
        server === undefined
          ? prepareModel(model, settings, file)
          : prepareServer(server, settings, grow),
      reserve: (shape, contextTokens, signal) => {
        const context_tokens = contextTokens ?? wanted.context_tokens;
        const batch = purpose === 'answers' ? {} : { batch: context_tokens };
        const plan = { ...wanted, context_tokens, ...batch };
        return this.memory.reserve(engine, shape, plan, signal);
      },
      release: (attempt) => this.memory.release(engine, attempt),
      keepMs: () => this.kept.get(model.path) ?? ownMs,
    });
    this.byNumber.set(number, engine);
    port.subscribe(() => {
      engine.noteTurn();
      this.memory.note(engine);
      this.gpu_bytes = engine.snapshot.context.info?.gpu_bytes ?? this.gpu_bytes;
      // The time was for the earlier work. A later load gives the machine the usual time.
      if (this.kept.get(model.path) === 0 && engine.snapshot.hasTag('absent'))
        this.kept.set(model.path, usualMs());
      this.tell();
    });
    return engine;
  }

  /** Drops the machine of an engine without a process, if there are many machines. */
  private forgetOne(): void {
    if (this.byNumber.size < ENGINES_KEPT) return;
    for (const [number, engine] of this.byNumber) {
      if (engine.waiting > 0 || !engine.snapshot.hasTag('absent')) continue;
      this.byNumber.delete(number);
      this.byKey.delete(engine.key);
      this.options.engines.forget(number);
      return;
    }
  }

  /** The engines of a file. */
  private at(path: string): ModelEngine[] {
    return [...this.byNumber.values()].filter(({ model }) => model.path === path);
  }

  private async needsOf(name: string): Promise<ModelNeeds> {
    const model = await this.options.find(name);
    const shape = await this.options.guard.admit(model);
    const { bytes, parallel } = this.memory.plan(shape, this.contextOf('answers'));
    // A model that is too large is refused when a run needs it, and takes no room.
    return { key: model.path, bytes: bytes > this.bytes ? 0 : bytes, runs: parallel };
  }

  /** Vectors are computed one after the other, each in one batch. */
  private contextOf(purpose: Purpose): ContextPlan {
    const { parallel, context_tokens, attention } = this.options.load;
    // The cache of more runs would take the place of layers.
    const runs = this.gpu_bytes === null ? parallel : parallel || LOCAL_RUNS.least;
    if (purpose === 'answers') return { parallel: runs, context_tokens, attention };
    const batch = Math.min(context_tokens, EMBED_TOKENS.usual);
    return { parallel: 1, context_tokens: batch, batch };
  }

  private remember(name: string, needs: ModelNeeds): void {
    setNewest(this.learned, name, needs, this.options.limits.local_models);
    if (needs.bytes === 0) setTimeout(() => this.learned.delete(name), AGAIN_MS).unref();
  }
}

/**
 * Tokens of a text of an embedding: in the context that is usual, and at most. The text is one
 * batch, and each token of a batch needs memory for the whole vocabulary.
 */
export const EMBED_TOKENS = { usual: 512, most: 2048 };
/** Machines of engines in memory, with and without a process. */
const ENGINES_KEPT = 64;
/** A model that could not load may be another file by then. */
const AGAIN_MS = 1000;
