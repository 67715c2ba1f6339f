import { addMeasured, readMeasured } from './file.ts';

/** Finds by measurement whether runs in one batch are faster, and remembers it for a model. */

export interface GainOptions {
  /** The model, the engine, the machine and the threads. */
  key: string;
  /** JSON file of measurements. */
  file: string;
  /** Tokens per second of one run. `limitMs` bounds the measurement. */
  alone(limitMs: number): Promise<number>;
  /** Tokens per second of several runs in one batch. */
  together(limitMs: number): Promise<number>;
}

/** Time for one of both. A slow token may exceed it. */
const MEASURE_MS = 200;
/** Percent of the speed of one run: less is no reason to give up exact answers. */
const GAIN_LEAST = 115;

/** Percent of the speed of one run that several runs have together. */
export async function findGain({ key, file, alone, together }: GainOptions): Promise<number> {
  const known = (await readMeasured(file, 'batching'))[key];
  if (known !== undefined) return known;
  const one = await alone(MEASURE_MS);
  const gain = Math.max(1, Math.round((100 * (await together(MEASURE_MS))) / Math.max(one, 0.001)));
  await addMeasured(file, 'batching', key, gain);
  return gain;
}

export function pays(gain: number): boolean {
  return gain >= GAIN_LEAST;
}
