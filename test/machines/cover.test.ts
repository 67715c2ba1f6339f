import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type AnyMachineSnapshot, transition } from 'xstate';
import type { Effect } from '../../machines/effects.ts';
import { can, init, type Step, step } from '../../machines/step.ts';
import { type Attempt, coverOf, type Reached } from './cover.ts';
import { models } from './models/all.ts';
import type { Model } from './models/model.ts';

/**
 * Every edge of every machine as a pure fold: the shortest path to its source, then the edge,
 * stepped our way and the library's way. And the other half: in every state, every event that is
 * not accepted changes nothing.
 */

/** The events that begin an attempt carry the number of the next one. */
const BEGINNINGS = new Set<string>([
  'run.started',
  'provider.probe_started',
  'engine.load_requested',
  'mcp.start_requested',
  'pull.started',
]);
/** Events that no machine has, and names that a lookup could stumble over. */
const FOREIGN = [
  'nope',
  '',
  '*',
  'xstate.stop',
  'xstate.init',
  'xstate.error',
  '__proto__',
  'constructor',
  'toString',
];

for (const model of models) {
  const { states, accepted, refused } = coverOf(model);

  test(`${model.name}: the walk finds what is there`, () => {
    const { least } = model;
    assert.ok(states.size >= least.states, `${states.size} states`);
    assert.ok(accepted.length >= least.edges, `${accepted.length} edges`);
    assert.ok(refused.length >= least.refused, `${refused.length} refusals`);
    for (const { snapshot, key } of states.values()) assert.is.not(snapshot.status, 'error', key);
  });

  test(`${model.name}: every edge leads where the library's own transition leads, with the same effects`, () => {
    for (const edge of accepted) {
      const before = fold(model, edge.from);
      const ours = step(model.machine, before, edge.event);
      const [snapshot, actions] = transition(model.machine, before as never, edge.event as never);
      assert.equal(essence(ours.snapshot), essence(snapshot as AnyMachineSnapshot), say(edge));
      assert.equal(ours.effects, effectsOf(actions), say(edge));
      assert.is(model.key(ours.snapshot), edge.to, say(edge));
      assert.ok(can(before, edge.event), say(edge));
    }
  });

  test(`${model.name}: an event that carries a number is taken only by the attempt it belongs to`, () => {
    for (const { from, event } of accepted) {
      // A call of a tool takes the end of its run, whose attempt it does not know.
      if (model.machine.id === 'tool_call') continue;
      if (!('attempt' in event) && !('probe' in event)) continue;
      const of = 'attempt' in event ? event.attempt : event.probe;
      const context = from.snapshot.context as { attempt?: number; probe?: number };
      const now = ('attempt' in event ? context.attempt : context.probe) ?? Number.NaN;
      assert.is(of, BEGINNINGS.has(event.type) ? now + 1 : now, say({ from, event, to: '' }));
    }
  });

  test(`${model.name}: an event that a state does not accept changes nothing there and asks for nothing`, () => {
    for (const attempt of refused) {
      const before = fold(model, attempt.from);
      const where = say(attempt);
      assert.not.ok(can(before, attempt.event), where);
      assertUnmoved(before, step(model.machine, before, attempt.event), where);
      assert.is(attempt.to, attempt.from.key, where);
    }
  });

  test(`${model.name}: an event of another machine, or of none, changes nothing in any state`, () => {
    const others = models
      .filter(({ machine }) => machine !== model.machine)
      .map(({ stop }) => stop.type)
      // A run and the calls of its tools share their events.
      .filter((type) => type !== model.stop.type);
    for (const from of states.values()) {
      for (const type of [...FOREIGN, ...others]) {
        const before = fold(model, from);
        assert.not.ok(can(before, { type }), `${from.key} ${type}`);
        if (!type.startsWith('xstate.'))
          assertUnmoved(before, step(model.machine, before, { type }), `${from.key} ${type}`);
      }
    }
  });

  test(`${model.name}: a step does not touch the state that it is given`, () => {
    for (const edge of accepted) {
      const before = fold(model, edge.from);
      const image = JSON.stringify(essence(before));
      step(model.machine, before, edge.event);
      assert.is(JSON.stringify(essence(before)), image, say(edge));
    }
  });
}

/** Each state is folded once, since no step touches it. */
const folded = new WeakMap<Reached, AnyMachineSnapshot>();

function fold(model: Model, reached: Reached): AnyMachineSnapshot {
  const known = folded.get(reached);
  if (known !== undefined) return known;
  const { path, key } = reached;
  const start: AnyMachineSnapshot = init(model.machine, model.created).snapshot;
  const end = path.reduce(
    (snapshot, event) => step(model.machine, snapshot, event).snapshot,
    start,
  );
  assert.is(model.key(end), key);
  folded.set(reached, end);
  return end;
}

function assertUnmoved(
  before: AnyMachineSnapshot,
  after: Step<AnyMachineSnapshot>,
  where: string,
): void {
  assert.equal(after.effects, [], where);
  assert.equal(essence(after.snapshot), essence(before), where);
}

/** All of a state that is data. */
function essence({ value, context, status, tags, error, output }: AnyMachineSnapshot) {
  return { value, context, status, tags: [...tags].sort(), error, output };
}

/** The library's actions, reduced to what we call effects: a name and its parameters. */
function effectsOf(actions: readonly { type: string; params?: unknown }[]): Effect[] {
  return actions
    .filter(({ params }) => params !== undefined)
    .map(({ type, params }) => ({ type, params }) as Effect);
}

function say({ from, event }: Attempt): string {
  return `${from.key} + ${JSON.stringify(event)}`;
}

test.run();
