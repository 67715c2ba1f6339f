import type { Llama } from 'node-llama-cpp';
import { SvcError } from '../../../errors.ts';
import type { GpuLayers } from './messages.ts';

/**
 * Loads llama.cpp, on a GPU if possible and wanted. Imports the library late, after the process
 * reported its start. Throws engine_missing if there is no build for this platform.
 */
export async function startLlama(threads_max: number, gpu_layers: GpuLayers): Promise<Llama> {
  try {
    const { getLlama } = await import('node-llama-cpp');
    const logger = (level: string, message: string) =>
      console.error(`${level} ${message.trimEnd()}`);
    return await getLlama({
      gpu: gpu_layers === 0 ? false : 'auto',
      build: 'never',
      maxThreads: threads_max,
      progressLogs: false,
      logger,
    });
  } catch (error) {
    throw new SvcError('engine_missing', undefined, { cause: error });
  }
}
