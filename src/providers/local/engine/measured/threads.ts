import { availableParallelism, cpus } from 'node:os';
import { addMeasured, readMeasured } from './file.ts';
import { leftByOthers, readUse, threadsMost, type Use } from './idle.ts';

/**
 * Finds the fastest number of threads by measurement, and remembers it for a model on a machine.
 * All threads of a token wait for the slowest one. One thread more than there are idle cores can
 * be a hundred times slower. So a busy machine gets fewer, for as long as it is busy. A measurement
 * would say nothing about the model then, so the usual number counts until a later load.
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
  /** Returns tokens per second. `limitMs` bounds the measurement. */
  measure(threads: number, limitMs: number): Promise<number>;
}

export interface ThreadsResult {
  threads: number;
  /** Tokens per second by number of threads. Empty: remembered, or not measured. */
  measured: Record<string, number>;
  /** The number beside the other work of this moment. */
  present: number;
}

/** Time for one candidate. A slow token may exceed it. */
const CANDIDATE_MS = 200;
/** Time for all candidates. After it no other one starts. */
const CALIBRATION_MS = 1000;
const FEW_CORES = 4;
/** The least gain that justifies more threads, which other programs need too. */
const GAIN_LEAST = 1.05;

export async function findThreads(options: ThreadsOptions): Promise<ThreadsResult> {
  const { file, available } = options;
  const key = machineKey(options);
  const known = (await readMeasured(file, 'threads'))[key];
  const isKnown = known !== undefined && known <= available;
  if (isKnown && known === 1) return { threads: 1, present: 1, measured: {} };
  const most = threadsMost(available, await options.idle());
  if (isKnown || most < available) {
    const threads = known !== undefined && isKnown ? known : usualThreads(available);
    return { threads, present: Math.min(threads, most), measured: {} };
  }
  const found = await measureAll(options);
  await addMeasured(file, 'threads', key, found.threads);
  return { ...found, present: found.threads };
}

/** Where cores are many, two of them are usually one that computes. */
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
async function measureAll({
  available,
  measure,
}: ThreadsOptions): Promise<Omit<ThreadsResult, 'present'>> {
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

interface ThreadsNowOptions {
  /** The number that is best while no other work needs the cores. */
  best: number;
  /** Cores that this process may use. */
  available: number;
  /** A change, in words. */
  report(text: string): void;
}

/**
 * The number of threads for the next answers: fewer while other work keeps cores busy.
 *
 * 1. The cores that this process uses itself count as idle.
 * 2. `present` is never above the best number, and never below one.
 */
export class ThreadsNow {
  private readonly options: ThreadsNowOptions;
  private last: Use;
  private now: number;

  /** `present`: the number at first. */
  constructor(options: ThreadsNowOptions, use: Use, present = options.best) {
    this.options = options;
    this.last = use;
    this.now = present;
  }

  get present(): number {
    return this.now;
  }

  /** Call it now and then: what counts is the use since the last call. */
  note(use: Use): void {
    const { best, available, report } = this.options;
    const idle = leftByOthers(this.last, use);
    this.last = use;
    if (idle === null) return;
    const threads = Math.min(best, threadsMost(available, idle));
    if (threads !== this.now)
      report(`threads ${threads}: other work leaves ${idle.toFixed(1)} of ${available} cores`);
    this.now = threads;
  }
}

/** Time between two looks at the machine. Other work that lasts shorter slows one answer. */
const LOOK_MS = 1000;

/** Looks at the machine for as long as the process lives, if the number may change. */
export function watchThreads(
  mayChange: boolean,
  best: number,
  present: number,
  report: (text: string) => void,
): ThreadsNow {
  const available = availableParallelism();
  const now = new ThreadsNow({ best, available, report }, readUse(), present);
  if (mayChange && best > 1) setInterval(() => now.note(readUse()), LOOK_MS).unref();
  return now;
}
