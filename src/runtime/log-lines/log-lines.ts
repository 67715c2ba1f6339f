import { circuitOf } from '../../../machines/circuit.ts';
import type { DaemonSnapshot } from '../../../machines/daemon.ts';
import { stateName } from '../../../machines/step.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Log } from '../../kernel/port.ts';
import type { DaemonKey, ProviderKey } from '../../kernel/stream.ts';
import { logEngines } from './engine-lines.ts';
import { logRuns } from './run-lines.ts';
import { count, mebibytes, seconds } from './words.ts';

/**
 * Writes the lines of the log that say what happened, from the events.
 *
 * 1. A line follows the commit of its event. So the log says nothing that is not recorded.
 * 2. A run has two lines, and one more for each attempt that failed.
 * 3. A failure is in one line. It has the code of the error and no stack.
 */
export function logEvents(kernel: Kernel, daemon: DaemonKey, log: Log): void {
  logRuns(kernel, log);
  logEngines(kernel, log);
  logProviders(kernel, log);
  logPulls(kernel, log);
  kernel.subscribe({ stream: daemon }, ({ type, at, data }, snapshot) => {
    switch (type) {
      case 'daemon.runs_recovered':
        return recovered(log, data);
      case 'daemon.store_filled':
        return log.warn({}, 'the disk is full: new runs are refused until it has space');
      case 'daemon.store_freed':
        return log.info({}, 'the disk has space again: runs are accepted');
      case 'daemon.history_pruned':
        return log.info(
          {},
          `history was removed: ${count(Number(data.runs), 'run')}, ` +
            `${count(Number(data.events), 'event')}`,
        );
      case 'daemon.stop_requested':
        return log.info({}, stopping(data, snapshot, at));
    }
  });
}

function recovered(log: Log, { queued, suspended = 0, ended }: Record<string, unknown>): void {
  const waiting = Number(queued) + Number(suspended);
  if (waiting + Number(ended) === 0) return;
  const lost = Number(ended) === 0 ? '' : `, ${count(Number(ended), 'run')} ended as interrupted`;
  log.info({}, `recovered: ${count(waiting, 'run')} of the last boot to continue${lost}`);
}

function stopping(
  { by, mode, drain_deadline_at }: Record<string, unknown>,
  { context }: DaemonSnapshot,
  at: number,
): string {
  const head = `stopping, asked by ${by}`;
  if (context.unsettled === 0) return head;
  const runs = count(context.unsettled, 'run');
  if (mode === 'force') return `${head}: ${runs} cut off at once`;
  const rest = by === 'signal' ? '; a second signal stops it at once' : '';
  return `${head}: draining ${runs}, for ${seconds(Number(drain_deadline_at) - at)} at most${rest}`;
}

/** States in which a provider takes no run. */
const DOWN: ReadonlySet<string> = new Set(['unavailable', 'unauthorised', 'rate_limited']);

/** Logs when a model or a provider goes down, and when it is up again. It owns which are down. */
function logProviders(kernel: Kernel, log: Log): void {
  const down = new Map<ProviderKey, string>();
  kernel.subscribe({ machine: 'provider' }, ({ type, stream, data }, snapshot) => {
    const { provider_id, error, circuits } = snapshot.context;
    const failed =
      type === 'provider.faulted' ? circuitOf(circuits, String(data.model)) : undefined;
    if (failed?.openings === 1)
      log.warn(
        { code: failed.error.code },
        `model ${provider_id}/${failed.model} is not asked for a while: ${failed.error.message}`,
      );
    const state = stateName(snapshot);
    const before = down.get(stream);
    if (type === 'provider.removed') down.delete(stream);
    else if (DOWN.has(state) && before !== state) {
      down.set(stream, state);
      log.warn(
        { code: error?.code },
        `provider ${provider_id} is ${state.replace('_', ' ')}: ` +
          `${error?.message ?? 'no reason is known'}`,
      );
    } else if (state === 'available' && down.delete(stream))
      log.info({}, `provider ${provider_id} is available again`);
  });
}

function logPulls(kernel: Kernel, log: Log): void {
  kernel.subscribe({ machine: 'pull' }, ({ type, at, data }, { context }) => {
    const { reference, bytes, error, requested_at } = context;
    const took = seconds(at - requested_at);
    switch (type) {
      case 'pull.requested':
        return log.info({}, `pull of ${reference} started`);
      case 'pull.completed':
        return log.info({}, `pull of ${reference} completed in ${took}: ${mebibytes(bytes)}`);
      case 'pull.cancelled':
        return log.info(
          {},
          `pull of ${reference} cancelled after ${took}: ${mebibytes(bytes)} are kept`,
        );
      case 'pull.attempt_failed':
        return log.warn(
          { code: error?.code },
          `pull of ${reference} goes on in ${seconds(Number(data.retry_at) - at)}: ` +
            `${error?.message}`,
        );
      case 'pull.failed':
        return log.warn({ code: error?.code }, `pull of ${reference} failed: ${error?.message}`);
    }
  });
}
