import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type DaemonSnapshot, endingOf } from '../../machines/daemon.ts';
import type { AnyEvent } from '../../machines/events.ts';
import { afterPullFailure, type PullSnapshot } from '../../machines/pull.ts';
import { afterCrash, type RunSnapshot, terminalOf } from '../../machines/run.ts';
import { can, init, stateName, statePath, step } from '../../machines/step.ts';
import { coverOf } from './cover.ts';
import { daemonModel } from './models/daemon.ts';
import { NOW } from './models/model.ts';
import { pullModel } from './models/pull.ts';
import { lasting, retryable, runModel } from './models/run.ts';

/** What becomes of machines whose process died. */

const daemons = [...coverOf(daemonModel(3)).states.values()].map(({ snapshot }) => snapshot as DaemonSnapshot);
const run = runModel({ max_attempts: 3, outputs: 2 });
const runs = [...coverOf(run).states.values()].map(({ snapshot }) => snapshot as RunSnapshot);

test('a life that recorded its end ended as it recorded, whatever the system says', () => {
  for (const daemon of daemons.filter(({ status }) => status === 'done')) {
    for (const host of ['host_1', 'host_2', null]) assert.is(endingOf(daemon, host), daemon.matches('stopped') ? 'clean' : 'failed');
  }
});

test('a life that recorded no end was killed, or lost its power when the system has started anew since', () => {
  const open = daemons.filter(({ status }) => status === 'active');
  assert.ok(open.length >= 20);
  for (const daemon of open) {
    assert.is(endingOf(daemon, 'host_1'), 'killed', statePath(daemon));
    assert.is(endingOf(daemon, 'host_2'), 'power_lost', statePath(daemon));
    assert.is(endingOf(daemon, null), 'killed', statePath(daemon));
  }
  const unnamed = { ...daemonModel(3).created, host_boot_id: null };
  assert.is(endingOf(init(daemonModel(3).machine, unnamed).snapshot as DaemonSnapshot, 'host_2'), 'killed');
});

test('a run found unfinished stays queued, or takes an end that it accepts', () => {
  for (const snapshot of runs) {
    const fact = afterCrash(snapshot);
    if (snapshot.status === 'done' || snapshot.matches('queued')) {
      assert.is(fact, null, run.key(snapshot));
      continue;
    }
    assert.ok(fact, run.key(snapshot));
    const dated = { ...fact, at: NOW } as AnyEvent;
    assert.ok(can(snapshot, dated), run.key(snapshot));
    assert.is(step(run.machine, snapshot, dated).snapshot.status, 'done', run.key(snapshot));
  }
});

test('a run that was being stopped gets the end it was waiting for, any other is interrupted and keeps its text', () => {
  const expected: Record<string, string> = {
    'cancelling.by_request': 'cancelled',
    'cancelling.by_deadline': 'timed_out',
    'cancelling.by_stop': 'interrupted',
    starting: 'interrupted',
    streaming: 'interrupted',
    backoff: 'interrupted',
  };
  const seen = new Set<string>();
  for (const snapshot of runs) {
    const fact = afterCrash(snapshot);
    if (fact === null) continue;
    const end = step(run.machine, snapshot, { ...fact, at: NOW } as AnyEvent).snapshot as RunSnapshot;
    assert.is(stateName(end), expected[statePath(snapshot)]);
    assert.is(end.context.output, snapshot.context.output);
    seen.add(statePath(snapshot));
  }
  assert.equal([...seen].sort(), Object.keys(expected).sort());
});

test('only a run whose work is stopping has an end of its own', () => {
  for (const snapshot of runs) assert.is(terminalOf(snapshot, false) !== null, snapshot.matches('cancelling'), run.key(snapshot));
});

test('what a failed pull leads to is accepted wherever it can fail', () => {
  const model = pullModel(3);
  let checked = 0;
  for (const { snapshot } of coverOf(model).states.values()) {
    if (!snapshot.matches('resolving') && !snapshot.matches('downloading')) continue;
    for (const error of [retryable, lasting]) {
      const fact = { ...afterPullFailure((snapshot as PullSnapshot).context, error, NOW), at: NOW } as AnyEvent;
      assert.ok(can(snapshot, fact), `${model.key(snapshot)} ${fact.type}`);
      checked += 1;
    }
  }
  assert.ok(checked >= 8);
});

test.run();
