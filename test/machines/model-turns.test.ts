import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type EngineSnapshot, engineMachine } from '../../machines/engine.ts';
import { noTurn, restEnds, turnAfter, turnEnds } from '../../machines/engine-room.ts';
import { init, step } from '../../machines/step.ts';
import { type Play, playTurns } from '../helpers/play-turns.ts';

const limits = { turn_ms: 20_000, turn_max_ms: 300_000 };
/** The clients and runs of the bench, with a load that takes a second. */
const bench: Play = {
  models: 3,
  places: 2,
  clients: 8,
  runs: 200,
  run_ms: 300,
  load_ms: 1000,
  think_ms: 20,
  turn_ms: 10_000,
  turn_max_ms: 300_000,
};

test('a turn begins when the model is loaded, and lasts at least its length', () => {
  const turn = { asked_at: 1000, loaded_at: 2000, idle_since: null };
  assert.is(turnEnds(turn, limits), 22_000);
  assert.is(turnEnds({ ...turn, loaded_at: null }, limits), Number.POSITIVE_INFINITY);
});

test('a turn is worth its load, within its bound', () => {
  const turn = (load_ms: number) => ({ asked_at: 0, loaded_at: load_ms, idle_since: null });
  assert.is(turnEnds(turn(10_000), limits), 40_000);
  assert.is(turnEnds(turn(100_000), limits), 400_000);
  assert.is(turnEnds(turn(1000), { ...limits, turn_max_ms: 0 }), 21_000);
});

test('a model rests after its work, for a part of its load time', () => {
  const turn = { asked_at: 0, loaded_at: 4000, idle_since: 9000 };
  assert.is(restEnds(turn), 10_000);
  assert.is(restEnds({ ...turn, idle_since: null }), Number.NEGATIVE_INFINITY);
});

test('the turn follows the events of the engine', () => {
  const created = { type: 'engine.created', number: 1 } as const;
  const times = { start_ms: 1, load_ms: 1, stop_ms: 1, kill_ms: 1, idle_ms: 1 };
  const model = { model: 'm', path: '/m' };
  const info = { ...model, pid: 1, threads: 1, context_length: 1, parallel: 1, load_ms: 1 };
  let { snapshot } = init(engineMachine, { ...created, ...times, at: 10 });
  let turn = noTurn;
  const see = (event: object, at: number) => {
    ({ snapshot } = step(engineMachine, snapshot, { ...event, at } as never));
    turn = turnAfter(turn, snapshot as EngineSnapshot);
    return turn;
  };
  see({ type: 'engine.load_requested', attempt: 1, ...model }, 20);
  see({ type: 'engine.process_started', attempt: 1, pid: 1 }, 30);
  assert.equal(turn, { asked_at: 20, loaded_at: null, idle_since: null });
  see({ type: 'engine.model_loaded', attempt: 1, info }, 50);
  assert.equal(turn, { asked_at: 20, loaded_at: 50, idle_since: 50 });
  assert.is(see({ type: 'engine.work_started' }, 60).idle_since, null);
  assert.equal(see({ type: 'engine.work_finished' }, 80), {
    asked_at: 20,
    loaded_at: 50,
    idle_since: 80,
  });
  assert.is(see({ type: 'engine.stop_requested', reason: 'room' }, 90).loaded_at, null);
});

for (const load_ms of [100, 1000, 20_000])
  test(`a load of ${load_ms} ms: loads are bounded by the turns`, () => {
    const played = playTurns({ ...bench, load_ms });
    assert.is(played.answered, bench.runs);
    const turn_ms = Math.max(bench.turn_ms, 3 * load_ms);
    const bound = bench.models + Math.floor(played.passed_ms / turn_ms) * bench.places;
    assert.ok(played.loads <= bound, `${played.loads} loads, at most ${bound}`);
  });

test('a client that pauses between its runs does not lose its model in each pause', () => {
  const one = { ...bench, models: 2, places: 1, clients: 2, runs: 100 };
  const played = playTurns({ ...one, think_ms: 200 });
  assert.ok(played.loads <= 8, `${played.loads} loads`);
});

test('a client that leaves its model for long makes room at once', () => {
  const one = { ...bench, models: 2, places: 1, clients: 2, runs: 20 };
  const { longest_wait_ms } = playTurns({ ...one, think_ms: 60_000, run_ms: 100 });
  assert.ok(longest_wait_ms <= one.load_ms + 100 + one.load_ms / 4, `${longest_wait_ms} ms`);
});

test('whatever is asked: each run is answered, none waits for more than the turns before it, and loads are worth their time', () => {
  const plays = fc.record({
    models: fc.integer({ min: 1, max: 5 }),
    places: fc.integer({ min: 1, max: 3 }),
    clients: fc.integer({ min: 1, max: 9 }),
    runs: fc.integer({ min: 1, max: 120 }),
    run_ms: fc.integer({ min: 1, max: 5000 }),
    load_ms: fc.integer({ min: 1, max: 40_000 }),
    think_ms: fc.integer({ min: 0, max: 10_000 }),
    turn_ms: fc.integer({ min: 0, max: 20_000 }),
    turn_max_ms: fc.integer({ min: 0, max: 100_000 }),
  });
  fc.assert(
    fc.property(plays, (play) => {
      const played = playTurns(play);
      assert.is(played.answered, play.runs);
      const turn_ms = Math.max(play.turn_ms, Math.min(3 * play.load_ms, play.turn_max_ms));
      const each = turn_ms + 2 * play.load_ms + 2 * play.run_ms;
      const bound = play.clients * each;
      assert.ok(played.longest_wait_ms <= bound, `waited ${played.longest_wait_ms} of ${bound}`);
    }),
  );
});

test.run();
