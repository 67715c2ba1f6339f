import * as v from 'valibot';
import { orNull } from './records.ts';
import { named, object, oneOf, text, time, whole } from './vocabulary.ts';

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
    /** An embedding model has a process for its vectors. */
    purpose: oneOf(['answers', 'embeddings']),
    /** Answers that it computes now. */
    runs: whole,
    /** The estimate of its memory, which is reserved. */
    memory_bytes: orNull(v.number()),
    pid: orNull(whole),
    threads: orNull(whole),
    context_length: orNull(whole),
    parallel: orNull(whole),
    load_ms: orNull(whole),
    /** What computes: `cpu`, or the interface of a GPU. */
    gpu: orNull(text),
    /** Its layers on the GPU. */
    gpu_layers: orNull(whole),
    /** How long it stays without work. */
    keep_alive_ms: whole,
    /** When it leaves unless there is work. Null: it has work, or stays. */
    expires_at: orNull(time),
    error: orNull(text),
  }),
);
export type LoadedModelRecord = v.InferOutput<typeof loadedModel>;

export const loadedModels = named(
  'LoadedModels',
  object({
    models: v.array(loadedModel),
    /** What all of them may reserve together, and what they have reserved. */
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
