import type { Llama } from 'node-llama-cpp';
import { SvcError } from '../../../errors.ts';

/**
 * Loads llama.cpp, with a graphics processor where one can be used. Its library is imported here, when the process has told
 * that it is up. Throws engine_missing where there is no build for this platform.
 */
export async function startLlama(threads_max: number): Promise<Llama> {
  try {
    const { getLlama } = await import('node-llama-cpp');
    const logger = (level: string, message: string) =>
      console.error(`${level} ${message.trimEnd()}`);
    return await getLlama({
      gpu: 'auto',
      build: 'never',
      maxThreads: threads_max,
      progressLogs: false,
      logger,
    });
  } catch (error) {
    throw new SvcError('engine_missing', undefined, { cause: error });
  }
}
