import * as v from 'valibot';
import { CACHE_TYPES } from './attention.ts';
import { orNull } from './records.ts';
import { flag, named, object, oneOf, text, time, whole } from './vocabulary.ts';

/** The report of an engine about a model that it has loaded. Clients see it, too. */
const computing = {
  threads: whole,
  context_length: whole,
  parallel: whole,
  load_ms: whole,
  /** What computes: `cpu`, or the interface of a GPU. */
  gpu: text,
  /** Layers of the model on the GPU. */
  gpu_layers: whole,
  /** `file`, the name of a form that replaces it, or `none`: the model continues texts. */
  chat_template: text,
};
type Computing = typeof computing;
export const computingNames = Object.keys(computing) as (keyof Computing)[];

const attention = object({
  cache_keys: oneOf(CACHE_TYPES),
  cache_values: oneOf(CACHE_TYPES),
  flash: v.union([flag, v.literal('auto')]),
});

/** `batching`: runs that need not be exact are computed in one batch. */
export const engineLoaded = object({
  ...computing,
  /** Why the template of the file is not used. */
  template_problem: v.exactOptional(text),
  batching: flag,
  /** Layers on the GPU after the load of the same model before this one. */
  gpu_layers_before: v.exactOptional(whole),
  /** Memory of the GPU. */
  gpu_bytes: v.exactOptional(whole),
  attention: v.exactOptional(attention),
  /** An unused card, and the build of the engine for it. */
  better_build: v.exactOptional(object({ card: text, build: text })),
});
export type EngineLoaded = v.InferOutput<typeof engineLoaded>;

/** Why a loaded model computes more slowly than it could. Null: it is at full speed. */
export function gpuWarning({
  model,
  gpu = 'cpu',
  gpu_layers = 0,
  gpu_layers_before: before = 0,
  better_build,
}: { model: string } & Partial<EngineLoaded>): string | null {
  if (gpu === 'cpu' && better_build !== undefined)
    return (
      `The model ${model} is computed on the processor, and this machine has a card of ` +
      `${better_build.card}. Run: svc engine install ${better_build.build}`
    );
  if (gpu_layers >= before && (gpu === 'cpu' || gpu_layers > 0)) return null;
  const now = gpu_layers === 0 ? 'no layer' : `${gpu_layers} layer${gpu_layers === 1 ? '' : 's'}`;
  const then = before > gpu_layers ? `, and ${before} when it was last loaded` : '';
  const advice =
    gpu === 'cpu'
      ? 'The engine finds no GPU now: check its driver.'
      : `Free memory of the GPU (${gpu}), then unload the model: its next load takes more layers.`;
  return `The model ${model} has ${now} on the GPU${then}, so it is slower. ${advice}`;
}

/** A local model in memory, on its way there, or on its way out. */
export const loadedModel = named(
  'LoadedModel',
  object({
    id: text,
    name: text,
    path: text,
    state: oneOf(['loading', 'idle', 'busy', 'unloading', 'failed']),
    state_path: text,
    since: time,
    /** How much of it is loaded, from 0 to 1. Null: it is not being loaded. */
    progress: orNull(v.number()),
    /** A model has a process for each purpose. */
    purpose: oneOf(['answers', 'embeddings', 'reranking']),
    /** Answers that it computes now. */
    runs: whole,
    /** The estimate of its memory, which is reserved. */
    memory_bytes: orNull(v.number()),
    pid: orNull(whole),
    ...nullable(computing),
    /** Null: it is not loaded, or computes no answers. */
    attention: v.nullable(attention),
    /** How long it stays without work. */
    keep_alive_ms: whole,
    /** When it leaves unless there is work. Null: it has work, or stays. */
    expires_at: orNull(time),
    error: orNull(text),
    /** Why it is slower than it could be. Absent: it is not. */
    warning: v.exactOptional(text),
  }),
);
function nullable<E extends v.ObjectEntries>(entries: E) {
  const all = Object.entries(entries).map(([name, schema]) => [name, v.nullable(schema)]);
  return Object.fromEntries(all) as { [N in keyof E]: v.NullableSchema<E[N], undefined> };
}
export type LoadedModelRecord = v.InferOutput<typeof loadedModel>;

export const loadedModels = named(
  'LoadedModels',
  object({
    models: v.array(loadedModel),
    /** The memory that all models may reserve together, and the reserved memory. */
    budget_bytes: v.number(),
    reserved_bytes: v.number(),
  }),
);
export type LoadedRecord = v.InferOutput<typeof loadedModels>;

export const unloadedModel = named(
  'Unloaded',
  object({ unloaded: text, freed_bytes: orNull(v.number()) }),
);
export type UnloadedModel = v.InferOutput<typeof unloadedModel>;
