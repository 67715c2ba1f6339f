import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Failure, MachineEvent, NewEvent } from '../../machines/events.ts';
import { deadlinesOf } from '../../machines/machine.ts';
import type { PullEvent } from '../../machines/pull.ts';
import { afterPullFailure, type PullSnapshot, pullMachine } from '../../machines/pull.ts';
import { can, init, isIn, stateName, step } from '../../machines/step.ts';
import { coverOf } from './cover.ts';
import { NOW } from './models/model.ts';
import { pullModel } from './models/pull.ts';

/** What holds of a pull besides what holds of every machine. */

const LIMIT = 3;
const model = pullModel(LIMIT);
const cover = coverOf(model);
const broken: Failure = { code: 'pull_failed', message: 'It broke.', retryable: true };
const source = {
  url: 'https://example.org/m.gguf',
  file: 'm.gguf',
  size_bytes: 100,
  sha256: null,
  etag: null,
  revision: null,
  choices: [],
};

function live(...events: NewEvent<PullEvent>[]): PullSnapshot {
  let snapshot = init(pullMachine, model.created).snapshot as PullSnapshot;
  for (const event of events) {
    const dated = { ...event, at: NOW } as MachineEvent;
    assert.ok(can(snapshot, dated), `${event.type} in ${stateName(snapshot)}`);
    snapshot = step(pullMachine, snapshot, dated).snapshot;
  }
  return snapshot;
}

const resolved = (attempt: number, offset_bytes = 0) =>
  ({ type: 'pull.resolved', attempt, offset_bytes, ...source }) as const;
const progressed = (attempt: number, bytes: number) =>
  ({ type: 'pull.progressed', attempt, bytes }) as const;
const failed = (attempt: number) =>
  ({ type: 'pull.attempt_failed', attempt, error: broken, retry_at: NOW + 500 }) as const;
const started = (attempt: number) => ({ type: 'pull.started', attempt }) as const;

test('a model is in the folder only after it was verified', () => {
  let completions = 0;
  for (const { from, event } of cover.accepted) {
    if (event.type !== 'pull.completed') continue;
    completions += 1;
    assert.ok((from.snapshot as PullSnapshot).context.sha256 !== null, from.key);
  }
  assert.ok(completions >= 2);
});

test('the work is begun once for each attempt, and asked to stop on every way out that it did not choose', () => {
  for (const { from, event } of cover.accepted) {
    const { snapshot, effects } = step(pullMachine, from.snapshot as PullSnapshot, event);
    const { attempt } = snapshot.context;
    const wanted =
      event.type === 'pull.started'
        ? ['startPull']
        : ['pull.attempt_failed', 'pull.failed', 'pull.cancel_requested'].includes(event.type)
          ? ['stopPull']
          : [];
    assert.equal(
      effects.map(({ type }) => type),
      wanted,
      `${from.key} ${event.type}`,
    );
    for (const { params } of effects) assert.equal(params, { pull_id: 'pull_1', attempt });
  }
  assert.equal(init(pullMachine, model.created).effects, [
    { type: 'startPull', params: { pull_id: 'pull_1', attempt: 1 } },
  ]);
});

test('it can be cancelled in every state that is not on its way out', () => {
  for (const { snapshot, key } of cover.states.values()) {
    const open = snapshot.status === 'active' && !isIn(snapshot, 'cancelling');
    assert.is(can(snapshot, model.stop), open, key);
  }
});

test('attempts that get no further are counted, and the last one is the end', () => {
  let snapshot = live(resolved(1), failed(1), started(2), failed(2), started(3));
  assert.is(snapshot.context.failures, 2);
  assert.not.ok(can(snapshot, { ...failed(3), at: NOW } as MachineEvent));
  const end = afterPullFailure(snapshot.context, broken, NOW);
  assert.is(end.type, 'pull.failed');
  snapshot = step(pullMachine, snapshot, { ...end, at: NOW } as MachineEvent).snapshot;
  assert.is(stateName(snapshot), 'failed');
  assert.equal(snapshot.context.error, broken);
});

test('an attempt that gets further than all before resets the count, even if only the next attempt shows it', () => {
  assert.is(
    live(resolved(1), failed(1), started(2), resolved(2), progressed(2, 10)).context.failures,
    0,
  );
  assert.is(
    live(resolved(1), progressed(1, 10), failed(1), started(2), resolved(2, 10), progressed(2, 10))
      .context.failures,
    1,
  );
  assert.is(
    live(resolved(1), progressed(1, 10), failed(1), started(2), resolved(2, 15)).context.failures,
    0,
  );
});

test('a file that is begun again has to get past where the old one was before it counts as further', () => {
  const again = live(
    resolved(1),
    progressed(1, 50),
    failed(1),
    started(2),
    resolved(2, 0),
    progressed(2, 40),
  );
  assert.is(again.context.bytes, 40);
  assert.is(again.context.failures, 1);
});

test('a failure that trying again does not help is the end at once', () => {
  const lasting = { ...broken, retryable: false };
  assert.is(afterPullFailure(live(resolved(1)).context, lasting, NOW).type, 'pull.failed');
});

test('the wait grows with each failure in a row, is bounded, and is no shorter than what was asked for', () => {
  const wait = (snapshot: PullSnapshot, asked: number | null = null) => {
    const event = afterPullFailure({ ...snapshot.context, failure_limit: 100 }, broken, NOW, asked);
    return event.type === 'pull.attempt_failed' ? event.retry_at - NOW : null;
  };
  assert.is(wait(live()), 500);
  assert.is(wait(live(failed(1), started(2))), 1000);
  assert.is(wait(live(), 7_000), 7_000);
  assert.is(wait(live(), 1e9), 30_000);
});

test('every event that shows life puts off the silence, and silence leads on by itself', () => {
  const idle = model.created.type === 'pull.requested' ? model.created.idle_ms : 0;
  for (const snapshot of [live(resolved(1)), live(resolved(1), progressed(1, 10))]) {
    const [deadline] = deadlinesOf(snapshot);
    assert.is(deadline?.at, NOW + idle);
    assert.is(deadline?.event.type, 'pull.attempt_failed');
  }
  const verifying = live(
    resolved(1),
    { type: 'pull.downloaded', attempt: 1, bytes: 100, existing: false },
    { type: 'pull.hashed', attempt: 1, bytes: 50 },
  );
  assert.equal(
    deadlinesOf(verifying).map(({ at, event }) => [at, event.type]),
    [[NOW + idle, 'pull.failed']],
  );
});

test('a cancel that comes while the file takes its place does not hide that it is there', () => {
  const placing = live(
    resolved(1),
    { type: 'pull.downloaded', attempt: 1, bytes: 100, existing: false },
    { type: 'pull.verified', attempt: 1, sha256: 'abc', compared: true },
    { type: 'pull.cancel_requested', by: 'test' },
  );
  assert.is(stateName(placing), 'cancelling');
  const completed = { type: 'pull.completed', attempt: 1, path: '/m.gguf', at: NOW } as const;
  assert.is(stateName(step(pullMachine, placing, completed as MachineEvent).snapshot), 'completed');
  const early = live(resolved(1), { type: 'pull.cancel_requested', by: 'test' });
  assert.not.ok(can(early, completed));
});

test.run();
