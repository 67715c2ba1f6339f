import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import type { DaemonCreated, DaemonEvent } from '../../machines/daemon/context.ts';
import { endingOf } from '../../machines/daemon/context.ts';
import type { MachineEvent } from '../../machines/events.ts';
import { deadlinesOf } from '../../machines/machine.ts';
import { afterPullFailure, type PullSnapshot } from '../../machines/pull.ts';
import { afterFailure } from '../../machines/retry.ts';
import type { RunSnapshot } from '../../machines/run/chart.ts';
import type { RunCreated } from '../../machines/run/context.ts';
import { afterCrash, nextAttempt, terminalOf } from '../../machines/run/next.ts';
import { can, init, isIn, stateName, statePath, step } from '../../machines/step.ts';
import { awaitsApproval } from '../../machines/tool-call.ts';
import { coverOf } from './cover.ts';
import { runModels } from './models/all.ts';
import { daemonModel } from './models/daemon.ts';
import { NOW } from './models/model.ts';
import { pullModel } from './models/pull.ts';
import { lasting, retryable } from './models/run.ts';

/** What becomes of machines whose process died. */

/** Every way into every state of a daemon: the state, and the event that led there. */
const created = daemonModel(3).created as DaemonCreated;
const cover = coverOf(daemonModel(3));
const daemons = [
  { daemon: init(daemonModel(3).machine, created).snapshot as DaemonSnapshot, last: created.type },
  ...cover.accepted.map(({ from, event }) => ({
    daemon: step(daemonModel(3).machine, from.snapshot, event).snapshot as DaemonSnapshot,
    last: event.type,
  })),
] as { daemon: DaemonSnapshot; last: DaemonEvent['type'] }[];
const runs = runModels.flatMap((model) =>
  [...coverOf(model).states.values()].map(({ snapshot }) => ({
    model,
    snapshot: snapshot as RunSnapshot,
    where: `${model.name} ${model.key(snapshot)}`,
  })),
);

test('a life that recorded its end ended as it recorded, whatever the system says', () => {
  const over = daemons.filter(({ daemon }) => daemon.status === 'done');
  assert.ok(over.length >= 20);
  for (const { daemon, last } of over) {
    for (const host of ['host_1', 'host_2', null])
      assert.is(endingOf(created, last, host), isIn(daemon, 'stopped') ? 'clean' : 'failed', last);
  }
});

test('a boot that recorded no end was killed, or lost its power if the system has restarted since', () => {
  const open = daemons.filter(({ daemon }) => daemon.status === 'active');
  assert.ok(open.length >= 20);
  for (const { daemon, last } of open) {
    assert.is(endingOf(created, last, 'host_1'), 'killed', `${statePath(daemon)}, after ${last}`);
    assert.is(
      endingOf(created, last, 'host_2'),
      'power_lost',
      `${statePath(daemon)}, after ${last}`,
    );
    assert.is(endingOf(created, last, null), 'killed', `${statePath(daemon)}, after ${last}`);
    assert.is(endingOf(created, last, 'host_1', true), 'lease_lost', 'its process goes on');
  }
  assert.is(endingOf({ host_boot_id: null }, created.type, 'host_2'), 'killed');
});

/** Milliseconds in which no daemon ran; below zero when the clock was set back meanwhile. */
const DOWNTIMES = [0, 5000, 86_400_000, -3000];

test('a run found unfinished waits again, or takes an end that it accepts', () => {
  for (const { model, snapshot, where } of runs) {
    const event = afterCrash(snapshot, 5000);
    assert.is(event === null, snapshot.status === 'done', where);
    if (event === null) continue;
    const dated = { ...event, at: NOW } as MachineEvent;
    assert.ok(can(snapshot, dated), where);
    const after = step(model.machine, snapshot, dated);
    const waits = ['waiting', 'calling', 'paused'].some((tag) =>
      after.snapshot.hasTag(tag as never),
    );
    assert.is(after.snapshot.status === 'done' || waits, true, where);
    // Calls need no place.
    const effects = after.snapshot.hasTag('calling') ? ['callTools'] : [];
    assert.equal(
      after.effects.map(({ type }) => type),
      effects,
      `${where}: nothing is asked for before it has a place`,
    );
  }
});

test('the state, the policy and the log decide what happens to an unfinished run', () => {
  const seen = new Set<string>();
  for (const { model, snapshot, where } of runs) {
    const event = afterCrash(snapshot, 0);
    if (event === null) continue;
    const end = step(model.machine, snapshot, { ...event, at: NOW } as MachineEvent)
      .snapshot as RunSnapshot;
    assert.is(statePath(end), expectedEnd(snapshot), where);
    assert.is(end.context.output, snapshot.context.output, where);
    seen.add(`${statePath(snapshot)} → ${statePath(end)}`);
  }
  const fromWork = ['starting', 'streaming', 'backoff', 'cancelling.by_stop'].flatMap((from) => [
    `${from} → interrupted`,
    `${from} → suspended`,
  ]);
  const waiting = ['queued → queued', 'queued → interrupted', 'suspended → suspended'];
  const withCalls = [
    'continuing → continuing',
    'calling → calling',
    'calling → awaiting_decision',
    'awaiting_decision → awaiting_decision',
    'awaiting_approval → awaiting_approval',
  ];
  assert.equal(
    [...seen].sort(),
    [
      ...fromWork,
      ...waiting,
      ...withCalls,
      'cancelling.by_request → cancelled',
      'cancelling.by_deadline → timed_out',
    ].sort(),
  );
});

/** Said once more, in other words than the machine's. */
function expectedEnd(snapshot: RunSnapshot): string {
  const { context } = snapshot;
  const path = statePath(snapshot);
  if (path === 'cancelling.by_request') return 'cancelled';
  if (path === 'cancelling.by_deadline') return 'timed_out';
  if (!context.content_kept) return 'interrupted';
  if (['queued', 'suspended', 'continuing', 'awaiting_approval'].includes(path)) return path;
  if (path === 'awaiting_decision') return path;
  if (path === 'calling')
    return context.calls.some(({ state, repeatable }) =>
      state === 'started' ? repeatable : ['made', 'allowed'].includes(state),
    ) || context.calls.some(({ state, approval }) => state === 'requested' && approval !== 'ask')
      ? 'calling'
      : 'awaiting_decision';
  if (context.recovery === 'end') return 'interrupted';
  if (context.recovery === 'resume' && context.output !== '' && !context.resumable)
    return 'interrupted';
  return 'suspended';
}

test('the time in which no daemon ran counts for no deadline, also when the clock was set back', () => {
  let checked = 0;
  for (const { model, snapshot, where } of runs) {
    if (afterCrash(snapshot, 0)?.type !== 'run.recovered') continue;
    for (const downtime_ms of DOWNTIMES) {
      const event = { ...afterCrash(snapshot, downtime_ms), at: NOW } as MachineEvent;
      const after = step(model.machine, snapshot, event).snapshot as RunSnapshot;
      for (const name of ['queue_deadline_at', 'deadline_at'] as const)
        assert.is(after.context[name], snapshot.context[name] + downtime_ms, where);
      const approvals = snapshot.context.calls
        .filter(awaitsApproval)
        .map(({ approve_until }) => (approve_until ?? 0) + downtime_ms);
      const due = Math.min(...deadlinesOf(after).map(({ at }) => at));
      const run = after.hasTag('paused')
        ? Number.POSITIVE_INFINITY
        : snapshot.context.deadline_at + downtime_ms;
      const total = Math.min(run, ...approvals);
      assert.is(
        due,
        isIn(after, 'queued')
          ? Math.min(total, snapshot.context.queue_deadline_at + downtime_ms)
          : total,
        where,
      );
      checked += 1;
    }
  }
  assert.ok(checked > 400, `${checked} checked`);
});

/**
 * Lets the engine die in one attempt after the other. Returns how many deaths the run survives, up
 * to 50.
 */
function outlive(
  model: (typeof runModels)[number],
  brings: boolean,
  death: (snapshot: RunSnapshot) => object | null,
): { snapshot: RunSnapshot; deaths: number } {
  let snapshot = init(model.machine, model.created).snapshot as RunSnapshot;
  let deaths = 0;
  for (; snapshot.status === 'active' && deaths < 50; deaths += 1) {
    const { attempt } = snapshot.context;
    const take = (event: object) => {
      snapshot = step(model.machine, snapshot, { ...event, at: NOW } as unknown as MachineEvent)
        .snapshot as RunSnapshot;
    };
    take(nextAttempt(snapshot));
    if (brings)
      take({ type: 'run.output_appended', attempt: attempt + 1, text: 'x', token_ids: [1] });
    take(death(snapshot) ?? {});
  }
  return { snapshot, deaths };
}

test('no number of deaths of the daemon ends a local run that may resume', () => {
  for (const model of runModels) {
    for (const brings of [false, true]) {
      const { snapshot, deaths } = outlive(model, brings, (run) => afterCrash(run, 1000));
      const { recovery, resumable, content_kept, deaths: blamed } = snapshot.context;
      const goesOn =
        content_kept &&
        (recovery === 'restart' || (recovery === 'resume' && (resumable || !brings)));
      assert.is(snapshot.status === 'active', goesOn, model.name);
      assert.is(deaths, goesOn ? 50 : 1, model.name);
      assert.is(blamed, 0, 'no run is to blame for a death of the daemon');
    }
  }
});

test('the engine dies while it loads, and the daemon dies, by turns: neither ends a run', () => {
  const died = { code: 'engine_crashed', message: 'The engine process died.', retryable: true };
  const killed = { ...died, code: 'engine_killed' };
  for (const model of runModels) {
    let round = 0;
    let output = false;
    const { snapshot, deaths } = outlive(model, false, (run) => {
      const { recovery, content_kept } = run.context;
      if (recovery === 'end' || !content_kept) return { type: 'run.interrupted', error: died };
      round += 1;
      if (round % 2 === 0) return afterCrash(run, 1000);
      // The first attempt brings text where the next ones may continue it. Then they only load.
      if (run.context.resumable && !output) {
        output = true;
        return { type: 'run.output_appended', attempt: round, text: 'x', token_ids: [1] };
      }
      const cause = run.context.outputs > 0 ? died : killed;
      return afterFailure(run.context, cause, NOW, { lost: true, computing: 0 });
    });
    const { recovery, content_kept, fallbacks, request, error } = snapshot.context;
    if (recovery === 'end' || !content_kept || fallbacks.length > 0) continue;
    if (request.provider !== 'local') {
      assert.equal([snapshot.status, error?.code], ['done', 'run_given_up'], model.name);
      continue;
    }
    assert.is(snapshot.status, 'active', `${model.name}: ${stateName(snapshot)}`);
    assert.equal([deaths, snapshot.context.deaths], [50, 0], model.name);
  }
});

test('deaths that the run has caused do not count when the daemon dies', () => {
  const died = { code: 'engine_crashed', message: 'The engine process died.', retryable: true };
  for (const model of runModels) {
    const { recovery, max_losses, content } = model.created as RunCreated;
    if (recovery === 'end' || content === 'omitted') continue;
    let blamed = 0;
    const { snapshot } = outlive(model, false, (run) => {
      blamed += 1;
      return blamed <= (max_losses ?? 0)
        ? afterFailure(run.context, died, NOW, { lost: true, computing: 1 })
        : afterCrash(run, 1000);
    });
    assert.equal([snapshot.status, snapshot.context.deaths], ['active', max_losses], model.name);
  }
});

test('a run that kills the engine whenever it is computed alone is given up, unless each time brings new text', () => {
  const died = { code: 'engine_crashed', message: 'The engine process died.', retryable: true };
  for (const model of runModels) {
    for (const brings of [false, true]) {
      const kill = (computing: number) => (run: RunSnapshot) =>
        afterFailure(run.context, died, NOW, { lost: true, computing });
      const { snapshot, deaths } = outlive(model, brings, kill(1));
      const { recovery, resumable, content_kept, max_losses } = snapshot.context;
      const targets = 1 + ((model.created as RunCreated).fallbacks?.length ?? 0);
      const bringsOn = brings && recovery === 'resume' && resumable && content_kept;
      assert.is(snapshot.status === 'active', bringsOn, model.name);
      if (!bringsOn)
        assert.ok(
          deaths <= targets * (Math.max(max_losses, snapshot.context.max_attempts) + 1),
          `${model.name}: ${deaths} deaths`,
        );
      if (!bringsOn && max_losses > 0 && content_kept && recovery === 'restart')
        assert.match(snapshot.context.error?.message ?? '', 'alone, so the run is given up');
      // With others beside it, it may be any of them: it goes on, by itself.
      if (max_losses === 0 || recovery === 'end' || !content_kept) continue;
      const shared = outlive(model, false, kill(2)).snapshot;
      assert.is(shared.status, 'active', model.name);
      assert.equal(
        [shared.context.deaths, shared.context.failures, shared.context.isolated],
        [0, 0, true],
        model.name,
      );
    }
  }
});

test('only a run that is cancelling ends by itself or waits for the next boot', () => {
  for (const { model, snapshot, where } of runs) {
    for (const forced of [true, false]) {
      const event = terminalOf(snapshot, forced);
      assert.is(event !== null, isIn(snapshot, 'cancelling'), where);
      if (event === null) continue;
      const end = step(model.machine, snapshot, { ...event, at: NOW } as MachineEvent).snapshot;
      assert.is(end.status === 'done' || isIn(end, 'suspended'), true, where);
      if (isIn(end, 'suspended')) assert.ok(isIn(snapshot, 'by_stop'), where);
    }
  }
});

test('a stop keeps exactly the runs that the next start continues', () => {
  for (const { model, snapshot, where } of runs) {
    if (!isIn(snapshot, 'by_stop')) continue;
    const handed = step(model.machine, snapshot, {
      ...terminalOf(snapshot, false),
      at: NOW,
    } as MachineEvent).snapshot as RunSnapshot;
    assert.is(isIn(handed, 'suspended'), afterCrash(snapshot, 0)?.type === 'run.recovered', where);
    if (isIn(handed, 'suspended'))
      assert.is(afterCrash(handed, 1000)?.type, 'run.recovered', where);
  }
});

test('a cancelled run never continues', () => {
  for (const { model, snapshot, where } of runs) {
    const asked = { type: 'run.cancel_requested', by: 'user', at: NOW } as const;
    if (snapshot.status === 'done' || isIn(snapshot, 'by_deadline') || isIn(snapshot, 'by_request'))
      continue;
    assert.ok(can(snapshot, asked), where);
    const stopping = step(model.machine, snapshot, asked).snapshot as RunSnapshot;
    for (const event of [terminalOf(stopping, false), afterCrash(stopping, 1000)]) {
      assert.is(
        stateName(step(model.machine, stopping, { ...event, at: NOW } as MachineEvent).snapshot),
        'cancelled',
        where,
      );
    }
  }
});

test('what a failed pull leads to is accepted wherever it can fail', () => {
  const model = pullModel(3);
  let checked = 0;
  for (const { snapshot } of coverOf(model).states.values()) {
    if (!isIn(snapshot, 'resolving') && !isIn(snapshot, 'downloading')) continue;
    for (const error of [retryable, lasting]) {
      const event = {
        ...afterPullFailure((snapshot as PullSnapshot).context, error, NOW),
        at: NOW,
      } as MachineEvent;
      assert.ok(can(snapshot, event), `${model.key(snapshot)} ${event.type}`);
      checked += 1;
    }
  }
  assert.ok(checked >= 8);
});

test.run();
