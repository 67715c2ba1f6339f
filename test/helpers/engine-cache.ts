import { chmodSync, copyFileSync, existsSync, mkdirSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/home/paths.ts';

/**
 * What the first engine of a home finds out about this machine: compiled code of its library, and
 * the build that works. It takes half of a load, so the homes of all tests share it.
 *
 * 1. The engine checks what it is lent as it checks its own: a note of other versions counts as
 *    none, and so does code of other files.
 * 2. Coverage needs code that no cache holds, so a run for coverage lends nothing.
 */
const SHARED = join(packageRoot(), 'node_modules', '.cache', 'svc-engine');
const CODE = 'engine-code';
const BUILD = 'engine-build.json';

/** Puts into the cache folder of a new home what the engines of earlier homes found out. */
export function lendEngineCache(cache: string): void {
  if (process.env.NODE_V8_COVERAGE !== undefined) return;
  // As all of a home, for its owner only.
  mkdirSync(join(SHARED, CODE), { recursive: true, mode: 0o700 });
  chmodSync(join(SHARED, CODE), 0o700);
  mkdirSync(cache, { recursive: true, mode: 0o700 });
  symlinkSync(join(SHARED, CODE), join(cache, CODE), 'dir');
  if (existsSync(join(SHARED, BUILD))) copyFileSync(join(SHARED, BUILD), join(cache, BUILD));
}

/** Keeps what the engine of this home found out, when it is the first. */
export function keepEngineCache(cache: string): void {
  const [found, kept] = [join(cache, BUILD), join(SHARED, BUILD)];
  if (existsSync(kept) || !existsSync(found)) return;
  copyFileSync(found, `${kept}.${process.pid}`);
  renameSync(`${kept}.${process.pid}`, kept);
}
