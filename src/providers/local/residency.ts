import type { EngineSnapshot } from '../../../machines/engine.ts';
import {
  type ModelTurn,
  makeRoom,
  restEnds,
  type TurnLimits,
  turnAfter,
  turnEnds,
} from '../../../machines/engine-room.ts';
import type { ModelNeeds, Occupant } from '../../../machines/runs-to-start.ts';
import { setNewest } from '../../async/newest.ts';
import { Notifier } from '../../async/notifier.ts';
import type { Fit } from '../../contract/model-record.ts';
import type { LoadOrder, Purpose } from '../../engine/index.ts';
import { SvcError } from '../../errors.ts';
import { type Limits, LOCAL_RUNS } from '../../limits.ts';
import { type ContextPlan, fitOf, type ModelShape, planFor } from '../../models/index.ts';
import type { LocalRoom } from '../../ports/providers.ts';
import type { ModelFile } from './model-files.ts';
import { shortIdentity } from './model-identity.ts';

/** A model that has a process, or wants one. */
export interface Tenant {
  readonly key: string;
  readonly model: Pick<ModelFile, 'id' | 'name' | 'path'>;
  readonly snapshot: EngineSnapshot;
  /** Callers that wait for the process to be ready for them, in order. */
  readonly line: readonly unknown[];
  /** The context that its process usually gets. */
  readonly wanted: ContextPlan;
  /** When its last work began, on the monotonic clock. */
  used_at: number;
  /** Its turn in memory. */
  turn: ModelTurn;
}

/** Memory for the next process of a tenant, from before its load until the process has exited. */
export interface Claim<T extends Tenant = Tenant> {
  readonly tenant: T;
  /** The attempt that uses it. */
  readonly attempt: number;
  /** Runs that its context is for. */
  readonly parallel: number;
  bytes: number;
  isGranted: boolean;
}

export interface ResidencyOptions {
  limits: Limits;
  /** Memory of all models. */
  budget_bytes: number;
  load: Pick<LoadOrder, 'parallel' | 'context_tokens' | 'attention' | 'gpu_layers'>;
  /** How long models stay in memory without work, by name. */
  keep: Readonly<Record<string, number>>;
  /** Bytes of memory that are free. */
  free(): number;
  /** Looks at the model of a name, then calls `remember`. */
  look(name: string): void;
}

/**
 * Decides which local models are in memory, and which leave for others. It does nothing itself:
 * `Engines` starts and ends the processes.
 *
 * 1. A tenant has at most one claim. The granted claims together stay within the bounds.
 * 2. Claims are granted in order. Only models without work make room.
 * 3. What a model needs is learned before its runs start.
 */
export class Residency<T extends Tenant> implements LocalRoom {
  /** Memory of the GPU, as the last load found it. */
  gpu_bytes: number | null = null;
  queued: () => ReadonlySet<string> = () => new Set();
  readonly changes = new Notifier();
  readonly bytes: number;
  readonly models: number;
  private readonly options: ResidencyOptions;
  private readonly turns: TurnLimits;
  private readonly claims = new Map<T, Claim<T>>();
  /** By name of a model: its file, and the memory that it needs. */
  private readonly learned = new Map<string, ModelNeeds>();
  private readonly learning = new Set<string>();
  /** By path: how long the last request keeps the model. */
  private readonly kept = new Map<string, number>();

  constructor(options: ResidencyOptions) {
    const { local_engines, engine_turn_ms, engine_turn_max_ms } = options.limits;
    this.options = options;
    this.bytes = options.budget_bytes;
    this.models = local_engines;
    this.turns = { turn_ms: engine_turn_ms, turn_max_ms: engine_turn_max_ms };
  }

  onChange(listener: () => void): void {
    this.changes.subscribe(listener);
  }

  find(name: string): ModelNeeds | undefined {
    return this.learned.get(name);
  }

  learn(name: string): void {
    if (this.learned.has(name) || this.learning.has(name)) return;
    this.learning.add(name);
    this.options.look(name);
  }

  /** The needs of a name. `shape`: null is a model that cannot load, which needs nothing. */
  remember(name: string, key: string, shape: ModelShape | null): ModelNeeds {
    const plan = shape && this.plan(shape, this.contextOf('answers'));
    // A model that is too large is refused when a run needs it, and takes no room.
    const bytes = plan === null || plan.bytes > this.bytes ? 0 : plan.bytes;
    const needs = { key, bytes, ...(plan === null ? {} : { runs: plan.parallel }) };
    setNewest(this.learned, name, needs, this.options.limits.local_models);
    this.learning.delete(name);
    this.changes.notify();
    return needs;
  }

  /** Forgets what a name needs, unless it is that of this file. */
  forget(name: string, path?: string): void {
    if (this.learned.get(name)?.key !== path) this.learned.delete(name);
  }

  /** How long the model stays in memory from now on. It counts from its last work. */
  keep(path: string, idle_ms: number): void {
    setNewest(this.kept, path, idle_ms, ENGINES_KEPT);
  }

  /** How long the model stays in memory without work. Undefined: the default. */
  keepMs(model: Tenant['model']): number | undefined {
    return this.kept.get(model.path) ?? this.configuredMs(model);
  }

  /** Granted memory. */
  get usedBytes(): number {
    return sumBytes(this.granted);
  }

  /** Null: it has none. */
  bytesOf(tenant: T): number | null {
    const claim = this.claims.get(tenant);
    return claim?.isGranted === true ? claim.bytes : null;
  }

  residents(now: number): Occupant[] {
    return [...this.claims.values()].map((claim) => this.occupantOf(claim, now));
  }

  restEnds(now: number): number | null {
    const ends = this.granted.map(({ tenant }) => restEnds(tenant.turn)).filter((at) => at > now);
    return ends.length === 0 ? null : Math.min(...ends);
  }

  /** Vectors are computed one after the other, each in one batch. */
  contextOf(purpose: Purpose): ContextPlan {
    const { parallel, context_tokens, attention } = this.options.load;
    // The cache of more runs would take the place of layers.
    const runs = this.gpu_bytes === null ? parallel : parallel || LOCAL_RUNS.least;
    if (purpose === 'answers') return { parallel: runs, context_tokens, attention };
    const batch = Math.min(context_tokens, EMBED_TOKENS.usual);
    return { parallel: 1, context_tokens: batch, batch };
  }

  /** Whether a model fits the memory. What other models have counts as free: they can leave. */
  fit(model: ModelShape | { weights: number }, purpose: Purpose = 'answers'): Fit {
    return fitOf(model, this.contextOf(purpose), {
      bytes: this.bytes,
      engine_bytes: this.options.limits.engine_memory_bytes,
      free_bytes: this.options.free() + this.usedBytes,
      gpu_bytes: this.gpu_bytes,
      gpu_layers: this.options.load.gpu_layers,
    });
  }

  /**
   * Claims memory for the next process of a model. `context_tokens`: null is the usual context.
   * Throws model_too_large.
   */
  claim(tenant: T, shape: ModelShape, context_tokens: number | null): Claim<T> {
    const { wanted, snapshot } = tenant;
    const tokens = context_tokens ?? wanted.context_tokens;
    const batch = wanted.batch === undefined ? {} : { batch: tokens };
    const plan = this.plan(shape, { ...wanted, context_tokens: tokens, ...batch });
    if (plan.bytes > this.bytes) throw this.tooLargeError(tenant, plan.bytes);
    const claim = { ...plan, tenant, attempt: snapshot.context.attempt + 1, isGranted: false };
    this.claims.delete(tenant);
    this.claims.set(tenant, claim);
    return claim;
  }

  /** No process uses the memory. */
  release(claim: Claim<T>): void {
    if (this.claims.get(claim.tenant) === claim) this.claims.delete(claim.tenant);
  }

  /** Call it after each event of the engine of a tenant. */
  note(tenant: T): void {
    const { snapshot, model } = tenant;
    const { attempt, info } = snapshot.context;
    tenant.turn = turnAfter(tenant.turn, snapshot);
    this.gpu_bytes = info?.gpu_bytes ?? this.gpu_bytes;
    const claim = this.claims.get(tenant);
    const isOver = snapshot.hasTag('absent') || snapshot.hasTag('failing');
    if (isOver && claim?.isGranted === true && claim.attempt === attempt) this.release(claim);
    // The time was for the earlier work. A later load gives the machine the usual time.
    if (snapshot.hasTag('absent') && this.kept.get(model.path) === 0)
      this.kept.set(model.path, this.configuredMs(model) ?? this.options.limits.engine_idle_ms);
  }

  /** An estimate may have been too small. The measured memory counts, even beyond the bounds. */
  grow(tenant: T, attempt: number, bytes: number): void {
    const claim = this.claims.get(tenant);
    if (claim?.isGranted === true && claim.attempt === attempt)
      claim.bytes = Math.max(claim.bytes, bytes);
  }

  /**
   * Grants the claims that fit, in order. `leaving`: their processes end for the first one that
   * does not.
   */
  serve(now: number): { granted: T[]; leaving: T[] } {
    const granted: T[] = [];
    for (const claim of this.claims.values()) {
      if (claim.isGranted) continue;
      const present = this.granted;
      if (present.length >= this.models || sumBytes(present) + claim.bytes > this.bytes)
        return { granted, leaving: this.roomFor(claim, now) };
      claim.isGranted = true;
      granted.push(claim.tenant);
    }
    return { granted, leaving: [] };
  }

  private configuredMs({ id, name }: Tenant['model']): number | undefined {
    const { keep } = this.options;
    return keep[id] ?? keep[name];
  }

  private roomFor({ bytes }: Claim<T>, now: number): T[] {
    const wanted = new Set([...this.queued()].map((name) => this.learned.get(name)?.key));
    // Models that end their process count as gone.
    const staying = this.granted.filter(({ tenant }) => !tenant.snapshot.hasTag('leaving'));
    const residents = staying.map((claim) => {
      const occupant = this.occupantOf(claim, now);
      const isWanted = occupant.resting || wanted.has(occupant.model);
      return { ...occupant, wanted: isWanted, tenant: claim.tenant };
    });
    return (makeRoom(bytes, residents, this) ?? []).map(({ tenant }) => tenant);
  }

  private get granted(): Claim<T>[] {
    return [...this.claims.values()].filter(({ isGranted }) => isGranted);
  }

  private occupantOf({ tenant, bytes, isGranted }: Claim<T>, now: number): Occupant {
    const { key, line, snapshot, turn, used_at } = tenant;
    return {
      model: key,
      bytes,
      busy: !isGranted || line.length > 0 || !snapshot.hasTag('free'),
      in_turn: now < turnEnds(turn, this.turns),
      resting: now < restEnds(turn),
      used_at,
      loaded_at: turn.loaded_at ?? Number.POSITIVE_INFINITY,
    };
  }

  /** The most parallel runs that fit, with their needs. These may exceed the bound. */
  private plan(shape: ModelShape, wanted: ContextPlan): { parallel: number; bytes: number } {
    const engine_bytes = this.options.limits.engine_memory_bytes;
    return planFor(shape, wanted, { bytes: this.bytes, engine_bytes });
  }

  private tooLargeError({ model: { id } }: Tenant, needs_bytes: number): SvcError {
    const loaded = this.granted.map(({ tenant, bytes }) => ({ id: tenant.model.id, bytes }));
    const also =
      loaded.length === 0
        ? 'No other model is loaded.'
        : `Loaded: ${loaded.map((other) => `${other.id} (${mib(other.bytes)})`).join(', ')}.`;
    return new SvcError(
      'model_too_large',
      `The model ${id} needs about ${mib(needs_bytes)} of memory, but models may use ` +
        `${mib(this.bytes)} together (models_memory_bytes). ${also}`,
      {
        param: 'model',
        retryable: false,
        details: { needs_bytes, budget_bytes: this.bytes, loaded },
      },
    );
  }
}

/**
 * Tokens of a text of an embedding: in the context that is usual, and at most. The text is one
 * batch, and each token of a batch needs memory for the whole vocabulary.
 */
export const EMBED_TOKENS = { usual: 512, most: 2048 };
/** Machines of engines in memory, with and without a process. */
export const ENGINES_KEPT = 64;

function sumBytes(claims: readonly Pick<Claim, 'bytes'>[]): number {
  return claims.reduce((sum, { bytes }) => sum + bytes, 0);
}

function mib(bytes: number): string {
  return `${Math.ceil(bytes / (1024 * 1024))} MiB`;
}

/** How a process has to be loaded. Null: any way will do. */
export interface Needs {
  threads: number | null;
  /** The least context of one run. */
  context_tokens: number | null;
  /** The identity of the model. No other load can change it. */
  model_file: string | null;
}
export const ANY: Needs = { threads: null, context_tokens: null, model_file: null };

/**
 * What the first caller in the line of a tenant does now. A process that was loaded for it
 * (`isOwn`) meets its needs: a model with less context than requested has enough. `replace`: the
 * process has no work, and ends for one that is loaded otherwise.
 */
export function nextStep(
  { snapshot, wanted }: Pick<Tenant, 'snapshot' | 'wanted'>,
  needs: Needs,
  isOwn: boolean,
): 'load' | 'use' | 'replace' | 'wait' {
  if (snapshot.hasTag('absent')) return 'load';
  const { info, context_tokens } = snapshot.context;
  const larger = largerContext(needs, wanted) ?? 0;
  const canMeet =
    (needs.threads === null || info === null || needs.threads === info.threads) &&
    larger <= (context_tokens ?? wanted.context_tokens);
  if (snapshot.hasTag('loaded') && (isOwn || canMeet)) return 'use';
  return snapshot.hasTag('free') ? 'replace' : 'wait';
}

/** The context to ask for. Null: the usual one is enough. */
export function largerContext({ context_tokens }: Needs, usual: ContextPlan): number | null {
  return context_tokens !== null && context_tokens > usual.context_tokens ? context_tokens : null;
}

/** Throws model_changed if the answer so far is of another file, template or adapter. */
export function checkFile(
  { model_file }: Needs,
  { name }: Tenant['model'],
  found: string | null,
): void {
  if (model_file === null || model_file === found) return;
  throw new SvcError(
    'model_changed',
    `The answer so far is of another file, template or adapter of ${name}: ` +
      `${shortIdentity(model_file)}. Here it is ${shortIdentity(found)}.`,
  );
}
