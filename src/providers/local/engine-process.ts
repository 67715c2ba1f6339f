import { type ChildProcess, fork, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { extname } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Effects } from '../../../machines/effects.ts';
import type { EngineEvent } from '../../../machines/engine.ts';
import type { Failure, NewEvent } from '../../../machines/events.ts';
import { asExhausted } from '../../descriptors.ts';
import { SvcError } from '../../errors.ts';
import { ALLOCATOR } from '../../home/allocator.ts';
import type { Log } from '../../kernel/port.ts';
import type { Limits } from '../../limits.ts';
import type { Reply } from './answer.ts';
import type { EmbedOrder, LoadOrder, RunOrder, ToEngine } from './engine/messages.ts';
import { type FromEngine, parseFromEngine } from './from-engine.ts';
import { MemoryWatch } from './memory-watch.ts';

export interface EngineProcessOptions {
  started: Effects['startEngine'];
  load: Omit<LoadOrder, 'type' | 'path'>;
  env: NodeJS.ProcessEnv;
  limits: Limits;
  log: Log;
  /** Appends an event to the stream of the engine. */
  report(event: NewEvent<EngineEvent>): void;
}

/**
 * One engine process.
 *
 * 1. Each event carries the attempt of its process. `engine.exited` is appended once, as the last
 *    event.
 * 2. Every order has one reply, and every reply ends: if the process dies, open replies are lost.
 */
export class EngineProcess {
  readonly attempt: number;
  private readonly options: EngineProcessOptions;
  private readonly child: ChildProcess;
  private readonly replies = new Map<number, Reply>();
  private lastId = 0;
  private stopping = false;
  private isGone = false;
  private hasStarted = false;
  private loadedPart = 0;
  private threads: number | null = null;
  private endedFor: 'memory' | null = null;
  private workers = 0;
  private readonly memory: MemoryWatch;
  private readonly exit = Promise.withResolvers<void>();

  constructor(options: EngineProcessOptions) {
    this.options = options;
    this.attempt = options.started.attempt;
    const { limits, log, started } = options;
    this.child = fork(ENTRY, {
      ...engineCommand(NO_DEBUGGER),
      env: engineEnvironment(options.env),
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      serialization: 'json',
    });
    this.child.on('message', (value) => {
      const message = parseFromEngine(value);
      if (message === null) log.warn({}, 'a message of the engine was not understood');
      else this.receive(message);
    });
    this.child.on('error', (error) => this.noteError(error));
    this.child.on('exit', (code, signal) => this.noteExit(code, signal));
    for (const source of [this.child.stdout, this.child.stderr]) {
      // A process that could not start has no streams: they are undefined.
      if (source != null) logLines(source, log, limits, { engine_pid: this.child.pid });
    }
    const bound = { path: started.path, memoryBytes: limits.engine_memory_bytes };
    this.memory = new MemoryWatch(this.child.pid ?? 0, bound, (used_bytes) =>
      this.noteMemory(used_bytes),
    );
  }

  /** The model file. */
  get path(): string {
    return this.options.started.path;
  }

  /** The process was asked to load the model, and has not done so. */
  get isLoading(): boolean {
    return this.hasStarted && this.threads === null;
  }

  /** How much of the model is loaded, from 0 to 1. */
  get progress(): number {
    return this.loadedPart;
  }

  /** Orders without an end. */
  get orders(): number {
    return this.replies.size;
  }

  /** Resolves when the process has exited. */
  get gone(): Promise<void> {
    return this.exit.promise;
  }

  /** Adds a user of the process. True for the first one. */
  enter(): boolean {
    this.workers += 1;
    return this.workers === 1;
  }

  /** Removes a user. True for the last one, while the process lives. */
  leave(): boolean {
    this.workers -= 1;
    return this.workers === 0 && !this.isGone;
  }

  /** `replyOf`: makes the reply, given the threads that compute it. */
  ask<R extends Reply>(
    order: Omit<RunOrder, 'id'> | Omit<EmbedOrder, 'id'>,
    replyOf: (threads: number | null) => R,
  ): { id: number; reply: R } {
    const id = ++this.lastId;
    const reply = replyOf(this.threads);
    if (this.isGone) reply.lose(this.loss(0));
    else this.replies.set(id, reply);
    try {
      this.send({ ...order, id });
    } catch (cause) {
      this.replies.delete(id);
      reply.lose(new SvcError('engine_failed', NOT_SENT, { retryable: false, cause }));
    }
    return { id, reply };
  }

  /** Asks the engine to stop an order; then its reply ends. False: it has ended already. */
  stopRun(id: number): boolean {
    if (this.replies.has(id)) this.send({ type: 'stop_run', id });
    return this.replies.has(id);
  }

  stop(): void {
    this.stopping = true;
    this.send({ type: 'stop' });
  }

  kill(): void {
    this.stopping = true;
    this.child.kill('SIGKILL');
  }

  private receive(message: FromEngine): void {
    const { report, started, load, log } = this.options;
    const { attempt, model, path } = started;
    const pid = this.child.pid ?? 0;
    switch (message.type) {
      case 'started':
        this.hasStarted = true;
        report({ type: 'engine.process_started', attempt, pid });
        this.send({ type: 'load', path, ...load, threads: started.threads ?? load.threads });
        break;
      case 'loaded': {
        const { type: _, ...loaded } = message;
        const { chat_template, template_problem } = loaded;
        this.threads = loaded.threads;
        if (template_problem !== undefined)
          log.warn(
            { model, template_problem, chat_template },
            chat_template === 'none'
              ? 'the chat template of the model cannot be rendered, so it continues texts'
              : 'the chat template of the model cannot be rendered, so another one is used',
          );
        report({ type: 'engine.model_loaded', attempt, info: { pid, model, path, ...loaded } });
        break;
      }
      case 'progress':
        this.loadedPart = message.loaded;
        break;
      case 'load_failed':
        report({ type: 'engine.load_failed', attempt, error: message.error });
        break;
      case 'output':
      case 'vector':
        this.replies.get(message.id)?.take(message);
        break;
      case 'finished':
      case 'failed':
      case 'stopped':
        this.replies.get(message.id)?.take(message);
        this.replies.delete(message.id);
        break;
      default:
        message satisfies never;
    }
  }

  /** Handles a process that could not start: it never exits. */
  private noteError(error: Error): void {
    this.options.log.warn({ err: error }, 'trouble with the engine process');
    if (this.child.pid !== undefined) return;
    this.options.report({
      type: 'engine.load_failed',
      attempt: this.attempt,
      error: notStarted(error),
    });
    this.end(null, null);
  }

  private noteMemory(used_bytes: number): void {
    this.options.log.warn(
      { engine_attempt: this.attempt, used_bytes },
      'the engine takes more memory than engine_memory_bytes allows, and is ended',
    );
    this.endedFor = 'memory';
    this.child.kill('SIGKILL');
  }

  /** Waits for the last messages before the exit is appended. */
  private noteExit(exit_code: number | null, signal: string | null): void {
    if (!this.hasStarted && NOT_BEGUN.has(exit_code))
      this.options.report({
        type: 'engine.load_failed',
        attempt: this.attempt,
        error: NOT_STARTED,
      });
    if (this.child.connected) this.child.once('disconnect', () => this.end(exit_code, signal));
    else this.end(exit_code, signal);
  }

  private end(exit_code: number | null, signal: string | null): void {
    this.isGone = true;
    this.memory.stop();
    // No fault of a process sends it SIGKILL.
    const isOutside = signal === 'SIGKILL' && !this.stopping;
    const reason = this.endedFor ?? (isOutside ? 'outside' : null);
    this.options.report({
      type: 'engine.exited',
      attempt: this.attempt,
      exit_code,
      signal,
      ...(reason === null ? {} : { reason }),
    });
    const loss = this.loss(this.replies.size);
    for (const reply of this.replies.values()) reply.lose(loss);
    this.replies.clear();
    this.exit.resolve();
  }

  /**
   * The error of open answers. A process that was stopped on purpose proves nothing against its
   * runs.
   */
  private loss(computing: number): SvcError {
    if (this.stopping)
      return new SvcError('run_interrupted', STOPPED, {
        retryable: true,
        lost: true,
        computing: 0,
      });
    return new SvcError(
      'engine_crashed',
      'The engine process died before the answer was complete.',
      { retryable: true, lost: true, computing },
    );
  }

  private send(message: ToEngine): void {
    if (this.child.connected) this.child.send(message, () => {});
  }
}

const NOT_SENT = 'The request cannot be sent to the engine: it is nested too deeply.';
const STOPPED = 'The engine was stopped before the answer was complete.';

/** The reason that the process could not start. */
export function notStarted(error: unknown): Failure {
  const exhausted = asExhausted(error);
  return exhausted === null
    ? NOT_STARTED
    : { code: exhausted.code, message: exhausted.message, retryable: true };
}

const NOT_STARTED: Failure = {
  code: 'engine_failed',
  message: 'The engine process could not be started.',
  retryable: true,
};

/**
 * Keeps the debugger closed in the first moment, before the engine handles SIGUSR1. Older versions
 * of Node do not know the option.
 */
const NO_DEBUGGER = ['--disable-sigusr1'].filter((option) =>
  process.allowedNodeEnvironmentFlags.has(option),
);

/** In the same folder in the sources and in the build. */
const ENTRY = fileURLToPath(new URL(`./engine/main${extname(import.meta.url)}`, import.meta.url));

/** Arguments for `fork`. */
interface EngineCommand {
  execPath?: string;
  execArgv: string[];
}

/**
 * Returns the command that starts the engine process with restricted privileges. On Linux,
 * `setpriv` prevents new privileges, and kills the process when the daemon dies.
 */
function engineCommand(
  nodeFlags: readonly string[],
  program: string = process.execPath,
): EngineCommand {
  const bounds = [`--max-old-space-size=${HEAP_MB}`, `--max-semi-space-size=${YOUNG_MB}`];
  const flags = [...bounds, ...nodeFlags];
  const setpriv = findSetpriv();
  return setpriv === null
    ? { execArgv: flags }
    : { execPath: setpriv, execArgv: [...RESTRAINTS, '--', program, ...flags] };
}

/** Exit codes of `setpriv` for a program that did not start. */
const NOT_BEGUN: ReadonlySet<number | null> = new Set([126, 127]);

/** Bound of the JavaScript heap. Weights and contexts are outside it. */
const HEAP_MB = 1024;
/** Bound of each half of its young part. A token needs little of it, and more stays resident. */
const YOUNG_MB = 1;
const RESTRAINTS = ['--no-new-privs', '--pdeathsig', 'KILL'];
const PLACES = ['/usr/bin/setpriv', '/bin/setpriv'];
const PROBE_MS = 2000;

let found: string | null | undefined;

/** Tests `setpriv` once: an old or minimal version lacks some options. */
function findSetpriv(): string | null {
  if (found !== undefined) return found;
  const place = process.platform === 'linux' ? PLACES.find((path) => existsSync(path)) : undefined;
  const works = (path: string) =>
    spawnSync(path, [...RESTRAINTS, '--', process.execPath, '--version'], {
      stdio: 'ignore',
      timeout: PROBE_MS,
    }).status === 0;
  found = place !== undefined && works(place) ? place : null;
  return found;
}

/**
 * Copies the output of the engine process to the log, line by line. Cuts long lines, and drops
 * lines after the bound.
 */
function logLines(
  source: Readable,
  log: Log,
  limits: Pick<Limits, 'log_line_bytes' | 'engine_log_lines'>,
  fields: object,
): void {
  const lengthMax = Math.floor(limits.log_line_bytes / 4);
  let rest = '';
  let lines = 0;
  const write = (line: string) => {
    lines += 1;
    if (line === '' || lines > limits.engine_log_lines + 1) return;
    log.debug(
      fields,
      lines > limits.engine_log_lines
        ? 'more of what the engine prints is left out'
        : line.slice(0, lengthMax),
    );
  };
  source.setEncoding('utf8');
  source.on('data', (text: string) => {
    const parts = (rest + text).split('\n');
    rest = (parts.pop() ?? '').slice(0, lengthMax);
    for (const line of parts) write(line.trimEnd());
  });
  source.on('end', () => write(rest.trimEnd()));
  source.on('error', () => {});
}

/**
 * Selects the environment of the engine process: variables for its libraries, temporary files and
 * the GPU. All other variables are dropped, above all the keys of cloud providers. The list has
 * whole names, because a prefix could match a secret.
 */
export function engineEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const given = Object.entries(env).filter(([name]) => NAMES.has(name.toUpperCase()));
  return { ...ALLOCATOR, ...Object.fromEntries(given) };
}

const NAMES = new Set([
  ...Object.keys(ALLOCATOR),
  'PATH',
  'NODE_COMPILE_CACHE',
  'HOME',
  'LANG',
  'TZ',
  'TMPDIR',
  'TMP',
  'TEMP',
  'USERPROFILE',
  'SYSTEMROOT',
  'WINDIR',
  'LOCALAPPDATA',
  'PROGRAMDATA',
  'LC_ALL',
  'LC_CTYPE',
  'LC_MESSAGES',
  'LC_NUMERIC',
  'CUDA_VISIBLE_DEVICES',
  'CUDA_DEVICE_ORDER',
  'CUDA_PATH',
  'CUDA_HOME',
  'CUDA_CACHE_PATH',
  'CUDA_MODULE_LOADING',
  'NVIDIA_VISIBLE_DEVICES',
  'NVIDIA_DRIVER_CAPABILITIES',
  'GGML_CUDA_ENABLE_UNIFIED_MEMORY',
  'GGML_CUDA_FORCE_MMQ',
  'GGML_CUDA_NO_PINNED',
  'GGML_VK_VISIBLE_DEVICES',
  'VK_ICD_FILENAMES',
  'VK_DRIVER_FILES',
  'VK_LAYER_PATH',
  'HIP_VISIBLE_DEVICES',
  'HIP_PATH',
  'ROCR_VISIBLE_DEVICES',
  'HSA_OVERRIDE_GFX_VERSION',
  'HSA_ENABLE_SDMA',
  'LD_LIBRARY_PATH',
  'DYLD_LIBRARY_PATH',
  'XDG_DATA_DIRS',
  'XDG_RUNTIME_DIR',
  'OMP_NUM_THREADS',
  'NODE_V8_COVERAGE',
]);
