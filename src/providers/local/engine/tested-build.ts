import { readFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { release } from 'node:os';
import type { Llama } from 'node-llama-cpp';
import { writeAtomic } from '../../../home/atomic-write.ts';
import { asRecord } from '../../../json.ts';

/**
 * Remembers which build of llama.cpp works on this machine. The library tests a build in another
 * process, which takes about half of a load.
 *
 * 1. A build is used untested only if an engine of the same versions has started with it.
 * 2. The note is removed before the start and written after it. So a build that kills the engine is
 *    tested next time.
 * 3. An unreadable note counts as none.
 */
export class TestedBuild {
  private readonly file: string;
  private readonly key: string;

  constructor(file: string) {
    this.file = file;
    const { version, platform, arch } = process;
    this.key = `${libraryVersion()} ${version} ${platform} ${arch} ${release()}`;
  }

  /** Call it before the library is imported. */
  async trust(): Promise<void> {
    const text = await readFile(this.file, 'utf8').catch(() => '{}');
    await rm(this.file, { force: true });
    const note = asRecord(parsed(text));
    if (note.key === this.key) await skipTest(note.gpu);
  }

  async note({ gpu }: Pick<Llama, 'gpu'>): Promise<void> {
    await writeAtomic(this.file, `${JSON.stringify({ key: this.key, gpu })}\n`).catch(() => {});
  }
}

/** The library's module that tests a build. A test notices when it moves. */
export const TESTER = '/node-llama-cpp/dist/bindings/utils/testBindingBinary.js';
const LIBRARY = '/node-llama-cpp/dist/index.js';

/**
 * The build for this GPU counts as tested. Those for others are tested as ever. The hook is there
 * for one module, which imports nothing at once: from 23.5 to 24.0 Node breaks CommonJS modules
 * that are imported beside a hook.
 */
async function skipTest(gpu: unknown): Promise<void> {
  const source = `
    export async function testBindingBinary(path, backends, gpu, ...rest) {
      if (gpu === ${JSON.stringify(gpu) ?? 'null'}) return true;
      const real = await import("./testBindingBinary.js?real");
      return real.testBindingBinary(path, backends, gpu, ...rest);
    }`;
  const tester = import.meta.resolve('node-llama-cpp').replace(LIBRARY, TESTER);
  // Node.js before 22.15 has no hooks, so it tests each time.
  const hooks = process.getBuiltinModule('node:module').registerHooks?.({
    load: (url, context, next) =>
      url === tester ? { format: 'module', source, shortCircuit: true } : next(url, context),
  });
  if (hooks !== undefined) await import(tester).finally(() => hooks.deregister());
}

function libraryVersion(): string {
  const file = new URL('../package.json', import.meta.resolve('node-llama-cpp'));
  return String(asRecord(JSON.parse(readFileSync(file, 'utf8'))).version);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
