import { setTimeout as delay } from 'node:timers/promises';
import { isIn } from '../../machines/step.ts';
import { asSvcError, type SvcError } from '../errors.ts';
import { removeRuntimeFile } from '../home/runtime-file.ts';
import type { Instance } from '../kernel/instance.ts';
import type { Parts } from './parts.ts';

/**
 * Gives back what is held, the work and the engine, then records that the daemon stopped, and what became of the runs: what could not be
 * finished is handed over to the next start. The machine's deadline bounds it.
 */
export async function releaseAll({
  kernel,
  store,
  scheduler,
  stopReports,
  pulls,
  streams,
  tell,
}: Held): Promise<void> {
  const runs = scheduler.activeRuns();
  await Promise.all(
    runs.map((run_id) =>
      kernel.tryAppend(run_id, { type: 'run.interrupt_requested', reason: 'daemon_stopping' }),
    ),
  );
  for (const run_id of runs)
    while (hasWork(kernel.instance(run_id))) await kernel.instance(run_id)?.next();
  await pulls.close();
  await kernel.tryAppend(streams.engine, {
    type: 'engine.stop_requested',
    reason: 'daemon_stopping',
  });
  const engine = kernel.instance(streams.engine);
  while (engine !== undefined && isIn(engine.snapshot, 'stopping')) await engine.next();
  // The log knows them also when the stop came before they were taken up.
  const { unfinished } = await store.countRuns();
  await tell({ type: 'daemon.stopped', ...stopReports.report(unfinished) });
}

type Held = Pick<
  Parts,
  'kernel' | 'store' | 'scheduler' | 'stopReports' | 'pulls' | 'streams' | 'tell'
>;

/** A run that is handed over has none: it waits. */
function hasWork(instance: Instance | undefined): boolean {
  return instance?.snapshot.status === 'active' && !isIn(instance.snapshot, 'suspended');
}

/**
 * Closes the parts in the reverse order of their start: the listeners go last, so that the end can be seen too.
 * Resolves with how this life ended: a clean stop is a failure all the same where it leaves a file behind.
 */
export async function closeAll(parts: Parts, failure: SvcError | null): Promise<SvcError | null> {
  const {
    kernel,
    providers,
    puller,
    store,
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
  // A disk that does not answer is not waited for twice.
  const isLate = kernel.stalled?.code === 'store_stalled';
  if (owner && failure !== null && kernel.stalled === null) await recordFailure(parts, failure);
  kernel.close();
  parts.diskMonitor.close();
  const quiet = Promise.all([parts.retention.close(), parts.verification.close()]);
  await within(
    isLate ? config.limits.close_grace_ms : config.limits.close_ms,
    Promise.allSettled([puller.close(), providers.close(), quiet, store.close()]),
  );
  // Said before the listeners close, so that those who follow the log see it.
  log.info({ failure: failure?.code ?? null }, 'stopped');
  await Promise.allSettled([sockets.close(), http.close(), grpc.close(), control.close()]);
  const left =
    owner && failure === null
      ? await removeRuntimeFile(paths.runtime, boot_id).then(() => null, asSvcError)
      : null;
  if (left !== null) log.error({ code: left.code, err: left.cause }, left.message);
  parts.closeLog();
  return failure ?? left;
}

/** Tells the log how this life ended, if it still takes facts: a full disk, or one that does not answer, is not waited for. */
async function recordFailure({ tell, config }: Parts, { code, message }: SvcError): Promise<void> {
  const recorded = tell({
    type: 'daemon.failed',
    error: { code, message, retryable: false },
  }).catch(() => false);
  await within(config.limits.close_grace_ms, recorded);
}

/** Waits for what never fails, but no longer than this: a disk may hold it up. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const late = new AbortController();
  await Promise.race([work, delay(ms, null, { signal: late.signal })]);
  late.abort();
}
