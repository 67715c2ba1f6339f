import { cpus } from 'node:os';
import { addMeasured, readMeasured } from './file.ts';
import { isQuiet, leftByOthers, type Use } from './idle.ts';

/**
 * Finds the fastest number of threads by measurement, and remembers it for a model on a machine.
 * Beside other work a measurement says nothing about the model, so the usual number counts until a
 * later load. `ThreadsNow` chooses between it and fewer threads then.
 */

export interface ThreadsOptions {
  /** The model file and its version. */
  modelKey: string;
  /** The version of the engine and its device. */
  engineKey: string;
  /** JSON file of measurements. An unreadable file counts as empty. */
  file: string;
  /** Threads that this process may use. */
  available: number;
  /** Cores that other work leaves idle. Null: unknown. */
  idle(): Promise<number | null>;
  use(): Use;
  /** Returns tokens per second. `limitMs` bounds the measurement. */
  measure(threads: number, limitMs: number): Promise<number>;
}

export interface ThreadsResult {
  threads: number;
  /** Tokens per second by number of threads. Empty: remembered, or not measured. */
  measured: Record<string, number>;
}

/** Time for one candidate. A slow token may exceed it. */
const CANDIDATE_MS = 200;
/** Time for all candidates. After it no other one starts. */
const CALIBRATION_MS = 1000;
const FEW_CORES = 4;
/** The least gain that justifies more threads, which other programs need too. */
const GAIN_LEAST = 1.05;

export async function findThreads(options: ThreadsOptions): Promise<ThreadsResult> {
  const { file, available, use } = options;
  const key = machineKey(options);
  const known = (await readMeasured(file, 'threads'))[key];
  if (known !== undefined && known <= available) return { threads: known, measured: {} };
  const usual = { threads: usualThreads(available), measured: {} };
  if (!isQuiet(available, await options.idle())) return usual;
  const before = use();
  const found = await measureAll(options);
  if (!isQuiet(available, leftByOthers(before, use()))) return usual;
  await addMeasured(file, 'threads', key, found.threads);
  return found;
}

/** On a machine with many cores, two of them usually share one computing unit. */
function usualThreads(available: number): number {
  return available <= FEW_CORES ? available : Math.ceil(available / 2);
}

/** A model, an engine and a machine. */
export function machineKey({
  modelKey,
  engineKey,
  available,
}: Pick<ThreadsOptions, 'modelKey' | 'engineKey' | 'available'>): string {
  return `${modelKey} | ${engineKey} | ${cpus()[0]?.model ?? 'unknown'} x ${available}`;
}

/** Tries 1, 2, 4 … threads and stops when more bring too little. */
async function measureAll({ available, measure }: ThreadsOptions): Promise<ThreadsResult> {
  const measured: Record<string, number> = {};
  const end = performance.now() + CALIBRATION_MS;
  let best = { threads: 1, speed: 0 };
  for (const threads of candidates(available)) {
    const speed = await measure(threads, CANDIDATE_MS);
    measured[threads] = Math.round(speed);
    if (best.speed > 0 && speed < best.speed * GAIN_LEAST) break;
    best = { threads, speed };
    if (performance.now() > end) break;
  }
  return { threads: best.threads, measured };
}

export function candidates(available: number): number[] {
  const doubled: number[] = [];
  for (let threads = 1; threads < available; threads *= 2) doubled.push(threads);
  return [...doubled, Math.max(1, available)];
}
