import { addMeasured, readMeasured } from './file.ts';
import { isQuiet, leftByOthers } from './idle.ts';
import type { ThreadsOptions } from './threads.ts';

export interface GainOptions extends Pick<ThreadsOptions, 'file' | 'available' | 'use'> {
  /** Identifies the measurement. */
  key: string;
  /** Measures tokens per second of one answer. */
  alone(): Promise<number>;
  /** The same of several answers in one batch. */
  together(): Promise<number>;
}

/**
 * Percent of the speed of one answer that several have together in one batch. A figure beside other
 * work is that of one load: the next one measures again.
 */
export async function findGain(options: GainOptions): Promise<number> {
  const { file, key, available, use } = options;
  const known = (await readMeasured(file, 'batching'))[key];
  if (known !== undefined) return known;
  const before = use();
  const alone = await options.alone();
  const together = await options.together();
  const gain = Math.max(1, Math.round((100 * together) / Math.max(alone, 0.001)));
  const idle = leftByOthers(before, use());
  if (isQuiet(available, idle)) await addMeasured(file, 'batching', key, gain);
  return gain;
}
