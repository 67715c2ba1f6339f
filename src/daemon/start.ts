import type { DaemonEvent, LastBoot } from '../../machines/daemon/context.ts';
import { ENDINGS } from '../../machines/daemon/context.ts';
import type { NewEvent } from '../../machines/events.ts';
import { isIn } from '../../machines/step.ts';
import { isClearText } from '../config/address.ts';
import { outdatedNames } from '../config/renamed.ts';
import { isPostgres } from '../config/store/address.ts';
import { hasCode } from '../errors.ts';
import { hostBootId } from '../home/host.ts';
import { platform } from '../home/platform.ts';
import { folderOf, writeRuntimeFile } from '../home/runtime-file.ts';
import { forgetStart } from '../home/starting.ts';
import { isFull } from '../kernel/store/failure.ts';
import type { EventStore } from '../kernel/store/port.ts';
import { type RecoveryProgress, readLastBoot, recoverRuns } from '../runtime/runs/recover.ts';
import { removeSignInPages } from '../transport/auth/sign-in-page.ts';
import type { Parts } from './parts.ts';

/** Thrown by a step of the start that comes after a stop. */
export const STOPPED = Symbol('stopped');

/**
 * Starts the parts of the owner of the home, and records each step as an event. The TCP listeners
 * are bound before the store is opened, so that clients see `starting`. `ended`: the boot is over.
 * Resolves when the daemon is ready. A long queue may be recovered later.
 */
export async function startDaemon(
  parts: Parts,
  ended: AbortSignal,
): Promise<{ queueRecovered: Promise<void> }> {
  const { kernel, store, stored, scheduler, providers, local, streams, log } = parts;
  const { runtime, membership } = parts;
  const bound = await parts.listeners.bind();
  const warning = parts.warning();
  if (warning !== null) log.warn({}, warning);
  const outdated = outdatedNames(parts.config);
  if (outdated !== null)
    log.warn({}, `the configuration uses ${outdated.detail}. ${outdated.hint}`);
  if (isClearText(parts.config))
    log.warn({}, `HTTP at ${bound.http} has no TLS: tokens and prompts can be read on the way`);
  const listening = kernel.tryAppend(streams.daemon, {
    type: 'daemon.listening',
    addresses: { ...bound, socket: null },
  });
  const opened = await store.open();
  if (ended.aborted) throw STOPPED;
  const drain = () =>
    runtime
      .lifecycle({ type: 'stop_requested', mode: 'drain' }, 'fleet')
      .catch((error: unknown) => log.debug({ err: error }, 'the daemon stops already'));
  const { last_boot_id, is_clock_set } = await membership.join(
    opened,
    { ...bound, socket: null },
    drain,
  );
  const addresses = { ...bound, socket: await withRoom(store, () => parts.control.listen()) };
  log.info({}, `listening: ${bound.http}, gRPC ${bound.grpc}, ${addresses.socket}`);
  await removeSignInPages(parts.paths.signIn);
  await withRoom(store, () => announce(parts, addresses));
  stored.finished = (await store.countRuns()).finished;
  const last_boot = await readLastBoot(store, last_boot_id, hostBootId(), {
    rejoins: parts.rejoins,
    last_seq: opened.last_seq,
  });
  const recovering = kernel.tryAppend(streams.daemon, {
    type: 'daemon.store_opened',
    last_boot,
    ...(is_clock_set
      ? { start_deadline_at: parts.clock.now() + parts.config.limits.start_ms }
      : {}),
  });
  kernel.open(opened.last_seq);
  const [, isRecovering] = await Promise.all([listening, recovering]);
  await membership.joined();
  if (last_boot !== null && last_boot.ending !== 'clean')
    log.warn({}, describeUncleanEnd(last_boot));
  if (!isRecovering) throw STOPPED;
  await proceed(parts, { type: 'daemon.listening', addresses });
  let recoverQueue = () => Promise.resolve();
  let isCounted = false;
  const progress: RecoveryProgress = {
    step_runs: parts.config.limits.recover_runs,
    unreadable: (run_id, error) => {
      log.error({ err: error, run_id }, 'a run cannot be read from the log, so it is not resumed');
      // The daemon has counted a run that is read later.
      if (isCounted)
        void kernel
          .tryAppend(streams.daemon, { type: 'daemon.run_settled', run_id })
          .catch(() => {});
    },
    made: async (runs) => {
      if (!isCounted) return proceed(parts, { type: 'daemon.recovery_progressed', runs });
      const daemon = kernel.tail(streams.daemon);
      if (daemon === undefined || isIn(daemon, 'closing') || !daemon.hasTag('live')) throw STOPPED;
    },
    // A node has no long queue: the fleet has it.
    ...(isPostgres(parts.config.store)
      ? {}
      : {
          later: (rest) => {
            recoverQueue = rest;
          },
        }),
  };
  await proceed(parts, {
    type: 'daemon.runs_recovered',
    ...(await recoverRuns(kernel, store, scheduler, progress)),
  });
  isCounted = true;
  const queueRecovered = recoverQueue();
  // The caller awaits it. It may fail earlier.
  queueRecovered.catch(() => {});
  await providers.open();
  await proceed(parts, { type: 'daemon.providers_probed' });
  scheduler.next();
  membership.start();
  parts.diskMonitor.onReady();
  parts.retention.start();
  await parts.verification.start();
  log.info({}, `ready after ${Math.round(process.uptime() * 100) / 100} s`);
  if (parts.config.engine_preload)
    local.warm().catch((error: unknown) => {
      // A stop, or an unload, may come first.
      if (!hasCode(error, 'daemon_stopping') && !hasCode(error, 'run_cancelled'))
        log.warn({ err: error }, 'the engine could not be warmed');
    });
  return { queueRecovered };
}

function describeUncleanEnd({ ending, at, unfinished_runs: runs }: LastBoot): string {
  const left = `${runs} unfinished run${runs === 1 ? '' : 's'}`;
  const time = new Date(at).toISOString();
  return `the last daemon ${ENDINGS[ending]}, with ${left}; its last event was at ${time}`;
}

async function announce(
  { paths, boot_id, version }: Parts,
  addresses: { http: string; grpc: string; socket: string },
): Promise<void> {
  await writeRuntimeFile(paths.runtime, {
    pid: process.pid,
    process_start: platform.processStart(process.pid),
    folder: folderOf(paths.runtime),
    boot_id,
    version,
    started_at: new Date().toISOString(),
    program: process.argv[1] ?? '',
    node: process.version,
    addresses,
  });
  forgetStart(paths.runtime);
}

/** Writes a file beside the log. On a full disk it spends the reserve, as the log does. */
async function withRoom<T>(
  store: Pick<EventStore, 'spendReserve'>,
  write: () => Promise<T>,
): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (!(isFull(error) || isFull((error as Error).cause)) || !(await store.spendReserve()))
      throw error;
    return write();
  }
}

/** Records a step of the start. A daemon that is to stop goes no further. */
async function proceed({ kernel, streams }: Parts, step: NewEvent<DaemonEvent>): Promise<void> {
  if (!(await kernel.tryAppend(streams.daemon, step))) throw STOPPED;
}
