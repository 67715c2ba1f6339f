import { enableCompileCache, flushCompileCache } from 'node:module';
import { dirname, join } from 'node:path';
import type { Llama } from 'node-llama-cpp';
import { SvcError } from '../../../errors.ts';
import { freeBytes } from '../../../home/disk.ts';
import type { LoadOrder } from './messages.ts';
import { loadNarrowBuild } from './processor-build.ts';
import { TestedBuild } from './tested-build.ts';

/**
 * Loads llama.cpp, on a GPU if possible and wanted. Imports the library late, after the process
 * reported its start. Throws engine_missing if there is no build for this platform.
 */
export async function startLlama(
  threads_max: number,
  {
    gpu_layers,
    threads_file,
    template_ms,
  }: Pick<LoadOrder, 'gpu_layers' | 'threads_file' | 'template_ms'>,
): Promise<Llama> {
  const cache = dirname(threads_file);
  const build = new TestedBuild(join(cache, 'engine-build.json'));
  try {
    await build.trust();
    // Node writes the code when the process ends too. On a full disk the log needs that space.
    if ((await freeBytes(cache)) >= CODE_SPARE_BYTES)
      enableCompileCache(join(cache, 'engine-code'));
    const isBuiltIn = template_ms === null;
    if (isBuiltIn && gpu_layers === 0) loadNarrowBuild();
    const { getLlama } = await import('node-llama-cpp');
    flushCompileCache();
    const logger = (level: string, message: string) =>
      console.error(`${level} ${message.trimEnd()}`);
    const llama = await getLlama({
      gpu: gpu_layers === 0 ? false : 'auto',
      build: 'never',
      maxThreads: threads_max,
      progressLogs: false,
      logger,
    });
    await build.note(llama);
    return llama;
  } catch (error) {
    throw new SvcError('engine_missing', undefined, { cause: error });
  }
}

/** Free space of a disk that the compiled code, of a few megabytes, cannot fill. */
const CODE_SPARE_BYTES = 256 * 1024 * 1024;
