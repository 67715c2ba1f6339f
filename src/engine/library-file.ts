import { existsSync } from 'node:fs';

/** Beside the built engine. Engines of the sources use it too, once there is a build. */
const COPY = ['./node-llama-cpp/', '../../dist/src/engine/node-llama-cpp/']
  .map((place) => new URL(place, import.meta.url))
  .find((folder) => existsSync(folder));

/**
 * A file of the package node-llama-cpp, from which the build copies the files that are read later.
 */
export function libraryFile(place: string): URL {
  return new URL(place, COPY ?? new URL('../', import.meta.resolve('node-llama-cpp')));
}
