import type { DaemonSnapshot } from '../../../machines/daemon/chart.ts';
import type { ProviderSnapshot } from '../../../machines/provider/chart.ts';
import type { RunSnapshot } from '../../../machines/run/chart.ts';
import { stateName, statePath } from '../../../machines/step.ts';
import { isoTime } from '../../async/clock.ts';
import type { RunRecord, StateSnapshot } from '../../contract/contract.ts';
import { SvcError } from '../../errors.ts';
import { foldStream } from '../../kernel/fold.ts';
import type { Instance } from '../../kernel/instance.ts';
import type { EventStore, StoredEvent } from '../../kernel/store/port.ts';
import type { Limits } from '../../limits.ts';
import { shownId } from '../../runtime/runs/ids.ts';
import { runRecord } from '../../runtime/runs/record.ts';
import { engineSnapshots } from '../health/engines.ts';
import { lastBoot } from '../health/health.ts';
import type { DaemonStates } from './daemon-states.ts';
import { instancesOf } from './instances.ts';
import { engineStates, providerState, SHOWN_AFTER_MS, withinBytes } from './records.ts';
import { findEndedRuns } from './state-now.ts';

/** The reads of a fold to an earlier position. */
export type HistoryStore = Pick<
  EventStore,
  'readAll' | 'readStream' | 'startedStreams' | 'runsAt' | 'runBounds'
>;

export interface HistorySources {
  store: HistoryStore;
  daemons: Pick<DaemonStates, 'fold'>;
  limits: Pick<Limits, 'snapshot_runs' | 'snapshot_text_bytes'>;
  /** The end of the log. */
  last_seq: number;
}

/** Streams folded at the same time. */
const GROUP = 8;
/** Most providers, engines and pulls of one boot in a snapshot. */
const STREAMS_MAX = 1000;

/**
 * The state right after an event, folded from the log: its boot, and the runs that were unfinished.
 * The cost depends on those, not on the whole log. Throws invalid_request for a position that the
 * log does not have.
 */
export async function snapshotAt(
  { store, daemons, limits, last_seq }: HistorySources,
  at: number,
): Promise<StateSnapshot> {
  const { event, first_seq } = await momentAt(store, at, last_seq);
  const { boot_id } = event;
  const daemon = await daemons.fold(store, boot_id, at);
  if (daemon === undefined) throw noSuchEventError(at, first_seq, last_seq);
  const others = await foldAll(store, await othersOf(store, daemon, boot_id, at), at);
  const runs = await foldAll(store, await runsOf(store, event, at, limits.snapshot_runs), at);
  const unfinished = runs.filter((instance) => instance.snapshot.status === 'active');
  const waiting = unfinished.filter(isWaiting);
  const snapshot = daemon.snapshot as DaemonSnapshot;
  const { pid, version, addresses, capacity, unsettled } = snapshot.context;
  const active = unfinished.length - waiting.length;
  const queued = Math.max(
    waiting.length,
    unfinished.length < limits.snapshot_runs ? 0 : unsettled - active,
  );
  return {
    seq: at,
    at: isoTime(event.at),
    boot_id,
    last_seq,
    first_seq,
    status: {
      state: stateName(snapshot),
      state_path: statePath(snapshot),
      since: isoTime(daemon.since),
      pid,
      version,
      boot_id,
      addresses,
      seq: at,
      runs: { active, queued, finished: null },
      last_boot: lastBoot(snapshot),
    },
    instances: instancesOf([daemon, ...others, ...runs], limits.snapshot_runs, event.at),
    runs: withinBytes(
      runs.map((instance) => recordOf(instance, waiting)),
      limits.snapshot_text_bytes,
    ),
    queue: { length: queued, capacity },
    providers: others
      .filter(({ stream }) => stream.startsWith('provider:'))
      .map((instance) => providerState(instance.snapshot as ProviderSnapshot, event.at)),
    ...engineStates(engineSnapshots(others), event.at),
  };
}

/**
 * The record of a run at that position. Throws run_unknown if the log has no events of it by then.
 */
export async function runAt(
  store: HistoryStore,
  id: string,
  at: number,
  last_seq: number,
): Promise<RunRecord> {
  await momentAt(store, at, last_seq);
  const instance = id.startsWith('run_') ? await foldStream(store, id, at) : undefined;
  if (instance === undefined)
    throw new SvcError('run_unknown', `The log has no run ${shownId(id)} at the event ${at}.`, {
      param: 'id',
    });
  return recordOf(instance, []);
}

/** The event at a position. Where finished runs were removed, the next event names the boot. */
async function momentAt(
  store: HistoryStore,
  at: number,
  last_seq: number,
): Promise<{ event: StoredEvent; first_seq: number }> {
  const first_seq = (await store.readAll(1, 1))[0]?.seq ?? 0;
  const [event] = at >= first_seq && at <= last_seq ? await store.readAll(at, 1) : [];
  if (event === undefined || (event.seq > at && event.type === 'daemon.boot_started'))
    throw noSuchEventError(at, first_seq, last_seq);
  return { event, first_seq };
}

function noSuchEventError(at: number, first_seq: number, last_seq: number): SvcError {
  return new SvcError(
    'invalid_request',
    `There is no event ${at}: the log has the events ${first_seq} to ${last_seq}.`,
    { param: 'at', details: { first_seq, last_seq } },
  );
}

/** Providers, engines and pulls that began in this boot. */
async function othersOf(
  store: HistoryStore,
  daemon: Instance,
  boot_id: string,
  at: number,
): Promise<string[]> {
  const [begin] = await store.readStream(daemon.stream, 1, 1);
  const started = await store.startedStreams(begin?.seq ?? at, at, STREAMS_MAX);
  return started.filter(
    (stream) => /^(provider|pull|engine):/.test(stream) && stream.split(':').includes(boot_id),
  );
}

/** Runs that were unfinished then, and those that had just ended, latest first. */
async function runsOf(
  store: HistoryStore,
  event: StoredEvent,
  at: number,
  runs_max: number,
): Promise<string[]> {
  const alive = await store.runsAt(at, runs_max);
  const ended = await findEndedRuns(store, event.boot_id, at, event.at - SHOWN_AFTER_MS);
  return [...new Set([...alive, ...ended])].slice(0, runs_max);
}

/** Folds a few streams at a time. A stream without its beginning is left out. */
async function foldAll(
  store: HistoryStore,
  streams: readonly string[],
  at: number,
): Promise<Instance[]> {
  const instances: Instance[] = [];
  for (let index = 0; index < streams.length; index += GROUP) {
    const group = await Promise.all(
      streams.slice(index, index + GROUP).map((stream) => foldStream(store, stream, at)),
    );
    instances.push(...group.filter((instance) => instance !== undefined));
  }
  return instances;
}

function isWaiting({ path }: Instance): boolean {
  return path === 'queued' || path === 'suspended';
}

function recordOf(instance: Instance, waiting: readonly Instance[]): RunRecord {
  const index = waiting.indexOf(instance);
  return runRecord(instance.snapshot as RunSnapshot, instance.seq, index < 0 ? null : index + 1);
}
