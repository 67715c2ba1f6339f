import { readdir, rm, stat } from 'node:fs/promises';
import { getCompileCacheDir } from 'node:module';
import { basename, dirname, join } from 'node:path';

/** The compile cache of all homes of this user. Null: the user chose a folder, or has no cache. */
export function compiledCode(): string | null {
  const path = dirname(getCompileCacheDir() ?? '');
  return basename(dirname(path)) === `svc-${process.getuid?.()}` ? path : null;
}

let keep = () => {};
let isTidy = false;

/** Called once, when the daemon is idle: it has compiled the code of its start by then. */
export function keepWhenIdle(call: () => void): void {
  keep = call;
}

/** Keeps the code that this process has compiled, and bounds that of all others. Once. */
export async function tidyCompiledCode(): Promise<void> {
  if (isTidy) return;
  isTidy = true;
  keep();
  const code = compiledCode();
  if (code !== null) await boundCompiledCode(code);
}

/** Bytes of about twenty builds, with the code of each version of Node.js. */
const BYTES_MOST = 96 * 2 ** 20;

/**
 * Each build and each version of Node.js adds files, and nothing else removes them. The oldest
 * leave. A running daemon has read its own already, so it loses nothing.
 */
export async function boundCompiledCode(folder: string, bytesMost = BYTES_MOST): Promise<void> {
  const names = await readdir(folder, { recursive: true });
  const files: { path: string; size: number; changed: number }[] = [];
  for (const name of names) {
    const path = join(folder, name);
    // Another process may remove it meanwhile.
    const found = await stat(path).catch(() => null);
    if (found?.isFile()) files.push({ path, size: found.size, changed: found.mtimeMs });
  }
  let bytes = 0;
  for (const { path, size } of files.sort((a, b) => b.changed - a.changed)) {
    bytes += size;
    if (bytes > bytesMost) await rm(path, { force: true });
  }
}
