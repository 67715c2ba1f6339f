import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type ActiveRun,
  type QueuedRun,
  type Room,
  runsToStart,
} from '../../machines/runs-to-start.ts';

/** Each model needs one byte. */
const roomFor = (models: number, loaded: readonly string[] = []): Room => ({
  ...{ bytes: models, models: 8 },
  find: (key) => ({ key, bytes: 1 }),
  residents: () => loaded.map((model, at) => ({ model, bytes: 1, busy: false, used_at: at })),
});
const limits = { total: 20, perProvider: 2, local: 2 };
const waiting = (run_id: string, model: string, more: Partial<QueuedRun> = {}): QueuedRun => ({
  ...{ run_id, provider: 'local', model, due: false },
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

test('until it is due, later runs of the models in memory start before it', () => {
  const room = roomFor(1, ['a']);
  const queue = [waiting('b', 'b'), waiting('a1', 'a'), waiting('b2', 'b'), waiting('a2', 'a')];
  assert.equal(runsToStart(queue, [], { ...limits, room }), ['a1', 'a2']);
});

test('once it is due, an idle model makes room although runs wait for it', () => {
  const room = roomFor(1, ['a']);
  const queue = [waiting('b', 'b', { due: true }), waiting('a1', 'a'), waiting('b2', 'b')];
  assert.equal(runsToStart(queue, [], { ...limits, room }), ['b', 'b2']);
});

test('once it is due, one model with work gets no new run, and the others go on', () => {
  const room = roomFor(2, ['a', 'b']);
  const queue = [waiting('c', 'c', { due: true }), waiting('a1', 'a'), waiting('b1', 'b')];
  assert.equal(runsToStart(queue, [active('a'), active('b')], { ...limits, room }), ['b1']);
});

test('no later run takes the memory that is kept for a due one', () => {
  const room = roomFor(2, ['a', 'b']);
  const queue = [waiting('c', 'c', { due: true }), waiting('d', 'd', { due: true })];
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
  const queue = [waiting('n', 'new', { due: true }), waiting('a', 'a')];
  assert.equal(runsToStart(queue, [], { ...limits, room }), ['a']);
});

test('two names of one file share its engine', () => {
  const known = roomFor(1);
  const room: Room = { ...known, find: () => ({ key: '/m.gguf', bytes: 1 }) };
  const queue = [waiting('x', 'local/m'), waiting('y', 'm')];
  assert.equal(runsToStart(queue, [], { ...limits, room }), ['x', 'y']);
});

/** Plays a queue in turns: each run takes one turn, and a run is due after `patience` turns. */
function play(queue: readonly string[], models: number, patience: number) {
  let loaded: string[] = [];
  let waitingRuns = queue.map((model, at) => ({
    id: `r${at}`,
    model,
    overtaken: null as number | null,
  }));
  const waited: number[] = [];
  let loads = 0;
  for (let turn = 0; waitingRuns.length > 0; turn += 1) {
    if (turn > 10 * queue.length) throw new Error('it does not end');
    const runs = waitingRuns.map(({ id, model, overtaken }) =>
      waiting(id, model, { due: overtaken !== null && turn - overtaken >= patience }),
    );
    const started = new Set(runsToStart(runs, [], { ...limits, room: roomFor(models, loaded) }));
    assert.ok(started.size > 0, 'a turn without a run');
    for (const { id, model } of waitingRuns.filter((run) => started.has(run.id))) {
      if (!loaded.includes(model)) loads += 1;
      loaded = [...loaded.filter((other) => other !== model), model];
      waited.push(turn);
      assert.ok(id !== '');
    }
    loaded = loaded.slice(-models);
    const last = waitingRuns.findLastIndex(({ id }) => started.has(id));
    waitingRuns = waitingRuns
      .map((run, at) => (at < last ? { ...run, overtaken: run.overtaken ?? turn } : run))
      .filter(({ id }) => !started.has(id));
  }
  return { loads, turns: Math.max(...waited) };
}

test('two clients with two models and memory for one do not load a model for each run', () => {
  const queue = Array.from({ length: 100 }, (_, at) => (at % 2 === 0 ? 'a' : 'b'));
  const { loads } = play(queue, 1, 10);
  assert.ok(loads <= 12, `${loads} loads`);
});

test('no model starves: with a model that is asked without end, another has its turn', () => {
  const queue = ['a', 'b', ...Array.from({ length: 60 }, () => 'a')];
  const order: string[] = [];
  const runs = queue.map((model, at) => ({ run_id: `r${at}`, provider: 'local', model }));
  let left = runs.map((run) => ({ ...run, due: false }));
  let loaded = ['a'];
  for (let turn = 0; left.length > 0; turn += 1) {
    const started = runsToStart(left, [], { ...limits, room: roomFor(1, loaded) });
    order.push(...started);
    for (const { model } of left.filter(({ run_id }) => started.includes(run_id))) loaded = [model];
    left = left
      .filter(({ run_id }) => !started.includes(run_id))
      .map((run) => ({ ...run, due: turn >= 5 && run.model === 'b' }));
  }
  assert.ok(order.indexOf('r1') < 20, `r1 starts at place ${order.indexOf('r1')}`);
});

test.run();
