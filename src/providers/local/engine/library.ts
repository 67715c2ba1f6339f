import { existsSync } from 'node:fs';

/**
 * The library of the engine in one file: importing its 590 modules takes most of the start of an
 * engine. It is beside the built engine. Engines of the sources use it too, once there is a build.
 */
const BUNDLE = ['./library.js', '../../../../dist/src/providers/local/engine/library.js']
  .map((place) => new URL(place, import.meta.url))
  .find((file) => existsSync(file));

export function importLibrary(): Promise<typeof import('node-llama-cpp')> {
  return BUNDLE ? import(BUNDLE.href) : import('node-llama-cpp');
}

/** The library's module that tests a build. A test notices when it moves. */
export const TESTER = BUNDLE
  ? new URL('./testBindingBinary.js', BUNDLE).href
  : new URL('./bindings/utils/testBindingBinary.js', import.meta.resolve('node-llama-cpp')).href;

/** A file of the library's package. The build has those that are read while it runs. */
export function libraryFile(place: string): URL {
  return BUNDLE
    ? new URL(place, new URL('node-llama-cpp/', BUNDLE))
    : new URL(`../${place}`, import.meta.resolve('node-llama-cpp'));
}
