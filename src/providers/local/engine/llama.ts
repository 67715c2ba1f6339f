import { readFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { createRequire, enableCompileCache, flushCompileCache } from 'node:module';
import { release } from 'node:os';
import { dirname, join } from 'node:path';
import type { Llama } from 'node-llama-cpp';
import { SvcError } from '../../../errors.ts';
import { writeAtomic } from '../../../home/atomic-write.ts';
import { freeBytes } from '../../../home/disk.ts';
import { SYSTEM } from '../../../home/platform.ts';
import { asRecord } from '../../../json.ts';
import { oneLine } from '../../../logs/plain.ts';
import { importLibrary, libraryFile, TESTER } from './library.ts';
import type { LoadOrder } from './messages.ts';

/**
 * Loads llama.cpp, on a GPU if possible and wanted. Imports the library late, after the process
 * reported its start. Throws engine_missing if there is no build for this platform.
 */
export async function startLlama(
  threads_max: number,
  {
    gpu_layers,
    threads_file,
    builds,
    template_ms,
  }: Pick<LoadOrder, 'gpu_layers' | 'threads_file' | 'builds' | 'template_ms'>,
): Promise<Llama> {
  const cache = dirname(threads_file);
  const build = new TestedBuild(join(cache, 'engine-build.json'));
  // The bundle of the library looks there: see tools/build.mjs.
  if (builds !== undefined) process.env.ENGINE_BUILDS = builds;
  try {
    await build.trust();
    // Node writes the code when the process ends too. On a full disk the log needs that space.
    if ((await freeBytes(cache)) >= CODE_SPARE_BYTES)
      enableCompileCache(join(cache, 'engine-code'));
    const isBuiltIn = template_ms === null;
    if (isBuiltIn && gpu_layers === 0) loadNarrowBuild();
    const { getLlama } = await importLibrary();
    flushCompileCache();
    const logger = (level: string, message: string) => {
      console.error(`${level} ${message.trimEnd()}`);
      if (level === 'error') complaints.push(message.trim());
      if (complaints.length > COMPLAINTS_MAX) complaints.shift();
    };
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

/** The last lines of llama.cpp about errors. */
const complaints: string[] = [];
const COMPLAINTS_MAX = 32;
const REASON_MAX = 240;
/** The reader of the header says it after its own reason. */
const NO_REASON = /^llama_model_loader: failed to load model from /;

/**
 * Why llama.cpp could not load the model, in its own words. Null: it said nothing. What it says has
 * texts of the file in it.
 */
export function loadProblem(): string | null {
  const reasons = complaints
    .flatMap((line) => /error loading model: (.*)/s.exec(line)?.[1] ?? [])
    .filter((reason) => !NO_REASON.test(reason));
  const [first] = reasons.length > 0 ? reasons : complaints;
  return first === undefined ? null : oneLine(first).slice(0, REASON_MAX).toWellFormed();
}

/** Free space of a disk that the compiled code, of a few megabytes, cannot fill. */
const CODE_SPARE_BYTES = 256 * 1024 * 1024;

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
  if (SYSTEM !== 'linux-x64') return;
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
  const { resolve } = createRequire(import.meta.url);
  return join(dirname(resolve('@node-llama-cpp/linux-x64')), '../bins/linux-x64');
}

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
    const isGone = await rm(this.file, { force: true, recursive: true }).then(
      () => true,
      () => false,
    );
    if (!isGone) return;
    const note = asRecord(parsed(text));
    if (note.key === this.key) await skipTest(note.gpu);
  }

  async note({ gpu }: Pick<Llama, 'gpu'>): Promise<void> {
    await writeAtomic(this.file, `${JSON.stringify({ key: this.key, gpu })}\n`).catch(() => {});
  }
}

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
  // Node.js before 22.15 has no hooks, so it tests each time.
  const hooks = process
    .getBuiltinModule('node:module')
    .registerHooks?.({
      load: (url, context, next) =>
        url === TESTER ? { format: 'module', source, shortCircuit: true } : next(url, context),
    });
  if (hooks !== undefined) await import(TESTER).finally(() => hooks.deregister());
}

function libraryVersion(): string {
  return String(asRecord(JSON.parse(readFileSync(libraryFile('package.json'), 'utf8'))).version);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
