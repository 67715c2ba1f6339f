import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { SvcError } from '../../errors.ts';
import { platform } from '../../home/platform.ts';

/** The package with the libraries for this machine. */
const PACKAGES: Readonly<Record<string, string>> = { 'mac-arm64': 'mac-arm64-metal' };

/** The folder of the libraries of llama.cpp in their package. Throws engine_missing. */
export function librariesFolder(): string {
  const system = `${platform.engineSystem}-${process.arch}`;
  const name = PACKAGES[system] ?? system;
  try {
    const entry = createRequire(import.meta.url).resolve(`@node-llama-cpp/${name}`);
    return join(dirname(entry), '../bins', name);
  } catch (cause) {
    throw new SvcError('engine_missing', undefined, { cause });
  }
}
