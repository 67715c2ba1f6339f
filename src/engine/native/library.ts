import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import koffi, { type TypeObject } from 'koffi';
import { SvcError } from '../../errors.ts';
import { buildsFor, packageFolder } from '../../home/engine-builds.ts';
import {
  FUNCTIONS,
  type Functions,
  LAYOUTS,
  type Layout,
  type Pointer,
  RELEASE,
  SIZES,
  STRUCTURES,
} from './abi.ts';
import { openAddon } from './addon.ts';
import { librariesFolder } from './folder.ts';

/** llama.cpp in this process. A process has only one, because its libraries have global state. */
export interface Llama {
  readonly c: Functions;
  /** The backend that computes beside the processor, such as `cuda`. Null: none. */
  readonly gpu: string | null;
  /** Bytes of the memory of all graphics cards. */
  gpuMemory(): { free: number; total: number };
  /** The address of a function of the backend for processors. Null: it has none. */
  processorFunction(name: string): Pointer;
  /** The address of a function that says whether a tensor has no elements. */
  readonly isEmpty: Pointer;
}

export interface LlamaOptions {
  /** Layers on a graphics card. 0: no backend for cards is loaded. */
  gpu: boolean;
  /** Folder of builds for graphics cards that the user installed. */
  builds?: string | undefined;
  /** The file of one build for processors. llama.cpp chooses if it is null or unusable. */
  processor?: string | null;
  /** Takes the log lines of llama.cpp while it loads. */
  log(level: 'warn' | 'error', line: string): void;
}

/** Finds the files of the libraries, each after those that it needs. Throws engine_missing. */
export function libraryFiles(names: readonly string[]): Record<keyof typeof FUNCTIONS, string> {
  const find = (name: string) => {
    const release = RELEASE.files.replaceAll('.', '\\.');
    const form = new RegExp(`^(lib)?${name}(\\.v${release})?\\.(so|dylib|dll)(\\.${release})?$`);
    const found = names.find((file) => form.test(file));
    if (found !== undefined) return found;
    const cause = new Error(`no library ${name} of release ${RELEASE.files}: ${names.join(' ')}`);
    throw new SvcError('engine_missing', undefined, { cause });
  };
  return { base: find('ggml-base'), ggml: find('ggml'), llama: find('llama') };
}

let opened: Llama | null = null;

/** Loads llama.cpp once. Throws engine_missing, engine_unavailable. */
export function openLlama(options: LlamaOptions): Llama {
  opened ??= load(options);
  return opened;
}

function load({ gpu, builds, processor = null, log }: LlamaOptions): Llama {
  const folder = librariesFolder();
  const files = libraryFiles(existsSync(folder) ? readdirSync(folder) : []);
  try {
    const c = bind(folder, files);
    checkLayouts(c);
    // The addon takes the log of llama.cpp, so it is loaded first.
    openAddon(folder);
    logTo(c, log);
    c.llama_backend_init();
    const chosen = processor === null ? null : join(folder, processor);
    if (gpu || chosen === null || !existsSync(chosen) || c.ggml_backend_load(chosen) === null)
      c.ggml_backend_load_all_from_path(folder);
    if (gpu && builds !== undefined) loadBuilds(c, builds);
    return createLlama(c, files, folder);
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw new SvcError('engine_missing', undefined, { cause });
  }
}

function bind(folder: string, files: Record<keyof typeof FUNCTIONS, string>): Functions {
  defineStructures();
  const bound: Record<string, unknown> = {};
  for (const [library, file] of Object.entries(files)) {
    const handle = koffi.load(join(folder, file), { global: true });
    for (const [name, types] of Object.entries(FUNCTIONS[library as keyof typeof FUNCTIONS]))
      bound[name] = handle.func((types as string).replace('(', `${name}(`));
  }
  return bound as unknown as Functions;
}

const types = new Map<string, TypeObject>();

function defineStructures(): void {
  if (types.size > 0) return;
  for (const [name, layout] of Object.entries(LAYOUTS)) {
    const fields = Object.entries(layout).map(([field, [type]]) => [field, type]);
    types.set(name, koffi.struct(name, Object.fromEntries(fields)));
  }
  for (const [name, fields] of Object.entries(STRUCTURES))
    types.set(name, koffi.struct(name, fields));
}

/** The functions that `checkLayouts` calls. */
type DefaultsFunctions = Pick<
  Functions,
  | 'llama_version'
  | 'llama_model_default_params'
  | 'llama_context_default_params'
  | 'llama_sampler_chain_default_params'
  | 'ggml_threadpool_params_init'
>;

/**
 * Throws engine_unavailable unless the libraries are those that the tables describe. The version
 * comes first: a structure of another size would be written beyond its end.
 */
export function checkLayouts(
  c: DefaultsFunctions,
  layouts: Readonly<Record<keyof typeof LAYOUTS, Layout>> = LAYOUTS,
): void {
  const version = c.llama_version();
  if (version !== RELEASE.version)
    throw unavailableError(`its version is ${version}, and ${RELEASE.version} is expected`);
  for (const [name, bytes] of Object.entries(SIZES)) {
    const size = koffi.sizeof(types.get(name) ?? name);
    if (size !== bytes) throw unavailableError(`${name} has ${size} bytes instead of ${bytes}`);
  }
  const defaults: Record<keyof typeof LAYOUTS, object> = {
    llama_model_params: c.llama_model_default_params(),
    llama_context_params: c.llama_context_default_params(),
    llama_sampler_chain_params: c.llama_sampler_chain_default_params(),
  };
  for (const [name, layout] of Object.entries(layouts))
    for (const [field, [, expected]] of Object.entries(layout)) {
      const values = defaults[name as keyof typeof LAYOUTS] as Record<string, unknown>;
      if (values[field] !== expected)
        throw unavailableError(`${name}.${field} is ${values[field]} instead of ${expected}`);
    }
  const pool = threadPoolParams(c, 3);
  if (pool.getInt32(POOL_THREADS, true) !== 3 || pool.getUint32(POOL_POLL, true) !== 50)
    throw unavailableError('ggml_threadpool_params has another layout');
}

function unavailableError(why: string): SvcError {
  return new SvcError(
    'engine_unavailable',
    `The libraries of llama.cpp are not those of this version of svc: ${why}.`,
  );
}

/** Size and offsets of `ggml_threadpool_params`, which begins with a mask of 512 cores. */
const POOL_BYTES = 528;
const POOL_THREADS = 512;
export const POOL_POLL = 520;

export function threadPoolParams(
  c: Pick<Functions, 'ggml_threadpool_params_init'>,
  threads: number,
): DataView {
  const bytes = new Uint8Array(POOL_BYTES);
  c.ggml_threadpool_params_init(bytes, threads);
  return new DataView(bytes.buffer);
}

/** The numbers of `ggml_log_level` that are logged. A line can come in several parts. */
const LEVELS = { 3: 'warn', 4: 'error' } as const;

/**
 * Logs while a model or a context is made: llama.cpp then calls back in the same thread. Later a
 * thread that computes could call, and would wait for this one. So `withLogging` ends the log.
 */
function logTo(c: Functions, log: LlamaOptions['log']): void {
  const writeLine = (level: number, text: string) => {
    const name = LEVELS[level as keyof typeof LEVELS];
    if (name !== undefined) log(name, text.trimEnd());
  };
  const type = koffi.pointer(koffi.proto('void log_callback(int, const char*, void*)'));
  logCallback = koffi.register(writeLine, type);
  c.llama_log_set(logCallback, null);
}
let logCallback: Pointer = null;
/** A function without effects, which llama.cpp calls in place of a log: it only reads a clock. */
let clock: Pointer = null;

/** Lets llama.cpp log while `work` makes a model or a context. */
export function withLogging<T>({ c }: Pick<Llama, 'c'>, work: () => T): T {
  c.llama_log_set(logCallback, null);
  try {
    return work();
  } finally {
    c.llama_log_set(clock, null);
  }
}

/**
 * Loads the first installed build that finds a graphics card. Builds are of the same release, so
 * only their backend is needed.
 */
function loadBuilds(c: Functions, builds: string): void {
  for (const { packages } of Object.values(buildsFor())) {
    for (const name of Object.keys(packages).reverse()) {
      const folder = join(packageFolder(builds, name), 'bins', name);
      if (!existsSync(folder)) continue;
      const files = readdirSync(folder).filter((file) => CARDS.test(file));
      for (const file of files) c.ggml_backend_load(join(folder, file));
      if (devicesOf(c).length > 0) return;
    }
  }
}
const CARDS = /ggml-(cuda|vulkan)\.(so|dll)$/;

/** `ggml_backend_dev_type` of cards, and of those that share the memory of the processor. */
const CARD_TYPES: ReadonlySet<number> = new Set([1, 2]);
const PROCESSOR_TYPE = 0;

function devicesOf(c: Functions, wanted: ReadonlySet<number> = CARD_TYPES): Pointer[] {
  const count = c.ggml_backend_dev_count();
  return Array.from({ length: count }, (_, at) => c.ggml_backend_dev_get(at)).filter((device) =>
    wanted.has(c.ggml_backend_dev_type(device)),
  );
}

function createLlama(c: Functions, files: { base: string; llama: string }, folder: string): Llama {
  const cards = devicesOf(c);
  const [card = null] = cards;
  const registryOf = (device: Pointer) => c.ggml_backend_dev_backend_reg(device);
  const [processor = null] = devicesOf(c, new Set([PROCESSOR_TYPE]));
  if (processor === null) throw new Error('no backend fits this processor');
  const base = koffi.load(join(folder, files.base));
  clock = koffi.load(join(folder, files.llama)).symbol('llama_time_us') as Pointer;
  c.llama_log_set(clock, null);
  return {
    c,
    gpu: card === null ? null : nameOf(c.ggml_backend_reg_name(registryOf(card))),
    gpuMemory: () =>
      cards.reduce<{ free: number; total: number }>(
        (sum, device) => {
          const [free, total] = [new BigUint64Array(1), new BigUint64Array(1)];
          c.ggml_backend_dev_memory(device, free, total);
          return { free: sum.free + Number(free[0]), total: sum.total + Number(total[0]) };
        },
        { free: 0, total: 0 },
      ),
    processorFunction: (name) => c.ggml_backend_reg_get_proc_address(registryOf(processor), name),
    isEmpty: base.symbol('ggml_is_empty') as Pointer,
  };
}

/** The name of a backend in records: `cuda`, `vulkan`, `metal`. */
function nameOf(registry: string | null): string {
  const name = (registry ?? '').toLowerCase();
  return name === 'mtl' ? 'metal' : name;
}
