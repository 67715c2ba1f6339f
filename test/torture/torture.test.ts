import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { tortureRound } from './round.ts';
import { DECK, neverExercised } from './world.ts';

/** The short form of `npm run torture`. */
test('a daemon and an engine killed again and again under load lose nothing, repeat nothing and end each run once', async () => {
  const result = await tortureRound({
    seed: 7,
    cycles: DECK.length,
    clients: 4,
    signal: new AbortController().signal,
  });
  assert.equal(result.problems, []);
  assert.is(result.cycles, DECK.length);
  assert.equal(neverExercised([result.counts]), []);
  assert.ok(
    result.counts.daemon >= 3 &&
      result.engine_deaths > 0 &&
      result.acknowledged > 30 &&
      result.runs > 5,
    JSON.stringify(result),
  );
});

test('a torture that found no engine says so', () => {
  const none = { daemon: 0, daemon_early: 0, engine: 0, engine_busy: 0, stop: 0 };
  assert.equal(
    neverExercised([
      { ...none, daemon: 9, daemon_early: 1, stop: 1 },
      { ...none, engine: 1 },
    ]),
    ['engine_busy'],
  );
  assert.equal(
    neverExercised([
      { ...none, daemon: 9, stop: 2 },
      { ...none, daemon_early: 1 },
    ]),
    ['engine', 'engine_busy'],
  );
});

test.run();
