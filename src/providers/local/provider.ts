import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { anySignal } from '../../async/signals.ts';
import { timeoutSignal } from '../../async/timers.ts';
import { NO_FILES, placeFiles } from '../../cloud/index.ts';
import type { Attention } from '../../contract/attention.ts';
import type { Embedding } from '../../contract/embed-input.ts';
import type { RunRequest } from '../../contract/messages/parts.ts';
import type { Fit } from '../../contract/model-record.ts';
import { optionsIn } from '../../contract/options.ts';
import type { Reading } from '../../contract/reading.ts';
import {
  ATTENTION,
  type Batching,
  type EmbedOrder,
  type GpuLayers,
  PromptFiles,
  type RunOrder,
} from '../../engine/index.ts';
import { asSvcError, SvcError } from '../../errors.ts';
import { packageRoot } from '../../home/paths.ts';
import type { Limits } from '../../limits.ts';
import { defaultBudget } from '../../models/index.ts';
import type { EffectHandlers, Log } from '../../ports/log.ts';
import type {
  AttemptRequest,
  CreatedModel,
  LocalRoom,
  ModelLoads,
  OutputPart,
  ProviderPort,
  ReadInput,
} from '../../ports/providers.ts';
import { Answer, ReadReply, Vectors } from './answer.ts';
import { type EnginePorts, Engines, type StartedReply } from './engines.ts';
import { Inspector } from './inspector.ts';
import type { ModelFile } from './model-files.ts';
import { ModelFinder, type ModelFinderOptions } from './model-finder.ts';
import { LocalModels, type LocalModelsOptions } from './models.ts';
import { ANY, EMBED_TOKENS } from './residency.ts';
import { type MediaPorts, MediaServers, placeOfMedia } from './servers/media-servers.ts';
import type { ServerSpec } from './servers/server-process.ts';
import { createServerProvider } from './servers/server-provider.ts';
import { withDefaults } from './stores/defaults.ts';

export interface LocalProviderOptions {
  engines: EnginePorts;
  /** Folder of model files. */
  models: string;
  /** Folder for measurements. */
  cache: string;
  /** Folder of builds of llama.cpp that the user installed. */
  builds?: string;
  limits: Limits;
  /** Model of a run without a model: `svc-mini`, a name in the models folder, or a path. */
  model: string;
  /** Null: measured at the first load of a model. */
  threads: number | null;
  /** Compute runs that need not be exact in one batch. */
  batching?: Batching;
  /** Layers of each model on a GPU. */
  gpu_layers?: GpuLayers;
  attention?: Attention;
  /** Memory of all models. Null: a share of the memory of the machine. */
  budget_bytes?: number | null;
  /** How long models stay in memory without work, by name. */
  keep?: Readonly<Record<string, number>>;
  /** What else the models folder needs to know. */
  library?: Pick<ModelFinderOptions, 'others' | 'origins' | 'created'> &
    Pick<LocalModelsOptions, 'isWriting' | 'templates' | 'adapters' | 'drafts'>;
  /** Computed prompts may stay in files. */
  keeps_prompts?: boolean;
  /** Whether the history still has a run. Default: it has all. */
  hasRun?: (run_id: string) => Promise<boolean>;
  /** The servers for runs with images and sound. Absent: such runs are refused. */
  media?: MediaPorts;
  log: Log;
  env?: NodeJS.ProcessEnv;
  /** Milliseconds since the epoch, as in the events of the engines. */
  now?: () => number;
  /** Bytes of memory that are free. Absent: those of this machine. */
  free?: () => number;
}

export interface LocalProvider {
  provider: ProviderPort;
  handlers: Pick<EffectHandlers, 'startEngine' | 'stopEngine' | 'killEngine'>;
  /** The provider of a server that svc starts. It is one more engine. `model`: its usual one. */
  serve(server: ServerSpec, model: string): ProviderPort;
  /** Whether a model whose files have this size fits the memory. */
  fit(size_bytes: number): Fit;
  /** Loads the default model before the first run. Throws SvcError. */
  warm(): Promise<void>;
  models: Pick<LocalModels, 'show' | 'check' | 'remove' | 'place'> &
    Pick<ModelFinder, 'default'> &
    ModelLoads;
  /** Which file a model is. Null: it has no file, or it cannot be read. */
  identify(name: string): Promise<string | null>;
  /** The memory of models. */
  room: LocalRoom;
  prompts: Pick<PromptFiles, 'sweep'>;
}

/**
 * Creates the provider `local`: llama.cpp in engine processes, one for each model in memory. Each
 * is controlled by its engine machine.
 */
export function createLocalProvider({
  engines: ports,
  models: folder,
  cache,
  builds,
  limits,
  model,
  threads,
  batching = false,
  gpu_layers = 'auto',
  attention = ATTENTION,
  budget_bytes = null,
  keep = {},
  library = {},
  keeps_prompts = true,
  hasRun,
  media,
  log,
  env = process.env,
  now = Date.now,
  free,
}: LocalProviderOptions): LocalProvider {
  const load = {
    threads,
    threads_file: join(cache, 'engine-threads.json'),
    ...(builds === undefined ? {} : { builds }),
    purpose: 'answers' as const,
    gpu_layers,
    attention,
    parallel: limits.local_runs,
    context_tokens: limits.engine_context_tokens,
    batching,
    template_ms: limits.engine_template_ms,
  };
  const built_in = join(packageRoot(), 'src', 'providers', 'mini', 'svc-mini.gguf');
  const prompts = new PromptFiles({
    cache,
    budget_bytes: keeps_prompts ? limits.prompt_cache_bytes : 0,
    log,
    hasRun,
  });
  const engines = new Engines({
    engines: ports,
    prompts,
    load,
    env,
    limits,
    log,
    built_in,
    refused_file: join(cache, 'engine-quarantine.json'),
    keep,
    now,
    find: (name) => find(name),
    identify: (file) => models.identify(file),
    templatesOf: (file) => models.templatesOf(file),
    adaptersOf: (file) => models.adaptersOf(file),
    budget_bytes: budget_bytes ?? defaultBudget(),
    free,
  });
  const places = { folder, built_in, limits, engines, inspector: new Inspector(limits) };
  const finder = new ModelFinder({ ...places, default: model, ...library });
  const models = new LocalModels({ ...places, finder, attention, ...library });
  const closing = new AbortController();
  const find = async (name: string) => {
    const file = await models.find(name).catch(throwEngineError);
    engines.residency.forget(name, file.path);
    return file;
  };
  const servers = new Map<string, ModelFile>();
  const findLoadable = async (name: string) => servers.get(name) ?? (await find(name));
  let streams = 0;
  const streamsMax = limits.local_engines * Math.max(limits.local_runs, limits.provider_runs);

  async function* stream(attempt: AttemptRequest, signal: AbortSignal): AsyncGenerator<OutputPart> {
    const { run_id, client = '', request, resume } = attempt;
    if (streams >= streamsMax)
      throw new SvcError('provider_busy', 'The engines have their maximum number of runs.', {
        retryable: true,
      });
    streams += 1;
    try {
      const place = placeOfMedia(request);
      const file = await find(request.model);
      if (place !== null && mediaServers !== null && file.path !== built_in)
        return yield* mediaServers.stream(attempt, place, signal);
      const call_key = run_id.replace(/^run_/, '');
      const own = orderFor(withDefaults(request, file.defaults), limits);
      // A run that was computed alone so far stays alone: then it continues identically.
      const exact = own.exact || (resume !== null && !resume.batched);
      const order = { ...own, exact, client, call_key, resume };
      // The threads and file that computed the answer so far.
      const threads = threadsFor(resume?.threads ?? null);
      const needs = { ...ANY, threads, model_file: resume?.model_file ?? null };
      const started = await engines.ask(file, { order, needs, reply: answer }, signal);
      const { reply, stop, waited, model_file } = started;
      try {
        for await (const part of reply.parts())
          if (part.type === 'finish') yield { ...part, ...waited };
          else yield model_file === null ? part : { ...part, model_file };
      } finally {
        stop();
        await reply.ended;
      }
    } finally {
      streams -= 1;
    }
  }

  async function countTokens(request: RunRequest, signal: AbortSignal): Promise<number> {
    const file = await find(request.model);
    const order = orderFor(withDefaults(request, file.defaults), limits);
    const asking = { order: { ...order, only_count: true }, needs: ANY, reply: answer };
    const { reply } = await engines.ask(file, asking, signal);
    for await (const part of reply.parts())
      if (part.type === 'finish' && part.usage.input_tokens !== null)
        return part.usage.input_tokens;
    signal.throwIfAborted();
    throw new SvcError('engine_failed');
  }

  async function read(
    model: string,
    { of, ...options }: ReadInput,
    signal: AbortSignal,
  ): Promise<Reading> {
    const closes = anySignal([signal, closing.signal]);
    const file = await find(model);
    const isText = typeof of === 'string' || !('messages' in of);
    const input = isText ? of : { id: 0, ...orderFor(withDefaults(of, file.defaults), limits) };
    const order = { type: 'read' as const, ...options, of: input };
    const asking = { order, needs: ANY, reply: () => new ReadReply() };
    return wholeOf(await engines.ask(file, asking, closes), closes);
  }

  async function embed(
    model: string,
    purpose: keyof typeof NOT_BUILT_IN,
    wanted: Omit<EmbedOrder, 'type' | 'id'>,
    signal: AbortSignal,
  ): Promise<Embedding> {
    const file = await find(model);
    if (file.path === built_in) {
      const [what, hint] = NOT_BUILT_IN[purpose];
      const message = `The built-in model ${what}.`;
      throw new SvcError('capability_missing', message, { param: 'model', hint });
    }
    const closes = anySignal([signal, closing.signal]);
    const embedWithin = async (context_tokens: number) => {
      const order = { type: 'embed' as const, ...wanted };
      const needs = { ...ANY, context_tokens };
      const asking = { purpose, order, needs, reply: () => new Vectors() };
      return wholeOf(await engines.ask(file, asking, closes), closes);
    };
    const { usual, most } = EMBED_TOKENS;
    const context_tokens = Math.min(most, limits.engine_context_tokens);
    // A larger context takes much memory, so only a text that needs it gets it.
    return embedWithin(usual).catch((error: unknown) => {
      if (asSvcError(error).code !== 'context_length_exceeded' || context_tokens <= usual)
        throw error;
      return embedWithin(context_tokens);
    });
  }

  const provider: ProviderPort = {
    id: 'local',
    stream,
    countTokens,
    read,
    embed: (model, texts: readonly string[], { dimensions = null }, signal) =>
      embed(model, 'embeddings', { texts, dimensions, query: null }, signal),
    rank: async (model, query, texts, signal) => {
      const order = { texts, dimensions: null, query };
      const { vectors, input_tokens } = await embed(model, 'reranking', order, signal);
      return { scores: vectors.map(([score]) => score ?? Number.NaN), input_tokens };
    },
    models: (signal) => models.list(signal),
    listed: () => models.listed,
    probe: async () => {
      const names = models.names().catch(throwEngineError);
      // The names are known, also when the default model is not there.
      await Promise.allSettled([names]);
      await find(finder.default);
      return { models: await names };
    },
    close: async () => {
      closing.abort(new SvcError('daemon_stopping'));
      await engines.close();
    },
  };
  let warming: { path: string; abort: AbortController; ended: Promise<void> } | null = null;
  const warm = async () => {
    const file = await find(finder.default);
    const abort = new AbortController();
    const ended = engines.warm(file, anySignal([closing.signal, abort.signal]));
    warming = { path: file.path, abort, ended };
    await ended.finally(() => {
      warming = null;
    });
  };
  /** The load at the start waits for no request. */
  const endWarming = async (path: string, id: string) => {
    if (warming?.path !== path) return;
    warming.abort.abort(new SvcError('run_cancelled', `${id} was unloaded.`));
    await Promise.allSettled([warming.ended]);
  };
  const loads: ModelLoads = {
    loaded: (now) => engines.listLoaded(now),
    load: async (name, keep_ms, signal) => {
      const model = await findLoadable(name);
      if (model.server !== undefined) await engines.pardon(model);
      if (keep_ms !== null) engines.residency.keep(model.path, keep_ms);
      const { end } = await engines.enter(model, anySignal([signal, closing.signal]));
      await end();
      return model.id;
    },
    unload: async (name) => {
      const { id, path } = await findLoadable(name);
      await endWarming(path, id);
      for (const each of [path, serverName(path)])
        await engines.unload(each, timeoutSignal(UNLOADS * limits.engine_stop_ms));
      return id;
    },
    keep: async (name, keep_ms) => engines.residency.keep((await findLoadable(name)).path, keep_ms),
    serverOf: (id) => (servers.has(serverName(id)) ? serverName(id) : null),
    loading: (name) => engines.loadingOf(name),
  };
  const both = {
    ...loads,
    show: (id: string) => models.show(id),
    check: (created: CreatedModel) => models.check(created),
    remove: (id: string) => models.remove(id),
    place: () => models.place(),
    get default() {
      return finder.default;
    },
    set default(name: string) {
      finder.default = name;
    },
  };
  const identify = async (name: string) => {
    const file = await finder.find(name).catch(() => null);
    return file === null ? null : models.identify(file);
  };
  const startServer = (server: ServerSpec, file: ModelFile) => {
    const { path } = file;
    servers.set(path, file);
    return createServerProvider({
      server,
      model: file,
      env,
      begin: (signal) => engines.enter(file, signal),
      close: () => engines.close(path),
      state: () => engines.stateOf(path),
    });
  };
  const serve = (server: ServerSpec, name: string) => {
    const path = serverName(server.id);
    return startServer(server, { id: `${server.id}/${name}`, name, path, server });
  };
  const mediaServers =
    media === undefined
      ? null
      : new MediaServers({
          ...media,
          limits,
          find,
          originOf: (file) => finder.originOf(file),
          serve: (server, { id, name, path }) =>
            startServer(server, { id, name, path: serverName(path), server }),
        });
  return {
    provider,
    handlers: engines.handlers,
    serve,
    fit: (weights) => engines.residency.fit({ weights }),
    warm,
    models: both,
    identify,
    room: engines.residency,
    prompts,
  };
}

/** Where other engines have the path of a model file. */
function serverName(provider: string): string {
  return `provider:${provider}`;
}

const NOT_BUILT_IN = {
  embeddings: [
    'computes no embeddings',
    'Download a model that does: svc model pull nomic-embed-text',
  ],
  reranking: ['ranks no documents', 'Use a model whose capabilities have reranking.'],
} as const;

/** A process is asked to exit, then killed, then abandoned. */
const UNLOADS = 3;

/** A new answer to the request. */
function orderFor(request: RunRequest, limits: Limits): Omit<RunOrder, 'id'> {
  const { messages, temperature, seed, seed_asked, max_tokens } = request;
  return {
    type: 'run',
    client: '',
    // The engine reads texts.
    messages: placeFiles(messages, NO_FILES),
    temperature,
    seed,
    exact: seed_asked,
    max_tokens: max_tokens ?? limits.output_tokens,
    only_count: false,
    options: { repetition_tokens: limits.repetition_tokens, ...optionsIn(request) },
    call_key: '',
    resume: null,
  };
}

/**
 * Ignores a recorded number above the threads of this machine: that would be hundreds of times
 * slower.
 */
function threadsFor(recorded: number | null): number | null {
  return recorded !== null && recorded <= availableParallelism() ? recorded : null;
}

const answer = (threads: number | null) => new Answer(threads);

/** The whole result of an engine. Throws the reason of the signal, and engine_failed. */
async function wholeOf<T>(
  { reply }: StartedReply<{ readWhole(): Promise<T | null> }>,
  signal: AbortSignal,
): Promise<T> {
  const whole = await reply.readWhole();
  if (whole !== null) return whole;
  signal.throwIfAborted();
  throw new SvcError('engine_failed');
}

function throwEngineError(thrown: unknown): never {
  throw asSvcError(thrown, 'engine_failed');
}
