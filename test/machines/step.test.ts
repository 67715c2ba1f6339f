import { getAdjacencyMap } from '@xstate/graph';
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type AnyMachineSnapshot, initialTransition, transition } from 'xstate';
import { getAdjacencyMap as moved } from 'xstate/graph';
import type { MachineEvent } from '../../machines/events.ts';
import { deadlinesOf } from '../../machines/machine.ts';
import { can, init, stateName, statePath, step } from '../../machines/step.ts';
import { models } from './models/all.ts';

test('the fast step and the library agree on whole random lives, effects included', () => {
  for (const model of models) {
    let steps = 0;
    const property = fc.property(fc.array(fc.nat(), { maxLength: 80, size: 'max' }), (choices) => {
      let ours: AnyMachineSnapshot = init(model.machine, model.created).snapshot;
      let theirs = ours;
      for (const choice of choices) {
        const samples = model.samples(ours);
        const event = samples[choice % samples.length] as MachineEvent;
        const next = step(model.machine, ours, event);
        if (ours.status === 'active') {
          const [snapshot, actions] = transition(model.machine, theirs as never, event as never);
          const expected = actions
            .filter(({ params }) => params !== undefined)
            .map(({ type, params }) => ({ type, params }));
          assert.equal(next.effects, expected);
          theirs = snapshot as AnyMachineSnapshot;
        }
        ours = next.snapshot;
        assert.equal(
          [ours.value, ours.context, ours.status],
          [theirs.value, theirs.context, theirs.status],
        );
        steps += 1;
      }
    });
    fc.assert(property, { numRuns: 100 });
    assert.ok(steps > 1000, `${model.name}: ${steps} steps`);
  }
});

test('the first state and its effects are those of the library', () => {
  for (const { machine, created } of models) {
    const ours = init(machine, created);
    const [theirs, actions] = initialTransition(machine, created);
    assert.equal([ours.snapshot.value, ours.snapshot.context], [theirs.value, theirs.context]);
    assert.equal(
      ours.effects,
      actions
        .filter(({ params }) => params !== undefined)
        .map(({ type, params }) => ({ type, params })),
    );
  }
});

test('@xstate/graph and xstate/graph, into which it moved, walk the same states', () => {
  for (const { machine, created, samples, key } of models) {
    const options = {
      input: created,
      events: (snapshot: AnyMachineSnapshot) =>
        snapshot.status === 'active' ? samples(snapshot) : [],
      serializeState: (snapshot: AnyMachineSnapshot) => key(snapshot),
      limit: 50_000,
    };
    const here = Object.keys(getAdjacencyMap(machine, options as never));
    assert.ok(here.length > 1);
    assert.equal(Object.keys(moved(machine, options as never)), here, machine.id);
  }
});

test('a state folded twice from the same events is the same', () => {
  for (const model of models) {
    const once = () => {
      let snapshot: AnyMachineSnapshot = init(model.machine, model.created).snapshot;
      for (let turn = 0; turn < 50; turn += 1) {
        const fitting = model.samples(snapshot).filter((sample) => can(snapshot, sample));
        const event = fitting[turn % fitting.length];
        if (event !== undefined) snapshot = step(model.machine, snapshot, event).snapshot;
      }
      return JSON.stringify([snapshot.value, snapshot.context]);
    };
    assert.is(once(), once());
  }
});

test('a machine that is over stays the same object, whatever comes', () => {
  for (const model of models) {
    const over = coverEnd(model);
    if (over === null) continue;
    for (const event of model.samples(over)) {
      const next = step(model.machine, over, event);
      assert.is(next.snapshot, over, event.type);
      assert.equal(next.effects, []);
    }
  }
});

test('a state is named by its path, from the outside in', () => {
  const [daemon] = models;
  assert.ok(daemon);
  const { snapshot } = init(daemon.machine, daemon.created);
  assert.is(statePath(snapshot), 'starting.binding');
  assert.is(stateName(snapshot), 'starting');
});

/** Some final state of a machine; null if it has none. */
function coverEnd(model: (typeof models)[number]): AnyMachineSnapshot | null {
  let snapshot: AnyMachineSnapshot = init(model.machine, model.created).snapshot;
  if (can(snapshot, model.stop)) snapshot = step(model.machine, snapshot, model.stop).snapshot;
  for (let turn = 0; turn < 10 && snapshot.status === 'active'; turn += 1) {
    const due = deadlinesOf(snapshot)[0];
    if (due === undefined) return null;
    snapshot = step(model.machine, snapshot, { ...due.event, at: due.at } as MachineEvent).snapshot;
  }
  return snapshot.status === 'done' ? snapshot : null;
}

test.run();
