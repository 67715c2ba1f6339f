import type { StoredEvent } from '../../../src/kernel/store/port.ts';
import { type Outcome, outcomeOf } from './outcome.ts';

/** One recorded stream, as it is looked at to find out what it shows. */
export interface Story {
  events: readonly StoredEvent[];
  outcome: Outcome;
  types: readonly string[];
  paths: readonly string[];
  /** Whether an event of this type has these data. */
  has(type: string, data?: Record<string, unknown>): boolean;
  /** Whether this state was left by this event. */
  left(path: string, type: string): boolean;
  ends(path: string): boolean;
}

export function storyOf(events: readonly StoredEvent[], by: Outcome['by'] = 'daemon'): Story {
  const outcome = outcomeOf(events, by);
  const paths = outcome.state_paths;
  return {
    events,
    outcome,
    types: events.map(({ type }) => type),
    paths,
    has: (type, data = {}) =>
      events.some(
        (event) =>
          event.type === type &&
          Object.entries(data).every(([name, value]) => event.data[name] === value),
      ),
    left: (path, type) =>
      events.some((event, index) => event.type === type && paths[index - 1] === path),
    ends: (path) => paths.at(-1) === path,
  };
}

type Shows = (story: Story) => boolean;

/**
 * What must be recorded of each machine, by the name of its file. States and events that are asked
 * for here are those of the recording version.
 */
export const SHOWS: Readonly<Record<string, Readonly<Record<string, Shows>>>> = {
  run: {
    completed: (run) =>
      run.ends('completed') &&
      run.has('run.started', { attempt: 1 }) &&
      run.paths.includes('streaming'),
    'completed-with-key': (run) =>
      run.ends('completed') && typeof run.events[0]?.data.idempotency_key === 'string',
    'completed-after-retry': (run) => run.ends('completed') && run.has('run.attempt_failed'),
    'completed-after-daemon-death': (run) =>
      run.ends('completed') &&
      run.has('run.recovered') &&
      run.has('run.started', { resumes: true }),
    'completed-after-engine-death': (run) =>
      run.ends('completed') &&
      run.has('run.suspended', { computing: 1 }) &&
      run.has('run.started', { resumes: true }),
    'completed-omitted': (run) =>
      run.ends('completed') && run.has('run.accepted', { content: 'omitted' }),
    failed: (run) => run.ends('failed') && !run.has('run.attempt_failed'),
    'failed-after-retries': (run) => run.ends('failed') && run.has('run.attempt_failed'),
    'failed-in-stream': (run) => run.left('streaming', 'run.failed'),
    'cancelled-in-queue': (run) =>
      run.ends('cancelled') && run.left('queued', 'run.cancel_requested'),
    'cancelled-in-start': (run) =>
      run.ends('cancelled') && run.left('starting', 'run.cancel_requested'),
    'cancelled-in-stream': (run) =>
      run.ends('cancelled') && run.left('streaming', 'run.cancel_requested'),
    'cancelled-in-backoff': (run) =>
      run.ends('cancelled') && run.left('backoff', 'run.cancel_requested'),
    'cancelled-in-suspension': (run) =>
      run.ends('cancelled') && run.left('suspended', 'run.cancel_requested'),
    withdrawn: (run) =>
      run.ends('cancelled') && run.has('run.cancel_requested', { by: 'store_full' }),
    'timed-out-in-queue': (run) =>
      run.ends('timed_out') && run.has('run.deadline_passed', { deadline: 'queue' }),
    'timed-out-before-output': (run) =>
      run.ends('timed_out') && run.has('run.deadline_passed', { deadline: 'first_output' }),
    'timed-out-in-silence': (run) =>
      run.ends('timed_out') && run.has('run.deadline_passed', { deadline: 'idle' }),
    'timed-out-in-backoff': (run) =>
      run.ends('timed_out') && run.left('backoff', 'run.deadline_passed'),
    'interrupted-by-provider': (run) =>
      run.left('streaming', 'run.interrupted') &&
      run.outcome.record.error !== null &&
      isOfDaemon(run) === false,
    'interrupted-by-daemon-death': (run) =>
      run.left('streaming', 'run.interrupted') && isOfDaemon(run),
    'interrupted-by-stop': (run) => run.left('cancelling.by_stop', 'run.interrupted'),
    'interrupted-omitted': (run) =>
      run.ends('interrupted') && run.has('run.accepted', { content: 'omitted' }),
    'handed-over': (run) => run.left('cancelling.by_stop', 'run.suspended'),
    'suspended-twice': (run) => run.left('suspended', 'run.recovered'),
    'queued-through-death': (run) => run.left('queued', 'run.recovered'),
    'asked-again-from-backoff': (run) => run.left('backoff', 'run.recovered'),
    'unfinished-in-stream': (run) => run.ends('streaming') || run.ends('starting'),
  },
  daemon: {
    stopped: (daemon) => daemon.ends('stopped') && daemon.left('ready', 'daemon.stop_requested'),
    'stopped-after-drain': (daemon) =>
      daemon.ends('stopped') && daemon.left('stopping.draining', 'daemon.run_settled'),
    'stopped-after-drain-deadline': (daemon) =>
      daemon.ends('stopped') && daemon.has('daemon.drain_deadline_passed'),
    'stopped-by-force': (daemon) =>
      daemon.ends('stopped') && daemon.has('daemon.stop_requested', { mode: 'force' }),
    'stopped-while-starting': (daemon) =>
      daemon.ends('stopped') && daemon.left('starting.probing', 'daemon.stop_requested'),
    'killed-ready': (daemon) => daemon.ends('ready'),
    'killed-with-runs': (daemon) => daemon.ends('running.accepting'),
    saturated: (daemon) => daemon.left('running.saturated', 'daemon.run_settled'),
    'recovered-in-steps': (daemon) =>
      daemon.has('daemon.recovery_progressed') && daemon.has('daemon.runs_recovered'),
    'disk-full': (daemon) =>
      daemon.left('running.disk_full', 'daemon.store_freed') &&
      daemon.left('running.disk_full', 'daemon.run_settled'),
    'disk-stalled': (daemon) => daemon.left('running.disk_stalled', 'daemon.disk_resumed'),
    'history-pruned': (daemon) => daemon.has('daemon.history_pruned'),
    'start-deadline': (daemon) =>
      daemon.has('daemon.start_deadline_passed') && daemon.ends('failed'),
    'close-deadline': (daemon) =>
      daemon.has('daemon.close_deadline_passed') && daemon.ends('failed'),
    failed: (daemon) => daemon.has('daemon.failed') && daemon.ends('failed'),
  },
  engine: {
    stopped: (engine) =>
      engine.left('warm.idle', 'engine.stop_requested') &&
      engine.ends('cold') &&
      engine.has('engine.exited', { exit_code: 0 }),
    'put-away-idle': (engine) =>
      engine.left('warm.idle', 'engine.stop_requested') &&
      engine.has('engine.stop_requested', { reason: 'idle' }),
    'killed-starting': (engine) => engine.left('starting', 'engine.exited'),
    'killed-loading': (engine) => engine.left('loading', 'engine.exited'),
    'killed-idle': (engine) => engine.left('warm.idle', 'engine.exited'),
    'killed-computing': (engine) =>
      engine.left('warm.busy', 'engine.exited') && engine.has('engine.backoff_elapsed'),
    'load-failed': (engine) => engine.has('engine.load_failed'),
    'load-and-stop-deadline': (engine) =>
      (engine.left('loading', 'engine.deadline_passed') ||
        engine.left('starting', 'engine.deadline_passed')) &&
      engine.left('stopping.asked', 'engine.deadline_passed'),
    'left-warm': (engine) => engine.ends('warm.idle') || engine.ends('warm.busy'),
  },
  provider: {
    'probe-ok': (provider) =>
      provider.ends('available') && provider.has('provider.probe_succeeded'),
    'probe-failing': (provider) =>
      ['degraded', 'unavailable', 'unauthorised'].every((path) => provider.paths.includes(path)),
    'probe-recovers': (provider) =>
      provider.left('unavailable', 'provider.probe_started') &&
      provider.paths.lastIndexOf('available') > provider.paths.indexOf('unavailable'),
    'run-faults': (provider) =>
      provider.left('available', 'provider.faulted') && provider.paths.includes('degraded'),
    'run-faults-to-unavailable': (provider) =>
      provider.left('degraded', 'provider.faulted') && provider.paths.includes('unavailable'),
    'run-recovers': (provider) => provider.left('degraded', 'provider.answered'),
    removed: (provider) => provider.ends('removed'),
    'never-asked': (provider) =>
      provider.ends('unknown') || (provider.types.length === 2 && provider.ends('removed')),
  },
  pull: {
    completed: (pull) => pull.ends('completed') && !pull.has('pull.attempt_failed'),
    'completed-after-retry': (pull) => pull.ends('completed') && pull.has('pull.attempt_failed'),
    'resumed-from-bytes': (pull) =>
      pull.events.some(
        ({ type, data }) => type === 'pull.resolved' && Number(data.offset_bytes) > 0,
      ),
    failed: (pull) => pull.left('resolving', 'pull.failed'),
    'failed-hash': (pull) => pull.left('verifying.hashing', 'pull.failed'),
    'given-up': (pull) => pull.left('downloading', 'pull.failed'),
    'cancelled-resolving': (pull) =>
      pull.ends('cancelled') && pull.left('resolving', 'pull.cancel_requested'),
    'cancelled-downloading': (pull) =>
      pull.ends('cancelled') && pull.left('downloading', 'pull.cancel_requested'),
    'cancelled-in-backoff': (pull) =>
      pull.ends('cancelled') && pull.left('backoff', 'pull.cancel_requested'),
    'cancelled-verifying': (pull) => pull.left('verifying.hashing', 'pull.cancel_requested'),
  },
};

/** Ended by the next boot of the daemon. */
function isOfDaemon({ events }: Story): boolean {
  return events.at(-1)?.boot_id !== events[0]?.boot_id;
}
