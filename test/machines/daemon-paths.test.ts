import { getSimplePaths } from '@xstate/graph';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { AnyMachineSnapshot } from 'xstate';
import { type DaemonSnapshot, readyWhen } from '../../machines/daemon/chart.ts';
import type { MachineEvent } from '../../machines/events.ts';
import { init, isIn, stateName, statePath, step } from '../../machines/step.ts';
import { coverOf, takenEvents } from './cover.ts';
import { daemonModel } from './models/daemon.ts';

/**
 * The life of the daemon is small enough for all of its simple paths: none visits a state twice.
 */

const LIVE = ['starting', 'ready', 'running', 'stopping'];
const READY = ['ready', 'running.accepting', 'running.saturated'];
const CAPACITY = 2;

const model = daemonModel(CAPACITY);
const paths = getSimplePaths(model.machine, {
  input: model.created,
  events: (snapshot: AnyMachineSnapshot) => takenEvents(model, snapshot),
  serializeState: (snapshot: AnyMachineSnapshot) => model.key(snapshot),
  limit: 2000,
});

test('all simple paths are walked, and each keeps what the daemon promises at every step', () => {
  assert.ok(paths.length >= 2000, `${paths.length} paths`);
  for (const path of paths) {
    let snapshot = init(model.machine, model.created).snapshot as DaemonSnapshot;
    keepsPromises(snapshot);
    for (const { event } of path.steps) {
      if (event.type === 'xstate.init') continue;
      snapshot = step(model.machine, snapshot, event as MachineEvent).snapshot;
      keepsPromises(snapshot);
    }
    assert.is(model.key(snapshot), model.key(path.state as AnyMachineSnapshot));
  }
});

test('health is a pair of tags, and every state has exactly one answer', () => {
  for (const { snapshot } of coverOf(model).states.values())
    keepsPromises(snapshot as DaemonSnapshot);
});

test('what is missing for ready is said in every state that is not ready, and in no other', () => {
  const answers = new Map(
    [...coverOf(model).states.values()].map(({ snapshot }) => [
      statePath(snapshot),
      readyWhen(snapshot as DaemonSnapshot),
    ]),
  );
  for (const [path, answer] of answers) assert.is(answer === null, READY.includes(path), path);
  assert.is(new Set(answers.values()).size, 8);
});

test('a run is admitted in ready and in running.accepting, and nowhere else', () => {
  const doors = coverOf(model)
    .accepted.filter(({ event }) => event.type === 'daemon.run_admitted')
    .map(({ from }) => statePath(from.snapshot));
  assert.equal([...new Set(doors)].sort(), ['ready', 'running.accepting']);
});

test('the daemon closes what it holds once on its way out, and interrupts runs exactly when there are some', () => {
  for (const { from, event } of coverOf(model).accepted) {
    const next = step(model.machine, from.snapshot, event);
    const enters =
      statePath(next.snapshot) === 'stopping.closing' &&
      statePath(from.snapshot) !== 'stopping.closing';
    const expected = enters
      ? [
          {
            type: 'closeDaemon',
            params: { interrupt: (next.snapshot as DaemonSnapshot).context.unsettled > 0 },
          },
        ]
      : [];
    assert.equal(next.effects, expected, `${from.key} ${event.type}`);
  }
});

function keepsPromises(snapshot: DaemonSnapshot): void {
  const name = stateName(snapshot);
  const path = statePath(snapshot);
  const { unsettled } = snapshot.context;
  assert.is(snapshot.hasTag('live'), LIVE.includes(name), name);
  assert.is(snapshot.hasTag('ready'), READY.includes(path), path);
  assert.ok(unsettled >= 0 && unsettled <= CAPACITY + 1, `${unsettled} unsettled`);
  if (name === 'ready') assert.is(unsettled, 0);
  if (path === 'running.accepting' || path === 'running.saturated') assert.ok(unsettled > 0);
  if (isIn(snapshot, 'accepting')) assert.ok(unsettled < CAPACITY);
  if (isIn(snapshot, 'saturated')) assert.ok(unsettled >= CAPACITY);
  if (name === 'failed') assert.ok(snapshot.context.error);
}

test.run();
