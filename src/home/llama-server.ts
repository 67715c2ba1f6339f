import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { buildsFolder } from './engine-builds.ts';
import type { Paths } from './paths.ts';
import { SYSTEM } from './platform.ts';

/** llama.cpp's own server in the home. It reads images and sound, which its libraries do not. */

/** The release that the libraries of the engine are of. A test compares it with theirs. */
export const LLAMA_RELEASE = 'v0.5.0';
/** As `svc engine` names it, beside the builds for graphics cards. */
export const LLAMA_SERVER = 'llama-server';
/** Its releases, as the API of GitHub has them. */
export const LLAMA_RELEASES = 'https://api.github.com/repos/ggml-org/llama.cpp/releases/tags/';

/** By system: how the name of its archive for the processor ends, and the program in it. */
const ARCHIVES: Readonly<Record<string, readonly [end: string, program: string]>> = {
  'linux-x64': ['-bin-ubuntu-x64.tar.gz', LLAMA_SERVER],
  'linux-arm64': ['-bin-ubuntu-arm64.tar.gz', LLAMA_SERVER],
  'darwin-arm64': ['-bin-macos-arm64.tar.gz', LLAMA_SERVER],
  'darwin-x64': ['-bin-macos-x64.tar.gz', LLAMA_SERVER],
  'win32-x64': ['-bin-win-cpu-x64.zip', `${LLAMA_SERVER}.exe`],
  'win32-arm64': ['-bin-win-cpu-arm64.zip', `${LLAMA_SERVER}.exe`],
};

/** Null: llama.cpp has none for this system. */
export function archiveEnd(system: string = SYSTEM): string | null {
  return ARCHIVES[system]?.[0] ?? null;
}

export function llamaServerFolder(paths: Pick<Paths, 'data'>): string {
  return join(buildsFolder(paths), LLAMA_SERVER);
}

export function programIn(folder: string): string {
  return join(folder, ARCHIVES[SYSTEM]?.[1] ?? LLAMA_SERVER);
}

/** Null: it is not installed. */
export function installedLlamaServer(paths: Pick<Paths, 'data'>): string | null {
  const program = programIn(llamaServerFolder(paths));
  return existsSync(program) ? program : null;
}
