import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type ActiveRun,
  freePlaces,
  type QueuedRun,
  runsToStart,
} from '../../machines/runs-to-start.ts';

const places = { total: 10, perProvider: 2, local: 2 };
const waiting = (run_id: string, provider: string, model = 'm'): QueuedRun => ({
  run_id,
  provider,
  model,
});
const active = (provider: string, model = 'm'): ActiveRun => ({ provider, model });

test('a node takes as many local runs from a fleet as each model has, not as one may have', () => {
  const limits = { ...places, local: 8, claimed: 4 };
  const known = [active('local'), active('local'), active('x')];
  assert.is(freePlaces(known, limits, 'local'), 2);
  assert.is(freePlaces(known, { ...places, local: 8 }, 'local'), 6);
  assert.is(freePlaces(known, limits, 'x'), 1);
  assert.is(freePlaces(known, { ...limits, total: 4 }, 'local'), 1);
});

test('runs start in the order in which they came', () => {
  assert.equal(runsToStart([waiting('a', 'x'), waiting('b', 'y'), waiting('c', 'x')], [], places), [
    'a',
    'b',
    'c',
  ]);
});

test('nothing waits: nothing starts', () => {
  assert.equal(runsToStart([], [active('x')], places), []);
});

test('a provider with all its places taken holds back its own runs and no others', () => {
  assert.equal(
    runsToStart([waiting('a', 'x'), waiting('b', 'y')], [active('x'), active('x')], places),
    ['b'],
  );
});

test('an isolated run is alone at its provider, and no later run starts before it', () => {
  const queue = [{ ...waiting('a', 'x'), isolated: true }, waiting('b', 'x'), waiting('c', 'y')];
  assert.equal(runsToStart(queue, [active('x')], places), ['c']);
  assert.equal(runsToStart(queue, [], places), ['a', 'c']);
});

test('of runs at which several boots ended one is at work, whatever their provider', () => {
  const suspect = (run_id: string, provider: string) => ({
    ...waiting(run_id, provider),
    suspect: true,
  });
  const queue = [suspect('a', 'x'), suspect('b', 'y'), waiting('c', 'z')];
  assert.equal(runsToStart(queue, [], places), ['a', 'c']);
  assert.equal(runsToStart(queue, [{ ...active('x'), suspect: true }], places), ['c']);
});

test('the places of all providers together are a bound', () => {
  const queue = ['a', 'b', 'c', 'd'].map((id) => waiting(id, id));
  assert.equal(runsToStart(queue, [active('x')], { ...places, total: 3 }), ['a', 'b']);
  assert.equal(
    runsToStart(queue, [active('x'), active('y'), active('z'), active('w')], {
      ...places,
      total: 3,
    }),
    [],
  );
});

test('local runs of the loaded model share the engine up to its places', () => {
  const queue = ['a', 'b', 'c'].map((id) => waiting(id, 'local'));
  assert.equal(runsToStart(queue, [], places), ['a', 'b']);
  assert.equal(runsToStart(queue, [active('local')], places), ['a']);
});

test('a local run of another model waits until the engine is free', () => {
  assert.equal(runsToStart([waiting('a', 'local', 'other')], [active('local', 'm')], places), []);
  assert.equal(runsToStart([waiting('a', 'local', 'other')], [], places), ['a']);
});

test('a run that is cancelled before it starts makes no place for its model', () => {
  const cancelled = { ...active('local', 'other'), unstarted: true };
  const queue = [waiting('a', 'local', 'other')];
  assert.equal(runsToStart(queue, [active('local', 'm'), cancelled], places), []);
  assert.equal(runsToStart(queue, [cancelled], places), ['a']);
});

test('a local run of another model is not overtaken by later runs of the loaded one', () => {
  assert.equal(
    runsToStart(
      [waiting('a', 'local', 'other'), waiting('b', 'local', 'm')],
      [active('local', 'm')],
      places,
    ),
    [],
  );
});

test('a blocked local run blocks no run of another provider', () => {
  assert.equal(
    runsToStart(
      [waiting('a', 'local', 'other'), waiting('b', 'x')],
      [active('local', 'm')],
      places,
    ),
    ['b'],
  );
});

test('two models in one queue start one after the other', () => {
  assert.equal(
    runsToStart(
      [waiting('a', 'local', 'm'), waiting('b', 'local', 'n'), waiting('c', 'local', 'm')],
      [],
      places,
    ),
    ['a'],
  );
});

test('whatever waits and runs, no bound is passed, no model is mixed, and the first of an idle provider starts', () => {
  const one = fc.record({
    provider: fc.constantFrom('local', 'x', 'y'),
    model: fc.constantFrom('m', 'n'),
  });
  const bounds = fc.record({
    total: fc.integer({ min: 1, max: 8 }),
    perProvider: fc.integer({ min: 1, max: 4 }),
    local: fc.integer({ min: 1, max: 4 }),
  });
  fc.assert(
    fc.property(fc.array(one, { maxLength: 12 }), bounds, (runs, limits) => {
      const queue = runs.map((run, index) => ({ ...run, run_id: `run_${index}` }));
      const started = runsToStart(queue, [], limits).map(
        (id) => queue.find((run) => run.run_id === id) as QueuedRun,
      );
      const local = started.filter(({ provider }) => provider === 'local');
      assert.ok(started.length <= limits.total);
      assert.ok(local.length <= limits.local);
      for (const provider of ['x', 'y'])
        assert.ok(started.filter((run) => run.provider === provider).length <= limits.perProvider);
      assert.ok(new Set(local.map(({ model }) => model)).size <= 1);
      if (queue.length > 0) assert.is(started[0]?.run_id, 'run_0');
    }),
  );
});

test.run();
