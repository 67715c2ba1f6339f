import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import type { Effects } from '../../../machines/effects.ts';
import { type EngineEvent, TOO_MUCH_MEMORY } from '../../../machines/engine.ts';
import type { Failure, NewEvent } from '../../../machines/events.ts';
import { asExhausted } from '../../descriptors.ts';
import { fromBody, SvcError } from '../../errors.ts';
import { ALLOCATOR } from '../../home/allocator.ts';
import type { Limits } from '../../limits.ts';
import type { Log } from '../../ports/log.ts';
import { MemoryWatch } from './memory-watch.ts';

export interface EngineChildOptions {
  started: Effects['startEngine'];
  env: NodeJS.ProcessEnv;
  limits: Limits;
  log: Log;
  /** Appends an event to the stream of the engine. */
  report(event: NewEvent<EngineEvent>): void;
}

/** Starts the process of one attempt, with a context for so many runs. */
export type Spawn<P> = (
  started: Pick<EngineChildOptions, 'started' | 'report'>,
  parallel: number,
) => P;

/**
 * The process of one engine, whatever runs in it.
 *
 * 1. Each event carries the attempt of its process. `engine.exited` is appended once, as the last
 *    event.
 * 2. Its output goes to the log, within bounds. Its memory is watched.
 */
export abstract class EngineChild<O extends EngineChildOptions = EngineChildOptions> {
  readonly attempt: number;
  protected readonly options: O;
  protected readonly child: ChildProcess;
  protected stopping = false;
  protected isGone = false;
  protected hasStarted = false;
  protected isLoaded = false;
  private endedFor: 'memory' | null = null;
  private workers = 0;
  private readonly memory: MemoryWatch;
  private readonly exit = Promise.withResolvers<void>();

  constructor(options: O, child: ChildProcess, memoryBytes: number) {
    this.options = options;
    this.child = child;
    this.attempt = options.started.attempt;
    child.on('error', (error) => this.noteError(error));
    child.on('exit', (code, signal) => this.noteExit(code, signal));
    for (const source of [child.stdout, child.stderr]) {
      // A process that could not start has no streams: they are undefined.
      if (source != null) this.logLines(source);
    }
    this.memory = new MemoryWatch(
      child.pid ?? 0,
      { path: options.started.path, memoryBytes },
      {
        onUsed: (bytes) => this.noteUse(bytes),
        onExceeded: (used_bytes) => this.noteMemory(used_bytes),
      },
    );
  }

  /** The process was asked to load the model, and has not done so. */
  get isLoading(): boolean {
    return this.hasStarted && !this.isLoaded;
  }

  /** How much of the model is loaded, from 0 to 1. */
  get progress(): number {
    return 0;
  }

  /** Work without an end. */
  get orders(): number {
    return this.workers;
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

  stop(): void {
    this.stopping = true;
    this.requestExit();
  }

  kill(): void {
    this.stopping = true;
    this.killNow();
  }

  /** Asks the process to exit. */
  protected abstract requestExit(): void;

  protected killNow(): void {
    this.child.kill('SIGKILL');
  }

  /** Memory that it has now, besides files of weights. */
  protected noteUse(_bytes: number): void {}

  /** A line of its output. */
  protected noteLine(_line: string): void {}

  /** The last event before the exit, if there is one. */
  protected noteEnd(_exit_code: number | null, _signal: string | null): void {}

  protected noteExit(exit_code: number | null, signal: string | null): void {
    this.end(exit_code, signal);
  }

  protected end(exit_code: number | null, signal: string | null): void {
    this.isGone = true;
    this.memory.stop();
    this.noteEnd(exit_code, signal);
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
    this.exit.resolve();
  }

  /**
   * The error of open answers. A process that was stopped on purpose proves nothing against its
   * runs.
   */
  protected loss(computing: number): SvcError {
    if (this.stopping)
      return new SvcError('run_interrupted', STOPPED, {
        retryable: true,
        lost: true,
        computing: 0,
      });
    // Another run may have taken it.
    if (this.endedFor === 'memory')
      return fromBody(TOO_MUCH_MEMORY, { retryable: computing > 1, lost: true, computing });
    return new SvcError(
      'engine_crashed',
      'The engine process died before the answer was complete.',
      { retryable: true, lost: true, computing },
    );
  }

  protected fail(error: Failure): void {
    this.options.report({ type: 'engine.load_failed', attempt: this.attempt, error });
  }

  /** Handles a process that could not start: it never exits. */
  private noteError(error: Error): void {
    this.options.log.warn({ err: error }, 'trouble with the engine process');
    if (this.child.pid !== undefined) return;
    this.fail(startFailureOf(error));
    this.end(null, null);
  }

  private noteMemory(used_bytes: number): void {
    this.options.log.warn(
      { engine_attempt: this.attempt, used_bytes },
      'the engine takes more memory than its limit allows, and is ended',
    );
    this.endedFor = 'memory';
    this.killNow();
  }

  /**
   * Copies the output to the log, line by line. Cuts long lines, and drops lines after the bound.
   */
  private logLines(source: Readable): void {
    const { log, limits } = this.options;
    const fields = { engine_pid: this.child.pid };
    const lengthMax = Math.floor(limits.log_line_bytes / 4);
    let rest = '';
    let lines = 0;
    const write = (line: string) => {
      lines += 1;
      if (line === '') return;
      const short = line.slice(0, lengthMax);
      this.noteLine(short);
      if (lines > limits.engine_log_lines + 1) return;
      log.debug(
        fields,
        lines > limits.engine_log_lines ? 'more output of the engine is left out' : short,
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
}

const STOPPED = 'The engine was stopped before the answer was complete.';

/** The reason that the process could not start. */
export function startFailureOf(error: unknown): Failure {
  const exhausted = asExhausted(error);
  return exhausted === null
    ? NOT_STARTED
    : { code: exhausted.code, message: exhausted.message, retryable: true };
}

export const NOT_STARTED: Failure = {
  code: 'engine_failed',
  message: 'The engine process could not be started.',
  retryable: true,
};

/**
 * Selects the environment of the engine process: variables for its libraries, temporary files and
 * the GPU. All other variables are dropped, above all the keys of cloud providers. The list has
 * whole names, because a prefix could match a secret.
 */
export function engineEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const variables = Object.entries(env).filter(([name]) => NAMES.has(name.toUpperCase()));
  return { ...ALLOCATOR, ...Object.fromEntries(variables) };
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
