import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { type RunRequest, wishesIn } from '../../../machines/messages.ts';
import { asSvcError, SvcError } from '../../errors.ts';
import { packageRoot } from '../../home/paths.ts';
import type { EffectHandlers, Log } from '../../kernel/port.ts';
import type { Limits } from '../../limits.ts';
import type { AttemptRequest, OutputPart, ProviderPort } from '../port.ts';
import type { RunOrder } from './engine/messages.ts';
import { LoadGuard } from './load-guard.ts';
import { LocalEngine } from './local-engine.ts';
import { LocalModels } from './models.ts';
import type { EnginePort } from './wait-for-engine.ts';

export interface LocalProviderOptions {
  engine: EnginePort;
  /** Folder of model files. */
  models: string;
  /** Folder for measurements. */
  cache: string;
  limits: Limits;
  /** Model of a run without a model: `svc-mini`, a name in the models folder, or a path. */
  model: string;
  /** Null: measured at the first load of a model. */
  threads: number | null;
  /** Compute runs in one batch. */
  together?: boolean;
  log: Log;
  env?: NodeJS.ProcessEnv;
}

export interface LocalProvider {
  provider: ProviderPort;
  handlers: Pick<EffectHandlers, 'startEngine' | 'stopEngine' | 'killEngine'>;
  /** Loads the default model before the first run. Throws SvcError. */
  warm(): Promise<void>;
  models: Pick<LocalModels, 'show' | 'remove'>;
}

/**
 * Creates the provider `local`: llama.cpp in an engine process, which the engine machine controls.
 */
export function createLocalProvider({
  engine,
  models: folder,
  cache,
  limits,
  model,
  threads,
  together = false,
  log,
  env = process.env,
}: LocalProviderOptions): LocalProvider {
  const load = {
    threads,
    threads_file: join(cache, 'engine-threads.json'),
    parallel: limits.local_runs,
    context_tokens: limits.engine_context_tokens,
    together,
    template_ms: limits.engine_template_ms,
  };
  const built_in = join(packageRoot(), 'src', 'providers', 'mini', 'svc-mini.gguf');
  const guard = new LoadGuard({ built_in, file: join(cache, 'engine-quarantine.json'), limits });
  const local = new LocalEngine({ engine, load, env, limits, log, built_in, guard });
  const models = new LocalModels({ folder, built_in, default: model, limits, engine });
  const closing = new AbortController();
  const find = (name: string) => models.find(name).catch(throwEngineError);
  let streams = 0;

  async function* stream(
    { run_id, request, resume }: AttemptRequest,
    signal: AbortSignal,
  ): AsyncGenerator<OutputPart> {
    if (streams >= Math.max(limits.local_runs, limits.provider_runs))
      throw new SvcError('provider_busy', 'The engine has its maximum number of runs.', {
        retryable: true,
      });
    streams += 1;
    try {
      const order = { ...orderFor(request, limits), call_key: run_id.replace(/^run_/, ''), resume };
      const threads = threadsFor(resume?.threads ?? null);
      const { answer, stop } = await local.ask(() => find(request.model), order, threads, signal);
      try {
        yield* answer.parts();
      } finally {
        stop();
        await answer.ended;
      }
    } finally {
      streams -= 1;
    }
  }

  async function countTokens(request: RunRequest, signal: AbortSignal): Promise<number> {
    const order = { ...orderFor(request, limits), only_count: true };
    const { answer } = await local.ask(() => find(request.model), order, null, signal);
    for await (const part of answer.parts())
      if (part.type === 'finish' && part.usage.input_tokens !== null)
        return part.usage.input_tokens;
    signal.throwIfAborted();
    throw new SvcError('engine_failed');
  }

  const provider: ProviderPort = {
    id: 'local',
    stream,
    countTokens,
    models: (signal) => models.list(signal),
    probe: async () => {
      await find(model);
      return { models: await models.names().catch(throwEngineError) };
    },
    close: async () => {
      closing.abort(new SvcError('daemon_stopping'));
      await local.close();
    },
  };
  const warm = () => local.warm(() => find(model), closing.signal);
  return { provider, handlers: local.handlers, warm, models };
}

/** A new answer to the request. */
function orderFor(request: RunRequest, limits: Limits): Omit<RunOrder, 'type' | 'id'> {
  const { messages, temperature, seed, max_tokens } = request;
  return {
    messages,
    temperature,
    seed,
    max_tokens: max_tokens ?? limits.output_tokens,
    only_count: false,
    wishes: wishesIn(request),
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

function throwEngineError(thrown: unknown): never {
  throw asSvcError(thrown, 'engine_failed');
}
