import type { EventOf } from '../../src/contract/events.ts';
import type { Failure } from '../events.ts';

export interface Addresses {
  http: string | null;
  grpc: string | null;
  socket: string | null;
}

/** How an earlier boot ended, according to its log. */
export type Ending = 'clean' | 'failed' | 'killed' | 'power_lost' | 'lease_lost';

export interface LastBoot {
  boot_id: string;
  ending: Ending;
  /** Time of its last recorded event. */
  at: number;
  unfinished_runs: number;
}

/** How the runs ended while the daemon stopped. */
export interface StopReport {
  /** Runs that ended by themselves. */
  finished: number;
  /** Runs that the next boot continues. */
  handed_over: number;
  /** Runs that could not continue, and ended as interrupted. */
  ended: number;
}

export type DaemonCreated = EventOf<
  'daemon.boot_started',
  {
    boot_id: string;
    /** Identifies the boot of the operating system: a power cut changes it, a kill does not. */
    host_boot_id: string | null;
    pid: number;
    version: string;
    /** How many runs may be queued or active at one time. */
    capacity: number;
    start_deadline_at: number;
    /** Runs are counted by their own events: see `counts.ts`. Older boots recorded each count. */
    counts_runs?: true;
  }
>;

export type DaemonEvent =
  | EventOf<'daemon.listening', { addresses: Addresses }>
  /** `start_deadline_at`: the deadline by the clock of the database, where that gives the time. */
  | EventOf<'daemon.store_opened', { last_boot: LastBoot | null; start_deadline_at?: number }>
  /** `suspended`: runs that continue. */
  | EventOf<'daemon.runs_recovered', { queued: number; suspended?: number; ended: number }>
  /** How many unfinished runs are recovered so far. More follow. */
  | EventOf<'daemon.recovery_progressed', { runs: number }>
  | EventOf<'daemon.providers_probed'>
  | EventOf<'daemon.run_admitted', { run_id: string }>
  | EventOf<'daemon.run_settled', { run_id: string }>
  /** The disk is full. Accepted runs are recorded in the reserve; new ones are refused. */
  | EventOf<'daemon.store_filled'>
  | EventOf<'daemon.store_freed'>
  /** A commit is late because the disk does not answer. New runs are refused. */
  | EventOf<'daemon.disk_stalled'>
  | EventOf<'daemon.disk_resumed'>
  /** Finished runs were removed by the retention policy. */
  | EventOf<'daemon.history_pruned', { runs: number; events: number }>
  | EventOf<
      'daemon.stop_requested',
      { by: string; mode: 'drain' | 'force'; drain_deadline_at: number; close_deadline_at: number }
    >
  | EventOf<'daemon.start_deadline_passed'>
  | EventOf<'daemon.drain_deadline_passed'>
  | EventOf<'daemon.close_deadline_passed'>
  | EventOf<'daemon.stopped', Partial<StopReport>>
  | EventOf<'daemon.failed', { error: Failure }>;

/** What a daemon knows besides its state. */
export interface DaemonContext {
  boot_id: string;
  host_boot_id: string | null;
  pid: number;
  version: string;
  capacity: number;
  counts_runs: boolean;
  unsettled: number;
  addresses: Addresses;
  last_boot: LastBoot | null;
  start_deadline_at: number;
  /** How long the start may take without progress. */
  start_ms: number;
  drain_deadline_at: number;
  close_deadline_at: number;
  /** Finished runs that this boot removed from the history. */
  pruned_runs: number;
  stop_requested_by: string | null;
  stop_report: StopReport | null;
  error: Failure | null;
}

/** The context of a new boot. */
export function newContext(input: DaemonCreated): DaemonContext {
  return {
    boot_id: input.boot_id,
    host_boot_id: input.host_boot_id,
    pid: input.pid,
    version: input.version,
    capacity: input.capacity,
    counts_runs: input.counts_runs === true,
    unsettled: 0,
    addresses: { http: null, grpc: null, socket: null },
    last_boot: null,
    start_deadline_at: input.start_deadline_at,
    start_ms: input.start_deadline_at - input.at,
    drain_deadline_at: 0,
    close_deadline_at: 0,
    pruned_runs: 0,
    stop_requested_by: null,
    stop_report: null,
    error: null,
  };
}

/** What an event changes, whatever the state is. */
export function evolve(context: DaemonContext, event: DaemonEvent): Partial<DaemonContext> {
  switch (event.type) {
    case 'daemon.listening':
      return { addresses: { ...context.addresses, ...event.addresses } };
    case 'daemon.store_opened':
      return {
        last_boot: event.last_boot,
        start_deadline_at: event.start_deadline_at ?? context.start_deadline_at,
      };
    case 'daemon.recovery_progressed': {
      // A start that makes progress needs a bound for each step only.
      const start_deadline_at = Math.max(context.start_deadline_at, event.at + context.start_ms);
      return { start_deadline_at };
    }
    case 'daemon.runs_recovered':
      return { unsettled: event.queued + (event.suspended ?? 0) };
    case 'daemon.run_admitted':
      return { unsettled: context.unsettled + 1 };
    case 'daemon.run_settled':
      return { unsettled: Math.max(0, context.unsettled - 1) };
    case 'daemon.history_pruned':
      return { pruned_runs: context.pruned_runs + event.runs };
    case 'daemon.stop_requested':
      return {
        drain_deadline_at: event.drain_deadline_at,
        close_deadline_at: event.close_deadline_at,
        stop_requested_by: event.by,
      };
    case 'daemon.stopped':
      return {
        stop_report: {
          finished: event.finished ?? 0,
          handed_over: event.handed_over ?? 0,
          ended: event.ended ?? 0,
        },
      };
    case 'daemon.failed':
      return { error: event.error };
    case 'daemon.start_deadline_passed':
      return { error: START_TIMEOUT };
    case 'daemon.close_deadline_passed':
      return { error: CLOSE_TIMEOUT };
    case 'daemon.providers_probed':
    case 'daemon.store_filled':
    case 'daemon.store_freed':
    case 'daemon.disk_stalled':
    case 'daemon.disk_resumed':
    case 'daemon.drain_deadline_passed':
      return {};
    default:
      return event satisfies never;
  }
}

const START_TIMEOUT: Failure = {
  code: 'start_timed_out',
  message: 'The daemon did not become ready in time.',
  retryable: true,
};
const CLOSE_TIMEOUT: Failure = {
  code: 'stop_timed_out',
  message: 'The daemon could not release everything in time.',
  retryable: false,
};

/**
 * How a boot ended, from its first and its last event. A boot that recorded no end was killed, or
 * lost its power. `rejoins`: its process continues, because it only lost its lease.
 */
export function endingOf(
  first: Pick<DaemonCreated, 'host_boot_id'>,
  last: DaemonEvent['type'] | DaemonCreated['type'],
  host_boot_id: string | null,
  rejoins = false,
): Ending {
  switch (last) {
    case 'daemon.stopped':
      return 'clean';
    case 'daemon.failed':
    case 'daemon.start_deadline_passed':
    case 'daemon.close_deadline_passed':
      return 'failed';
  }
  if (rejoins) return 'lease_lost';
  const before = first.host_boot_id;
  return before !== null && host_boot_id !== null && before !== host_boot_id
    ? 'power_lost'
    : 'killed';
}

/** How a boot ended, in words that follow its name. */
export const ENDINGS: Readonly<Record<Ending, string>> = {
  clean: 'stopped',
  failed: 'failed; its log has the reason',
  killed: 'was killed, or crashed without a log line',
  power_lost: 'ended when the machine lost power',
  lease_lost: 'lost its lease, and the node has joined the fleet again',
};
