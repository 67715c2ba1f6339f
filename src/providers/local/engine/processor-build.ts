import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/**
 * Loads the part of llama.cpp that computes on processors with AVX2. The library has such a part
 * for each kind of processor, and chooses the one with the most instructions. Those with AVX-512
 * compute 64 numbers at once. An attention head of `svc-mini` has 32, which they compute one by
 * one: a token then takes two to three times as long.
 *
 * 1. Call it before the library is started, and only if it computes without a GPU.
 * 2. It loads nothing on another system, or a file that the processor cannot use. Then the library
 *    chooses.
 */
export function loadNarrowBuild(file: string = NARROW): void {
  if (process.platform !== 'linux' || process.arch !== 'x64') return;
  try {
    const folder = buildsFolder();
    const { loadBackends } = createRequire(import.meta.url)(join(folder, ADDON)) as Addon;
    process.env.GGML_BACKEND_PATH = join(folder, file);
    // A folder without a build: what is loaded is only the file that the variable names.
    loadBackends(join(folder, 'none'));
  } catch (cause) {
    console.error('the library chooses the build for the processor:', cause);
  } finally {
    delete process.env.GGML_BACKEND_PATH;
  }
}

/** The file of that part. A test notices when the library names it differently. */
export const NARROW = 'libggml-cpu-haswell.so';
const ADDON = 'llama-addon.node';

/** What the library calls too, before it looks for a build itself. */
interface Addon {
  loadBackends(folder: string): void;
}

function buildsFolder(): string {
  const library = createRequire(import.meta.resolve('node-llama-cpp'));
  return join(dirname(library.resolve('@node-llama-cpp/linux-x64')), '../bins/linux-x64');
}
