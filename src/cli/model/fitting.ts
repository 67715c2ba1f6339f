import { loadConfig } from '../../config/config.ts';
import {
  defaultBudget,
  fitOf,
  freeMemory,
  type KnownModel,
  knownModels,
} from '../../models/index.ts';

export type Fit = ReturnType<typeof fitOf>;

/** Judges by size, without a daemon. Loaded models count as taken memory. */
export function fitFrom(file: string): (weights: number) => Fit {
  const { limits, models_memory_bytes, engine_gpu_layers: gpu_layers } = loadConfig(file);
  const { engine_memory_bytes: engine_bytes } = limits;
  const { local_runs: parallel, engine_context_tokens: context_tokens } = limits;
  const bytes = models_memory_bytes ?? defaultBudget();
  const there = { bytes, engine_bytes, free_bytes: freeMemory(), gpu_bytes: null, gpu_layers };
  return (weights) => fitOf({ weights }, { parallel, context_tokens }, there);
}

/** A larger first download takes long, and answers slowly without a graphics card. */
const BYTES_MAX = 5_100_000_000;
const MODELS_MAX = 3;

/**
 * Models to begin with, the largest first. They answer in a chat and fit this machine. Each has at
 * most half the size of the previous one. Where none fits well, tight ones count.
 */
export function modelsToBegin(fit: (weights: number) => Pick<Fit, 'verdict'>): KnownModel[] {
  const chats = knownModels
    .filter(({ good_for, size_bytes }) => CHATS.test(good_for) && size_bytes <= BYTES_MAX)
    .toSorted((one, other) => other.size_bytes - one.size_bytes);
  const judged = (verdict: Fit['verdict']) =>
    chats.filter(({ size_bytes }) => fit(size_bytes).verdict === verdict);
  const fitting = judged('fits');
  const chosen: KnownModel[] = [];
  for (const model of fitting.length > 0 ? fitting : judged('tight')) {
    const { size_bytes: last = Number.POSITIVE_INFINITY } = chosen.at(-1) ?? {};
    if (model.size_bytes <= last / 2) chosen.push(model);
  }
  return chosen.slice(0, MODELS_MAX);
}

const CHATS = /\bchat\b|short answers/;
