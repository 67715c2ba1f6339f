import { setTimeout as delay } from 'node:timers/promises';
import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import type { RunSnapshot } from '../../machines/run/chart.ts';
import { isIn } from '../../machines/step.ts';
import { asSvcError, type SvcError } from '../errors.ts';
import { removeRuntimeFile } from '../home/runtime-file.ts';
import { isEngine } from '../kernel/stream.ts';
import type { Parts } from './parts.ts';

/**
 * Stops all work and the engines, then records that the daemon stopped, and the outcome of the
 * runs. Unfinished runs are handed over to the next start. The deadline of the machine bounds it.
 */
export async function releaseAll({
  kernel,
  store,
  scheduler,
  stopReports,
  pulls,
  mcp,
  toolCalls,
  streams,
}: WorkParts): Promise<void> {
  const runs = scheduler.activeRuns();
  const reason = 'daemon_stopping';
  await Promise.all(
    runs.map((run) => kernel.tryAppend(run, { type: 'run.interrupt_requested', reason })),
  );
  for (const run of runs) await kernel.waitFor(run, (snapshot) => !hasWork(snapshot));
  toolCalls.close();
  await Promise.all([pulls.close(), mcp.stopAll()]);
  await Promise.all(
    [...kernel.instances.keys()].filter(isEngine).map(async (engine) => {
      await kernel.tryAppend(engine, { type: 'engine.stop_requested', reason });
      await kernel.waitFor(engine, (snapshot) => !snapshot.hasTag('leaving'));
    }),
  );
  // The log also knows runs that the recovery had not reached when the stop came.
  const { unfinished } = await store.countRuns();
  await kernel.tryAppend(streams.daemon, {
    type: 'daemon.stopped',
    ...stopReports.report(unfinished),
  });
}

type WorkParts = Pick<
  Parts,
  'kernel' | 'store' | 'scheduler' | 'stopReports' | 'pulls' | 'toolCalls' | 'streams'
> & { mcp: Pick<Parts['mcp'], 'stopAll'> };

/** A suspended run has no work behind it: it waits for the next start. */
function hasWork(run: RunSnapshot): boolean {
  return run.status === 'active' && !isIn(run, 'suspended');
}

/**
 * Closes the parts in the reverse order of their start. The listeners close last, so that clients
 * see the end. Resolves with the failure of the boot; a clean stop fails too if it leaves a file
 * behind.
 */
export async function closeAll(parts: Parts, failure: SvcError | null): Promise<SvcError | null> {
  const {
    kernel,
    providers,
    puller,
    mcp,
    traces,
    http,
    sockets,
    grpc,
    control,
    paths,
    config,
    boot_id,
    log,
  } = parts;
  const owner = kernel.isOpen;
  if (failure !== null) parts.stopReports.endUnrecorded(failure);
  // Do not wait twice for a disk that does not answer, nor for a log that is not open yet.
  const isLate = !owner || kernel.stalled?.code === 'store_stalled';
  if (owner && failure !== null && kernel.stalled === null) await recordFailure(parts, failure);
  kernel.close();
  parts.membership.close();
  parts.diskMonitor.close();
  const quiet = Promise.all([parts.retention.close(), parts.verification.close()]);
  await waitAtMost(
    isLate ? config.limits.close_grace_ms : config.limits.close_ms,
    Promise.allSettled([puller.close(), providers.close(), mcp.close(), quiet, closeStore(parts)]),
  );
  await waitAtMost(config.limits.close_grace_ms, traces.close());
  // Logged before the listeners close, so that followers of the log see it.
  if (failure === null) log.info({}, stoppedText(kernel.snapshot(parts.streams.daemon)));
  else log.info({ failure: failure.code }, 'stopped by this failure');
  parts.certificate?.close();
  await Promise.allSettled([sockets.close(), http.close(), grpc.close(), control.close()]);
  await parts.signIn
    .close()
    .catch((error: unknown) => log.warn({ err: error }, 'the last uses of tokens are not saved'));
  const left =
    failure === null
      ? await removeRuntimeFile(paths.runtime, boot_id).then(() => null, asSvcError)
      : null;
  if (left !== null) log.error({ code: left.code, err: left.cause }, left.message);
  parts.closeLog();
  return failure ?? left;
}

async function closeStore({ membership, store }: Parts): Promise<void> {
  await membership.leave();
  await store.close();
}

function stoppedText(daemon: DaemonSnapshot | undefined): string {
  const { finished = 0, handed_over = 0, ended = 0 } = daemon?.context.stop_report ?? {};
  const runs = [
    ...(finished === 0 ? [] : [`${finished} finished`]),
    ...(handed_over === 0 ? [] : [`${handed_over} left for the next start`]),
    ...(ended === 0 ? [] : [`${ended} interrupted`]),
  ];
  return runs.length === 0 ? 'stopped' : `stopped; runs: ${runs.join(', ')}`;
}

/** Records the failure, if the log still takes events. Does not wait for a full or stalled disk. */
async function recordFailure(
  { kernel, streams, config }: Parts,
  { code, message }: SvcError,
): Promise<void> {
  const recorded = kernel
    .tryAppend(streams.daemon, {
      type: 'daemon.failed',
      error: { code, message, retryable: false },
    })
    .catch(() => false);
  await waitAtMost(config.limits.close_grace_ms, recorded);
}

/** Waits for work that never rejects, but no longer than this. */
async function waitAtMost(ms: number, work: Promise<unknown>): Promise<void> {
  const late = new AbortController();
  await Promise.race([work, delay(ms, null, { signal: late.signal })]);
  late.abort();
}
