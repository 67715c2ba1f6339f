import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { deadlinesOf } from '../../machines/machine.ts';
import { statePath } from '../../machines/step.ts';
import { coverOf } from './cover.ts';
import { models } from './models/all.ts';
import { type Model, NOW } from './models/model.ts';

/**
 * The deadlines of each state, in milliseconds after the event that led there. A state that is
 * missing here, or has another deadline in some way of reaching it, fails.
 */
const expected: Record<string, Record<string, string[]>> = {
  daemon: {
    'starting.binding': ['daemon.start_deadline_passed +5000'],
    'starting.opening': ['daemon.start_deadline_passed +5000'],
    'starting.recovering': ['daemon.start_deadline_passed +5000'],
    'starting.probing': ['daemon.start_deadline_passed +5000'],
    ready: ['none'],
    'running.accepting': ['none'],
    'running.saturated': ['none'],
    'running.disk_full': ['none'],
    'running.disk_stalled': ['none'],
    'stopping.draining': ['daemon.drain_deadline_passed +10000'],
    'stopping.closing': ['daemon.close_deadline_passed +20000'],
    stopped: ['none'],
    failed: ['none'],
  },
  run: {
    queued: [
      'run.deadline_passed queue +50000, run.deadline_passed total +60000',
      // At its next target a run has the whole time of the queue again.
      'run.deadline_passed queue +51000, run.deadline_passed total +60000',
    ],
    starting: ['run.deadline_passed first_output +5000, run.deadline_passed total +60000'],
    streaming: ['run.deadline_passed idle +2000, run.deadline_passed total +60000'],
    backoff: ['run.started +500, run.deadline_passed total +60000'],
    'cancelling.by_request': ['run.cancelled +1000'],
    'cancelling.by_deadline': ['run.timed_out +1000'],
    suspended: ['run.deadline_passed total +60000'],
    continuing: ['run.deadline_passed total +60000'],
    calling: [
      'run.deadline_passed total +60000',
      'run.tool_denied +90000, run.deadline_passed total +60000',
      'run.tool_finished +8000, run.deadline_passed total +60000',
      'run.tool_finished +8000, run.tool_denied +90000, run.deadline_passed total +60000',
    ],
    awaiting_approval: ['run.tool_denied +90000'],
    awaiting_decision: ['none', 'run.tool_denied +90000'],
    'cancelling.by_stop': ['run.interrupted +1000', 'run.suspended +1000'],
    completed: ['none'],
    failed: ['none'],
    cancelled: ['none'],
    timed_out: ['none'],
    interrupted: ['none'],
  },
  'provider (local)': {
    // A changed key counts from its event, not from the creation.
    unknown: ['provider.probe_started +-1000', 'provider.probe_started +15000'],
    probing: ['provider.probe_failed +2000'],
    available: ['none'],
    degraded: ['provider.probe_started +15000'],
    unavailable: ['none', 'provider.wait_ended +5000'],
    rate_limited: ['provider.wait_ended +9000'],
    'half_open.ready': ['none'],
    'half_open.trying': ['provider.trial_abandoned +7000'],
    unauthorised: ['none'],
    removed: ['none'],
  },
  'provider (models)': {
    unknown: ['none'],
    probing: ['provider.probe_failed +2000'],
    available: ['none'],
    degraded: ['none'],
    unavailable: ['provider.wait_ended +0', 'provider.wait_ended +9000'],
    rate_limited: ['provider.wait_ended +9000'],
    'half_open.ready': ['none'],
    'half_open.trying': ['provider.trial_abandoned +7000'],
    unauthorised: ['provider.wait_ended +9000'],
    removed: ['none'],
  },
  'provider (cloud)': {
    unknown: ['none'],
    probing: ['provider.probe_failed +2000'],
    available: ['none'],
    degraded: ['none'],
    unavailable: ['none', 'provider.wait_ended +5000'],
    rate_limited: ['provider.wait_ended +9000'],
    'half_open.ready': ['none'],
    'half_open.trying': ['provider.trial_abandoned +7000'],
    unauthorised: ['none'],
    removed: ['none'],
  },
  engine: {
    cold: ['none'],
    starting: ['engine.deadline_passed +3000'],
    loading: ['engine.deadline_passed +9000'],
    'warm.idle': ['engine.stop_requested +60000'],
    'warm.busy': ['none'],
    'stopping.asked': ['engine.deadline_passed +2000'],
    'stopping.killed': ['engine.deadline_passed +1000'],
    crashed: [250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000].map(
      (wait) => `engine.backoff_elapsed +${wait}`,
    ),
  },
  pull: {
    // The first attempt is at the creation, a second before every other event.
    resolving: ['pull.attempt_failed +29000', 'pull.attempt_failed +30000', 'pull.failed +30000'],
    downloading: ['pull.attempt_failed +30000', 'pull.failed +30000'],
    backoff: ['pull.started +500'],
    'verifying.hashing': ['pull.failed +30000'],
    'verifying.placing': ['pull.failed +30000'],
    cancelling: ['pull.cancelled +1000'],
    completed: ['none'],
    failed: ['none'],
    cancelled: ['none'],
  },
  mcp: {
    stopped: ['none'],
    starting: ['mcp.deadline_passed +3000'],
    'ready.idle': ['mcp.stop_requested +60000'],
    'ready.busy': ['none'],
    stopping: ['mcp.deadline_passed +2000'],
    failing: [500, 1000, 2000, 4000].map((wait) => `mcp.wait_ended +${wait}`),
    open: [30_000, 60_000, 120_000, 240_000, 480_000].map((wait) => `mcp.wait_ended +${wait}`),
  },
  lease: {
    joining: ['none'],
    'holding.renewed': ['none'],
    'holding.late': ['none'],
    leaving: ['lease.left +5000'],
    left: ['none'],
    lost: ['none'],
  },
  conversation: { open: ['none'], deleted: ['none'] },
  // The deadlines of a call are those of its run.
  'tool call': Object.fromEntries(
    ['made', 'requested', 'allowed', 'started', 'lost']
      .concat(['denied', 'finished', 'dropped', 'abandoned'])
      .map((state) => [state, ['none']]),
  ),
};

const groups = new Map<string, Model[]>();
for (const model of models) {
  const name =
    [model.name, model.machine.id].find((candidate) => candidate in expected) ?? 'provider (local)';
  groups.set(name, [...(groups.get(name) ?? []), model]);
}

for (const [name, group] of groups) {
  test(`${name}: every state has the deadlines it should have, whatever led there`, () => {
    const found = new Map<string, Set<string>>();
    for (const model of group) {
      for (const { snapshot } of coverOf(model).states.values()) {
        const armed = deadlinesOf(snapshot).map(
          ({ at, event }) =>
            `${event.type}${'deadline' in event ? ` ${event.deadline}` : ''} +${at - NOW}`,
        );
        const path = statePath(snapshot);
        found.set(path, (found.get(path) ?? new Set()).add(armed.join(', ') || 'none'));
      }
    }
    const wanted = expected[name] ?? {};
    assert.equal(
      [...found.keys()].sort(),
      Object.keys(wanted).sort(),
      '`expected` is in test/machines/deadlines.test.ts',
    );
    for (const [path, armed] of found) assert.equal([...armed].sort(), wanted[path]?.sort(), path);
  });
}

test.run();
