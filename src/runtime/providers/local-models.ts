import { isoTime } from '../../async/clock.ts';
import type { Config } from '../../config/config.ts';
import type {
  LoadedModelRecord,
  LoadedRecord,
  LoadInput,
  ModelLoad,
  UnloadedModel,
} from '../../contract/contract.ts';
import { asSvcError, SvcError } from '../../errors.ts';
import { LOAD_LOOK_MS } from '../../limits.ts';
import type { LoadedModel, LoadedModels, ModelLoads } from '../../ports/providers.ts';
import { chooseRoutes, type Route } from '../runs/route.ts';
import { LOCAL, type Providers } from './providers.ts';

/** The built-in model answers questions. */
const BUILT_IN = /^svc-mini$/;

export interface LoadsOptions {
  config: Config;
  providers: Pick<Providers, 'settings' | 'listed'>;
  models: ModelLoads;
  /** The target of an unfinished run. */
  requestOf(run_id: string): { provider: string; model: string } | undefined;
  now(): number;
}

/**
 * The local models in memory, for clients. A model is named as in a run. It owns the listeners for
 * the progress of a run's load.
 *
 * 1. The log has no events of a load, so one timer looks at every watched run. It exists while
 *    there is one.
 * 2. A listener hears each change once, and nothing while the model of its run is not loaded.
 */
export class Loads {
  private readonly options: LoadsOptions;
  private readonly watched = new Set<() => void>();
  private timer: NodeJS.Timeout | undefined;

  constructor(options: LoadsOptions) {
    this.options = options;
  }

  /** From memory alone. */
  list(): LoadedRecord {
    return recordOf(this.options.models.loaded(this.options.now()));
  }

  /**
   * Resolves when the model is in memory. Throws the errors of a run's model, such as
   * model_too_large, and the signal's reason. When the last waiting caller aborts, the load stops.
   */
  async load(
    { model, keep_alive_ms = null }: LoadInput,
    signal: AbortSignal,
  ): Promise<LoadedModelRecord> {
    const { models, now } = this.options;
    const id = await models.load(this.nameOf(model), keep_alive_ms, signal);
    const loaded = models.loaded(now()).models.find((each) => each.id === id);
    if (loaded !== undefined) return modelOf(loaded);
    throw new SvcError('engine_crashed', `The model ${id} did not stay in memory.`);
  }

  /** Reports how far the model of a run is loaded, until the returned function is called. */
  watch(run_id: string, listener: (load: ModelLoad) => void): () => void {
    let reported: ModelLoad | null = null;
    const look = () => {
      const load = this.loadOfRun(run_id);
      const isNew = load?.model !== reported?.model || load?.progress !== reported?.progress;
      reported = load;
      if (load !== null && isNew) listener(load);
    };
    this.watched.add(look);
    this.timer ??= setInterval(() => this.lookAtAll(), LOAD_LOOK_MS).unref();
    return () => {
      this.watched.delete(look);
      if (this.watched.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
    };
  }

  private lookAtAll(): void {
    for (const look of this.watched) look();
  }

  /** Null: the model is not being loaded. */
  private loadOfRun(run_id: string): ModelLoad | null {
    const { provider, model = '' } = this.options.requestOf(run_id) ?? {};
    const name = provider === undefined ? null : this.loadNameOf({ provider, model });
    const progress = name === null ? null : this.options.models.loading(name);
    return progress === null ? null : { model, progress };
  }

  /**
   * Resolves when the model is not in memory. `freed_bytes` is null if it was not. Throws
   * model_in_use while it has work.
   */
  async unload(model: string): Promise<UnloadedModel> {
    const { models, now } = this.options;
    const before = models.loaded(now()).models;
    const unloaded = await models.unload(this.nameOf(model));
    const freed = before.filter(({ id }) => id === unloaded);
    const bytes = freed.reduce((sum, { memory_bytes }) => sum + (memory_bytes ?? 0), 0);
    return { unloaded, freed_bytes: freed.length === 0 ? null : bytes };
  }

  /** Unloads the model, after its work if it has any. */
  async release(model: string): Promise<void> {
    try {
      await this.unload(model);
    } catch (error) {
      if (asSvcError(error).code !== 'model_in_use') throw error;
      await this.keep(model, 0);
    }
  }

  /** How long the model stays in memory after its last work. */
  async keep(model: string, keep_alive_ms: number): Promise<void> {
    await this.options.models.keep(this.nameOf(model), keep_alive_ms);
  }

  /** Whether a run with this name computes on this machine. Throws the errors of `chooseRoutes`. */
  isLocal(model: string): boolean {
    return this.loadNameOf(this.routeOf(model, this.options.config)) !== null;
  }

  /** Whether a run with this name uses a model that continues any text. */
  continuesTexts(model: string | null): boolean {
    const { providers, config } = this.options;
    const listed = (id: string) => providers.listed(id);
    const routes = chooseRoutes({ model }, config, providers.settings(), listed);
    return routes.every((route) => route.provider === LOCAL && !BUILT_IN.test(route.model));
  }

  private routeOf(model: string, config: Config): Route {
    const { providers } = this.options;
    const listed = (id: string) => providers.listed(id);
    return chooseRoutes({ model }, config, providers.settings(), listed)[0];
  }

  /** The name of the model at its loader. Null: it is not loaded here. */
  private loadNameOf({ provider, model }: Pick<Route, 'provider' | 'model'>): string | null {
    return provider === LOCAL ? model : this.options.models.serverOf(provider);
  }

  /** A name alone means a local model, whatever provider is the default. */
  private nameOf(model: string): string {
    const route = this.routeOf(model, { ...this.options.config, default_provider: LOCAL });
    const name = this.loadNameOf(route);
    if (name !== null) return name;
    throw new SvcError(
      'invalid_request',
      `The model belongs to ${route.provider}. svc loads and unloads only models of the ` +
        'provider local, and servers that it starts.',
      { param: 'model' },
    );
  }
}

function recordOf({ models, budget_bytes, reserved_bytes }: LoadedModels): LoadedRecord {
  return { models: models.map(modelOf), budget_bytes, reserved_bytes };
}

function modelOf({ since, keep_ms, expires_at, ...rest }: LoadedModel): LoadedModelRecord {
  return {
    ...rest,
    since: isoTime(since),
    keep_alive_ms: keep_ms,
    expires_at: expires_at === null ? null : isoTime(expires_at),
  };
}
