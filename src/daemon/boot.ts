import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import { isIn } from '../../machines/step.ts';
import type { Clock } from '../async/clock.ts';
import { whyUnusable } from '../causes.ts';
import { asSvcError, fromBody, SvcError } from '../errors.ts';
import { tidyCompiledCode } from '../home/compiled-code.ts';
import { endsAtHangup } from '../home/terminal.ts';
import { isFull } from '../kernel/store/failure.ts';
import { exitAtOnce, notifyParent } from './exit.ts';
import { buildParts, type Parts, type PartsOptions } from './parts.ts';
import { ServiceNotice } from './service-notice.ts';
import { STOPPED, startDaemon } from './start.ts';
import { closeAll, releaseAll } from './stop.ts';

/**
 * One boot of the daemon: starts the parts, and closes them when it ends.
 *
 * 1. The machine of the daemon decides what happens next; a boot only performs it.
 * 2. A boot ends when the machine reaches a final state, or when events can no longer be recorded.
 * 3. A start and a stop end in time even if the log takes no event: the disk may be full, or not
 *    answer.
 */
export class Boot {
  private readonly parts: Parts;
  private readonly outcome = Promise.withResolvers<SvcError | null>();
  /** Aborts with the outcome; ends the timers and the listeners of the boot. */
  private readonly ended = new AbortController();
  private isStarting = true;
  private starting: Promise<void> = Promise.resolve();

  constructor(options: Omit<PartsOptions, 'onFatal'>) {
    this.parts = buildParts({ ...options, onFatal: (error) => this.fail(error) });
  }

  /**
   * Starts the daemon. Resolves once everything is closed, with the failure that ended the boot or
   * null.
   */
  async run(): Promise<SvcError | null> {
    const { parts, ended } = this;
    const { kernel, config, streams, clock, paths, version } = parts;
    parts.log.info({}, `svc ${version} starts: pid ${process.pid}, ${paths.home}`);
    const closed = new AbortController();
    kernel.handle({
      ...parts.handlers,
      closeDaemon: () =>
        void this.starting
          .then(() => parts.membership.close())
          .then(() => releaseAll(parts))
          .catch((error: unknown) => this.fail(error)),
    });
    kernel.subscribe({ stream: streams.daemon }, (_, snapshot) => {
      if (snapshot.status === 'done') this.outcome.resolve(failureOf(snapshot));
    });
    parts.stopRequests.subscribe((at) => this.endBy(at, () => void this.endWithoutLog()));
    endBlockedStop(parts, this.outcome.resolve, ended.signal);
    const collect = createCollector();
    collectWhenIdle(config.limits.memory_idle_ms, ended.signal, () => {
      tidyCompiledCode().catch((error: unknown) =>
        parts.log.debug({ err: error }, 'old compiled code could not be removed'),
      );
      collect();
    });
    new ServiceNotice(
      { kernel, daemon: streams.daemon, log: parts.log, env: process.env },
      closed.signal,
    );
    this.listen(closed.signal);
    const start_deadline_at = clock.now() + config.limits.start_ms;
    this.endBy(start_deadline_at, () => this.endStart());
    this.starting = this.start();

    const failure = await this.outcome.promise;
    ended.abort();
    if (failure !== null) logFailure(parts, failure);
    const outcome = await closeAll(parts, failure);
    closed.abort();
    return outcome;
  }

  private async start(): Promise<void> {
    try {
      const { queueRecovered } = await startDaemon(this.parts, this.ended.signal).finally(() => {
        this.isStarting = false;
      });
      const { runtime, warning } = this.parts;
      notifyParent({ type: 'ready', status: { ...runtime.status(), warning: warning() } });
      await queueRecovered;
    } catch (error) {
      if (error !== STOPPED) this.fail(error);
    }
  }

  private fail(error: unknown): void {
    this.outcome.resolve(toFailure(error));
  }

  private async endWithoutLog(): Promise<void> {
    this.outcome.resolve(await endUnrecorded(this.parts));
  }

  /** Each durable step of the recovery moves the deadline of the start. */
  private endStart(): void {
    if (!this.isStarting) return;
    const { kernel, streams, clock } = this.parts;
    const moved_to = kernel.snapshot(streams.daemon)?.context.start_deadline_at ?? 0;
    if (moved_to + SLACK_MS > clock.now()) this.endBy(moved_to, () => this.endStart());
    else this.fail(kernel.stalled ?? new SvcError('start_timed_out'));
  }

  /**
   * Calls shortly after this time, unless the boot has ended: a deadline that can be recorded comes
   * first.
   */
  private endBy(at: number, call: () => void): void {
    const { clock } = this.parts;
    clock.after(at + SLACK_MS - clock.now(), call, this.ended.signal);
  }

  /** Signals ask the machine to stop. An uncaught error fails the boot. */
  private listen(closed: AbortSignal): void {
    const { log, runtime, kernel } = this.parts;
    listenToSignals(
      (mode) => {
        if (mode === 'exit') {
          log.warn({}, 'left at once, at the third signal');
          return exitAtOnce();
        }
        // No run is accepted yet, and no event can be recorded.
        if (this.isStarting && !kernel.isOpen) {
          log.info({}, 'stopped before the event log was open');
          return this.outcome.resolve(null);
        }
        runtime
          .lifecycle({ type: 'stop_requested', mode }, 'signal')
          .catch((error: unknown) =>
            log.debug({ err: error }, 'a signal came when the daemon was stopping already'),
          );
      },
      closed,
      () => log.info({}, 'SIGHUP ends no daemon without a terminal: use svc stop'),
    );
    const on = (event: string, listener: (error: unknown) => void) => {
      process.on(event, listener);
      closed.addEventListener('abort', () => process.off(event, listener));
    };
    on('SIGUSR1', () => log.warn({}, 'SIGUSR1 requests a debugger: none is opened'));
    on('uncaughtException', (error) => this.fail(error));
    on('unhandledRejection', (error) => this.fail(error));
  }
}

const SLACK_MS = 500;

function failureOf(final: DaemonSnapshot): SvcError | null {
  const { error } = final.context;
  return isIn(final, 'failed') ? fromBody(error ?? {}) : null;
}

/** A start that finds another daemon has not failed itself, so its stack is not logged. */
function logFailure({ log }: Parts, failure: SvcError): void {
  if (failure.code === 'daemon_already_running') log.warn({ code: failure.code }, failure.message);
  else log.error({ code: failure.code, err: failure.cause ?? failure }, failure.message);
}

/**
 * Maps the fatal error. Any lack of space becomes store_full. Any other file failure names the file
 * and the cause.
 */
export function toFailure(thrown: unknown): SvcError {
  const error = asSvcError(isFull(thrown) ? thrown : asFileFailure(thrown));
  if (error.code === 'store_full' || !isFull(error.cause)) return error;
  const what = error.code === 'internal' ? 'The daemon cannot write what it needs.' : error.message;
  return new SvcError('store_full', `The disk is full. ${what}`, {
    cause: error.cause,
    hint: 'Free some space, then run: svc start',
  });
}

/** A failed system call on a file: Node names the call, the file and the cause. */
function asFileFailure(thrown: unknown): unknown {
  const { syscall, path } = thrown as NodeJS.ErrnoException;
  if (thrown instanceof SvcError || typeof syscall !== 'string' || typeof path !== 'string')
    return thrown;
  return new SvcError('home_unusable', `${path} cannot be used: ${whyUnusable(thrown)}.`, {
    cause: thrown,
    hint: 'Correct its owner and mode, and look at its disk; or choose another home with SVC_HOME.',
  });
}

/**
 * The first signal drains, the second forces, the third exits at once; until `ended` aborts.
 * `onHangup` is called for SIGHUP where SIGHUP does not stop the daemon.
 */
function listenToSignals(
  stop: (mode: 'drain' | 'force' | 'exit') => void,
  ended: AbortSignal,
  onHangup: () => void,
): void {
  let count = 0;
  const listener = () => {
    count += 1;
    stop(count === 1 ? 'drain' : count === 2 ? 'force' : 'exit');
  };
  const listeners = {
    SIGINT: listener,
    SIGTERM: listener,
    SIGHUP: endsAtHangup() ? listener : onHangup,
  };
  for (const [signal, call] of Object.entries(listeners)) {
    process.on(signal, call);
    ended.addEventListener('abort', () => process.off(signal, call));
  }
}

/**
 * Collects garbage when the daemon has become idle, until the signal aborts. V8 collects only when
 * it needs space. Without this, an idle process keeps the memory of its last work.
 *
 * 1. It collects after a whole interval with next to no work, so no request waits for it.
 * 2. It collects once after each time of work. The start of the daemon is one.
 */
export function collectWhenIdle(idle_ms: number, signal: AbortSignal, collect: () => void): void {
  let before = performance.eventLoopUtilization();
  let worked_ms = WORKED_MS;
  const timer = setInterval(() => {
    const now = performance.eventLoopUtilization();
    const { active } = performance.eventLoopUtilization(now, before);
    before = now;
    if (active > idle_ms * IDLE_SHARE) worked_ms += active;
    else if (worked_ms >= WORKED_MS) {
      worked_ms = 0;
      collect();
      before = performance.eventLoopUtilization();
    }
  }, idle_ms);
  timer.unref();
  signal.addEventListener('abort', () => clearInterval(timer));
}

/** An interval is idle below this share of work. */
const IDLE_SHARE = 0.05;
/** Less work than this leaves little garbage. */
const WORKED_MS = 500;

/**
 * The flag adds `gc` only to new contexts, so ours stays as it is. Only a last-resort collection
 * returns spare pages to the system.
 */
function createCollector(): () => void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  setFlagsFromString('--no-expose-gc');
  return () => collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

/**
 * Ends a stop that cannot write the log: accepted runs are in the log, and the next start
 * recovers it.
 *
 * 1. A stop ends without the log after `stop_blocked_ms` in which no commit was made.
 * 2. On a full disk nothing is lost: all runs are handed over, and the stop is clean except for its
 *    own events.
 * 3. If the disk does not answer, the outcome of the last commit is unknown: the stop fails with
 *    that reason.
 */
export function endBlockedStop(
  parts: BlockedParts,
  end: (failure: SvcError | null) => void,
  signal: AbortSignal,
): void {
  const { kernel, clock, streams, config, stopRequests } = parts;
  let waiting: AbortController | null = null;
  const forget = () => {
    waiting?.abort();
    waiting = null;
  };
  const check = () => {
    const isStopping = kernel.tail(streams.daemon)?.hasTag('stopping') === true;
    if (signal.aborted || kernel.stalled === null || !isStopping || waiting !== null) return;
    waiting = new AbortController();
    const call = () => void endUnrecorded(parts).then(end);
    clock.after(config.limits.stop_blocked_ms, call, waiting.signal);
  };
  kernel.stalls.onStall(check, signal);
  kernel.stalls.onResume(forget, signal);
  // A request is heard before its event is proposed.
  stopRequests.subscribe(() => queueMicrotask(check), signal);
  signal.addEventListener('abort', forget);
}

/** How a boot ends when its end cannot be recorded. */
async function endUnrecorded({
  kernel,
  store,
  stopReports,
  log,
}: BlockedParts): Promise<SvcError | null> {
  const cause = kernel.stalled;
  if (cause === null) return new SvcError('stop_timed_out');
  if (cause.code === 'store_stalled')
    return new SvcError('store_stalled', UNANSWERED, {
      cause,
      hint: 'Look at the disk, then run: svc start',
    });
  try {
    const { unfinished } = await store.countRuns();
    stopReports.endUnrecorded(stopReports.report(unfinished));
    log.warn(
      { handed_over: unfinished },
      'The disk is full: the event log does not say that the daemon stopped. ' +
        'The next start recovers its runs.',
    );
    return null;
  } catch (error) {
    return new SvcError('store_full', undefined, { cause: error });
  }
}

type BlockedParts = { clock: Clock } & Pick<
  Parts,
  'kernel' | 'store' | 'streams' | 'config' | 'stopReports' | 'stopRequests' | 'log'
>;

const UNANSWERED =
  'The disk does not answer: the event log does not say that the daemon stopped. ' +
  'The next start recovers its runs.';
