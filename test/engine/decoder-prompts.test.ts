import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { BatchStopped } from '../../src/engine/native/context.ts';
import { busy, open, places, stepping } from '../helpers/fake-decoder.ts';

/** Which parts of prompts are computed next, and together. */

test('a part of a prompt shares no batch with tokens', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const [one, two] = [run(0), run(1)];
  const asked = [one.compute(40), two.compute()];
  await free();
  await native.end();
  await native.end();
  assert.equal(await Promise.all(asked), ['after 39', 'after 0']);
  assert.equal(native.batches.slice(1), [['0 0 40'], ['1 0 1']]);
  assert.equal([one.member.batched, two.member.batched], [false, false]);
});

test('short parts of several prompts are one batch, the shortest ones that fit', async () => {
  const opened = open(32);
  const { run, native } = opened;
  const free = await busy(opened);
  const runs = [3, 1, 4, 0, 2].map((place) => run(place));
  const asked = [12, 10, 14, 40, 8].map((tokens, at) => {
    const each = runs[at] as (typeof runs)[0];
    each.member.left = tokens;
    return each.compute(tokens);
  });
  await free();
  for (let batch = 0; batch < 3; batch += 1) await native.end();
  assert.equal(await Promise.all(asked), [
    'after 11',
    'after 9',
    'after 13',
    'after 39',
    'after 7',
  ]);
  assert.equal(native.batches.slice(1), [['1 0 10', '2 0 8', '3 0 12'], ['4 0 14'], ['0 0 40']]);
  assert.equal(
    runs.map(({ member }) => member.batched),
    [true, true, false, false, true],
  );
  assert.equal(native.stops.slice(1), ['any', 104, 100], 'what ends each of them');
});

test('a part of an exact run is a batch by itself, also beside short ones', async () => {
  const opened = open(32);
  const { run, native } = opened;
  const free = await busy(opened);
  const exact = run(0, true);
  const [two, three] = [run(1), run(2)];
  const asked = [exact, two, three].map(({ compute }) => compute(4));
  await free();
  for (let batch = 0; batch < 2; batch += 1) await native.end();
  await Promise.all(asked);
  assert.equal(native.batches.slice(1), [['0 0 4'], ['1 0 4', '2 0 4']]);
  assert.equal(
    [exact, two, three].map(({ member }) => member.batched),
    [false, true, true],
  );
});

test('a cancel ends a batch of several prompts, and those of the others are computed again', async () => {
  const opened = open(32);
  const { run, native } = opened;
  const free = await busy(opened);
  const [one, two, three] = [run(0), run(1), run(2)];
  const cancelled = one.compute(4).catch((thrown) => thrown);
  const others = [two.compute(4), three.compute(4)];
  await free();
  // Its message comes after the flag.
  setImmediate(() => one.abort.abort());
  await native.end(new BatchStopped());
  assert.is(await cancelled, one.abort.signal.reason);
  await native.end();
  assert.equal(await Promise.all(others), ['after 3', 'after 3']);
  assert.equal(native.batches.slice(1), [
    ['0 0 4', '1 0 4', '2 0 4'],
    ['1 0 4', '2 0 4'],
  ]);
  assert.equal(native.forgotten, [
    [0, 0],
    [1, 0],
    [2, 0],
  ]);
});

test('a prompt has only the parts that it computed alone to give to an exact run', async () => {
  const opened = open(32);
  const { run, native } = opened;
  const free = await busy(opened);
  const { first, slot } = stepping(opened);
  const other = run(1);
  const beside = other.compute(8);
  await free();
  for (let part = 0; part < 3; part += 1) await native.end();
  await Promise.all([first, beside]);
  assert.equal(native.batches.slice(1), [['0 0 8', '1 0 8'], ['0 8 8'], ['0 16 8']]);
  assert.equal([slot.alone, slot.parts, slot.tokens.length], [0, [24], 24]);
});

test('of two prompts the shorter one is computed first, and no other one between its parts', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const asked = [run(0).prompt(3), run(1).prompt(2), run(2).prompt(2)];
  await free();
  for (let part = 0; part < 7; part += 1) await native.end();
  await Promise.all(asked);
  assert.equal(places(native), [1, 1, 2, 2, 0, 0, 0]);
});

test('a long prompt gets every second part after 16 of a stream of short ones', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const client = async (place: number) => {
    for (let asked = 0; asked < 30; asked += 1) await run(place).prompt(1);
  };
  const asked = [run(0).prompt(4), client(1), client(2)];
  await free();
  for (let part = 0; part < 64; part += 1) await native.end();
  await Promise.all(asked);
  const turns = places(native).flatMap((place, turn) => (place === 0 ? [turn] : []));
  assert.equal(turns, [16, 18, 20, 22]);
});

test('prompts of one length are computed in the order in which they were asked for', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const asked = [0, 1, 2, 3].map((place) => run(place).prompt(20));
  await free();
  for (let part = 0; part < 80; part += 1) await native.end();
  await Promise.all(asked);
  assert.equal(
    places(native),
    [0, 1, 2, 3].flatMap((place) => Array(20).fill(place)),
  );
});

test('tokens of answers go between the prompts, the ones of exact runs too', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const prompts = [1, 2, 3, 4].map((place) => run(place).compute(64));
  const tokens = [run(5).compute(), run(6, true).compute(), run(7).compute()];
  await free();
  for (let batch = 0; batch < 6; batch += 1) await native.end();
  await Promise.all([...prompts, ...tokens]);
  assert.equal(native.batches.slice(1), [
    ['1 0 64'],
    ['2 0 64'],
    ['5 0 1', '7 0 1'],
    ['6 0 1'],
    ['3 0 64'],
    ['4 0 64'],
  ]);
});

test.run();
