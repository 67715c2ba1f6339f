import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type ActiveRun,
  type Occupant,
  type QueuedRun,
  type Room,
  runsToStart,
} from '../../machines/runs-to-start.ts';

/** Each model needs one byte. They were loaded in this order. */
const roomFor = (
  models: number,
  loaded: readonly string[] = [],
  more: Partial<Occupant> = { in_turn: true },
): Room => ({
  bytes: models,
  models: 8,
  find: (key) => ({ key, bytes: 1 }),
  residents: () =>
    loaded.map((model, at) => ({
      model,
      bytes: 1,
      busy: false,
      in_turn: false,
      resting: false,
      used_at: at,
      loaded_at: at,
      ...more,
    })),
});
const OVER = { in_turn: false };
const limits = { total: 20, perProvider: 2, local: 2 };
const waiting = (run_id: string, model: string, more: Partial<QueuedRun> = {}): QueuedRun => ({
  run_id,
  provider: 'local',
  model,
  ...more,
});
const active = (model: string, isolated = false): ActiveRun => ({
  provider: 'local',
  model,
  isolated,
});

test('models that fit together answer at the same time, each up to its places', () => {
  const queue = ['a', 'a', 'a', 'b', 'b'].map((model, at) => waiting(`${model}${at}`, model));
  assert.equal(runsToStart(queue, [], { ...limits, room: roomFor(2) }), ['a0', 'a1', 'b3', 'b4']);
});

test('a third model waits for the memory of the two with work', () => {
  const room = roomFor(2, ['a', 'b']);
  const started = runsToStart([waiting('c', 'c')], [active('a'), active('b')], { ...limits, room });
  assert.equal(started, []);
});

test('a model without work and without a waiting run makes room at once', () => {
  const room = roomFor(2, ['a', 'b']);
  assert.equal(runsToStart([waiting('c', 'c')], [active('a')], { ...limits, room }), ['c']);
});

test('a model that rests makes no room in its turn', () => {
  const room = roomFor(1, ['a'], { in_turn: true, resting: true });
  assert.equal(runsToStart([waiting('b', 'b')], [], { ...limits, room }), []);
  const over = roomFor(1, ['a'], { in_turn: false, resting: true });
  assert.equal(runsToStart([waiting('b', 'b')], [], { ...limits, room: over }), ['b']);
});

test('in the turn of a model, its later runs start before a run that waits for its memory', () => {
  const room = roomFor(1, ['a']);
  const queue = [waiting('b', 'b'), waiting('a1', 'a'), waiting('b2', 'b'), waiting('a2', 'a')];
  assert.equal(runsToStart(queue, [], { ...limits, room }), ['a1', 'a2']);
});

test('after its turn, an idle model makes room although runs wait for it', () => {
  const room = roomFor(1, ['a'], OVER);
  const queue = [waiting('b', 'b'), waiting('a1', 'a'), waiting('b2', 'b')];
  assert.equal(runsToStart(queue, [], { ...limits, room }), ['b', 'b2']);
});

test('after the turns, the model loaded first gets no new run, and the others go on', () => {
  const room = roomFor(2, ['a', 'b'], OVER);
  const queue = [waiting('c', 'c'), waiting('a1', 'a'), waiting('b1', 'b')];
  assert.equal(runsToStart(queue, [active('a'), active('b')], { ...limits, room }), ['b1']);
});

test('while a run waits for the end of turns, no later run takes the memory of a model', () => {
  const known = roomFor(2, ['a', 'b']);
  const needs = (key: string) => ({ key, bytes: key === 'large' ? 2 : 1 });
  const [large, c] = [waiting('l', 'large'), waiting('c', 'c')];
  const room: Room = {
    ...known,
    find: needs,
    residents: (now) =>
      known.residents(now).map((each) => ({ ...each, in_turn: each.model === 'a' })),
  };
  const busy = [active('a'), active('b')];
  assert.equal(runsToStart([large, waiting('b1', 'b'), c], busy, { ...limits, room }), ['b1']);
  assert.equal(runsToStart([c, large], [active('a')], { ...limits, room }), ['c']);
  assert.equal(runsToStart([large, c], [active('a')], { ...limits, room }), []);
});

test('no later run takes the memory that is kept for an earlier one', () => {
  const room = roomFor(2, ['a', 'b'], OVER);
  const queue = [waiting('c', 'c'), waiting('d', 'd')];
  assert.equal(runsToStart(queue, [active('a'), active('b')], { ...limits, room }), []);
  assert.equal(runsToStart(queue, [active('b')], { ...limits, room }), ['c']);
});

test('an isolated run waits only for runs of the same model', () => {
  const room = roomFor(2, ['a', 'b']);
  const queue = [waiting('a1', 'a', { isolated: true }), waiting('b1', 'b')];
  assert.equal(runsToStart(queue, [active('a'), active('b')], { ...limits, room }), ['b1']);
  assert.equal(runsToStart(queue, [active('b')], { ...limits, room }), ['a1', 'b1']);
  const behind = [waiting('a1', 'a'), waiting('b1', 'b')];
  assert.equal(runsToStart(behind, [active('a', true)], { ...limits, room }), ['b1']);
});

test('a run whose model is not known yet waits and holds no other', () => {
  const known = roomFor(1);
  const room: Room = { ...known, find: (name) => (name === 'new' ? undefined : known.find(name)) };
  const queue = [waiting('n', 'new'), waiting('a', 'a')];
  assert.equal(runsToStart(queue, [], { ...limits, room }), ['a']);
});

test('a model has as many runs as its memory allows, and the others wait in the queue', () => {
  const known = roomFor(2);
  const room: Room = { ...known, find: (key) => ({ key, bytes: 1, runs: key === 'a' ? 1 : 9 }) };
  const queue = ['a', 'a', 'b', 'b', 'b'].map((model, at) => waiting(`${model}${at}`, model));
  assert.equal(runsToStart(queue, [], { ...limits, room }), ['a0', 'b2', 'b3']);
});

test('two names of one file share its engine', () => {
  const known = roomFor(1);
  const room: Room = { ...known, find: () => ({ key: '/m.gguf', bytes: 1 }) };
  const queue = [waiting('x', 'local/m'), waiting('y', 'm')];
  assert.equal(runsToStart(queue, [], { ...limits, room }), ['x', 'y']);
});

test.run();
