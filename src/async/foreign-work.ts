import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { asExhausted } from '../descriptors.ts';
import { SvcError } from '../errors.ts';
import { type Asked, BEGUN, OUT_OF_TIME, type Said } from './foreign-child.ts';
import { createGate } from './gate.ts';
import { callAfter } from './timers.ts';

/**
 * Work on third-party content, such as a file or a schema. It may need any time and any memory, so
 * it is done in another process, which can be killed.
 *
 * 1. A thread would not do. V8 ends the whole process when one allocation exceeds the heap of a
 *    thread, whatever limit the thread has.
 * 2. A process answers one question at a time. One that exceeded a bound gets no other question.
 * 3. An owner of content has one question at work. So one slow owner does not keep all processes
 *    from the others.
 * 4. A process knows nothing of the user: it gets no variables but the folder of compiled code.
 * 5. The time limit counts processor time. On a busy machine, or after a pause, a clock says
 *    nothing about the content. So the limit by the clock is twelve times as long.
 */

export interface ForeignWorkOptions {
  /** The file whose process calls `answerQuestions`. */
  entry: URL;
  /** Bound of its JavaScript heap. */
  heap_bytes: number;
  /** Bound of all its memory. */
  memory_bytes: number;
  /** Processes at one time. */
  places: number;
  /** For which a process waits for the next question. Then it ends. */
  idle_ms: number;
}

/** `time` and `memory`: the work exceeded its bound. `crash`: its process ended in another way. */
export type Excess = 'time' | 'memory' | 'crash';

export type Outcome<A> =
  | { readonly answer: A; readonly excess?: never }
  | { readonly excess: Excess; readonly answer?: never };

export interface Asking {
  /** Processor time from the beginning of the work to its answer. */
  ms: number;
  signal?: AbortSignal;
  /** Whose content it is. Absent: it waits for no other question. */
  owner?: string;
}

export class ForeignWork<Q, A> {
  private readonly options: ForeignWorkOptions;
  private readonly idle: Child[] = [];
  private readonly inPlace: ReturnType<typeof createGate>;
  private readonly last = new Map<string, Promise<unknown>>();

  constructor(options: ForeignWorkOptions) {
    this.options = options;
    this.inPlace = createGate(options.places);
  }

  /** Throws descriptors_exhausted, busy, the error of the work, and the reason of the signal. */
  async ask(question: Q, { owner, ...bounds }: Asking): Promise<Outcome<A>> {
    const work = () => this.inPlace(() => this.work(question, bounds));
    if (owner === undefined) return work();
    const before = this.last.get(owner) ?? Promise.resolve();
    const mine = before.then(work);
    const ended = mine.catch(() => {});
    this.last.set(owner, ended);
    try {
      return await mine;
    } finally {
      if (this.last.get(owner) === ended) this.last.delete(owner);
    }
  }

  /** Starts a process, so that the next question does not wait for it. */
  warm(): void {
    try {
      if (this.idle.length === 0) this.keep(this.make());
    } catch {
      // The question will say why.
    }
  }

  private async work(question: Q, { ms, signal }: Asking): Promise<Outcome<A>> {
    signal?.throwIfAborted();
    const child = this.idle.pop() ?? this.make();
    try {
      const outcome = await child.ask(question, ms, signal);
      return outcome as Outcome<A>;
    } finally {
      this.keep(child);
    }
  }

  private make(): Child {
    try {
      return new Child(this.options);
    } catch (error) {
      throw asExhausted(error) ?? error;
    }
  }

  /** Keeps a process for a while, unless it has no further use. */
  private keep(child: Child): void {
    const drop = () => {
      const at = this.idle.indexOf(child);
      if (at >= 0) this.idle.splice(at, 1);
      child.end();
    };
    if (this.idle.length >= this.options.places || !child.rest(this.options.idle_ms, drop)) drop();
    else this.idle.push(child);
  }
}

/** One process. */
class Child {
  private readonly process: ChildProcess;
  private isUsable = true;
  private resting: NodeJS.Timeout | undefined;
  private onIdle = () => {};
  /** Called once with how the present question ends. */
  private settle: (end: Said | { excess: Excess } | { failure: unknown }) => void = () => {};

  constructor({ entry, heap_bytes, memory_bytes }: ForeignWorkOptions) {
    const { NODE_COMPILE_CACHE: code, SYSTEMROOT: root } = process.env;
    this.process = fork(fileURLToPath(entry), [String(memory_bytes)], {
      execArgv: [`--max-old-space-size=${Math.ceil(heap_bytes / MIB)}`, ...FLAGS],
      env: { ...(code && { NODE_COMPILE_CACHE: code }), ...(root && { SYSTEMROOT: root }) },
      // Libraries write warnings.
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      serialization: 'advanced',
    });
    this.process.on('message', (said: Said) => this.settle(said));
    this.process.on('error', (failure) => this.lose({ failure }));
    this.process.on('exit', (_, signal) => this.lose({ excess: excessOf(signal) }));
    // A daemon that leaves does not wait for it: it ends with the channel.
    this.process.unref();
    this.process.channel?.unref();
  }

  async ask(question: unknown, ms: number, signal?: AbortSignal): Promise<Outcome<unknown>> {
    clearTimeout(this.resting);
    this.onIdle = () => {};
    const { promise, resolve, reject } = Promise.withResolvers<Outcome<unknown>>();
    let stop = callAfter(START_MS, () => reject(new SvcError('busy', NOT_STARTED)));
    const onAbort = () => reject(signal?.reason);
    this.settle = (end) => {
      if (end === BEGUN) {
        stop();
        stop = callAfter(ms * CLOCK_FACTOR, () => resolve({ excess: 'time' }));
      } else if ('answer' in end) resolve({ answer: end.answer });
      else if ('excess' in end) resolve({ excess: end.excess });
      else if ('thrown' in end) {
        const { message, code } = end.thrown;
        const error = Object.assign(new Error(message), code === undefined ? {} : { code });
        reject(asExhausted(error) ?? error);
      } else reject(asExhausted(end.failure) ?? end.failure);
    };
    signal?.addEventListener('abort', onAbort);
    let isAnswered = false;
    try {
      if (!this.isUsable) this.settle({ excess: 'crash' });
      // Without a free descriptor no process starts. Its `error` event, which follows, has the
      // cause.
      else if (this.process.pid !== undefined)
        this.process.send({ question, ms } satisfies Asked<unknown>, (failure) => {
          if (failure !== null) this.lose({ failure });
        });
      const outcome = await promise;
      isAnswered = outcome.excess === undefined;
      return outcome;
    } finally {
      stop();
      signal?.removeEventListener('abort', onAbort);
      this.settle = () => {};
      this.isUsable &&= isAnswered;
    }
  }

  /** Waits for the next question, and calls when it waits no longer. False: it gets none. */
  rest(ms: number, onIdle: () => void): boolean {
    if (!this.isUsable || ms === 0) return false;
    this.onIdle = onIdle;
    this.resting = setTimeout(onIdle, ms);
    this.resting.unref();
    return true;
  }

  end(): void {
    clearTimeout(this.resting);
    this.isUsable = false;
    this.process.kill('SIGKILL');
  }

  private lose(end: { excess: Excess } | { failure: unknown }): void {
    this.isUsable = false;
    this.settle(end);
    this.onIdle();
  }
}

/** V8 aborts at the bound of its heap. What watches the memory, and the system, kill. */
function excessOf(signal: NodeJS.Signals | null): Excess {
  if (signal === OUT_OF_TIME) return 'time';
  return signal === 'SIGABRT' || signal === 'SIGKILL' || signal === 'SIGTRAP' ? 'memory' : 'crash';
}

/** Memory of a process without work, with its loaded code. */
export const PROCESS_BYTES = 128 * 1024 * 1024;
/** How much longer the clock may run: the machine may be busy with other work, or have slept. */
const CLOCK_FACTOR = 12;
/** For a process to start on a busy machine. */
const START_MS = 60_000;
const NOT_STARTED = 'The machine is too busy to start another process.';
const MIB = 1024 * 1024;
/** A small young generation stays small. Older versions of Node do not know the last option. */
const FLAGS = [
  '--max-semi-space-size=4',
  ...['--disable-sigusr1'].filter((option) => process.allowedNodeEnvironmentFlags.has(option)),
];
