import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { findGain } from '../../src/engine/measured/gain.ts';
import type { Use } from '../../src/engine/measured/idle.ts';
import { candidates, findThreads } from '../../src/engine/measured/threads.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-threads-'));
const file = join(folder, 'engine-threads.json');
test.before.each(() => rmSync(file, { force: true }));
test.after(() => rmSync(folder, { recursive: true }));

/** Of eight cores other work leaves so many idle, from one look to the next. */
function useOf(idle: number): () => Use {
  let at = 0;
  return () => {
    at += 1000;
    return { cores: Array(8).fill({ idle: (at * idle) / 8, total: at }), own: 0, at };
  };
}

function find(
  speeds: Record<number, number>,
  changes: Partial<Parameters<typeof findThreads>[0]> = {},
) {
  const tried: number[] = [];
  const measure = async (threads: number) => {
    tried.push(threads);
    return speeds[threads] ?? 0;
  };
  return findThreads({
    modelKey: 'm 1 2',
    engineKey: 'e',
    file,
    available: 8,
    measure,
    idle: async () => null,
    use: useOf(8),
    ...changes,
  }).then((found) => ({ ...found, tried }));
}

test('the candidates double up to the available number and never exceed it', () => {
  assert.equal(candidates(1), [1]);
  assert.equal(candidates(2), [1, 2]);
  assert.equal(candidates(6), [1, 2, 4, 6]);
  assert.equal(candidates(8), [1, 2, 4, 8]);
  assert.equal(candidates(0), [1]);
});

test('more threads are tried while they pay off', async () => {
  const found = await find({ 1: 10, 2: 19, 4: 30, 8: 29 });
  assert.is(found.threads, 4);
  assert.equal(found.tried, [1, 2, 4, 8]);
  assert.equal(found.measured, { 1: 10, 2: 19, 4: 30, 8: 29 });
});

test('one thread is kept when a second one makes it slower, and no third is tried', async () => {
  const found = await find({ 1: 1000, 2: 80, 4: 5000 });
  assert.is(found.threads, 1);
  assert.equal(found.tried, [1, 2]);
});

test('a measured number of threads is remembered for this model on this engine only', async () => {
  assert.is((await find({ 1: 10, 2: 20 })).threads, 2);
  assert.equal((await find({ 1: 10, 2: 1 })).tried, []);
  assert.is((await find({ 1: 10, 2: 1 })).threads, 2);
  assert.is((await find({ 1: 10, 2: 1 }, { modelKey: 'm 1 3' })).threads, 1);
  assert.is((await find({ 1: 10, 2: 1 }, { engineKey: 'f' })).threads, 1);
  assert.is((await find({ 1: 10, 2: 1 }, { available: 4 })).threads, 1);
});

for (const [what, text] of Object.entries({
  empty: '',
  'cut off': '{"threads": {"a',
  'another shape': '[1,2]',
  'hostile values': '{"threads":{"__proto__":{"x":1},"m":-4,"n":1e99,"o":"2"}}',
})) {
  test(`a file that is ${what} counts as empty and is written again`, async () => {
    writeFileSync(file, text);
    assert.is((await find({ 1: 10, 2: 20 })).threads, 2);
    assert.equal(Object.values(JSON.parse(readFileSync(file, 'utf8')).threads), [2]);
    assert.equal(readdirSync(folder), ['engine-threads.json']);
  });
}

test('beside other work nothing is measured or remembered, and the usual number counts', async () => {
  for (const [available, idle, threads] of [
    [2, 1.4, 2],
    [2, 0.3, 2],
    [4, 2.2, 4],
    [8, 7.4, 4],
    [9, 0, 5],
  ] as const) {
    const found = await find({ 1: 10 }, { idle: async () => idle, available });
    assert.equal([found.threads, found.tried], [threads, []]);
  }
  const free = await find({ 1: 10, 2: 19, 4: 30, 8: 31 }, { idle: async () => 7.6 });
  assert.equal([free.threads, free.tried], [4, [1, 2, 4, 8]]);
});

test('where a number is remembered, nothing is measured and the machine is not looked at', async () => {
  await find({ 1: 10, 2: 19, 4: 30, 8: 31 });
  const idle = async () => assert.unreachable('looked at') as never;
  const again = await find({}, { idle });
  assert.equal([again.threads, again.tried], [4, []]);
});

test('other work that begins during the measurement spoils it, so a later load measures', async () => {
  const speeds = { 1: 10, 2: 3 };
  const spoiled = await find(speeds, { use: useOf(2.2) });
  assert.equal([spoiled.threads, spoiled.tried], [4, [1, 2]]);
  const later = await find({ 1: 10, 2: 19, 4: 30, 8: 40 });
  assert.equal([later.threads, later.tried], [8, [1, 2, 4, 8]]);
  const known = await find(speeds, { use: useOf(2.2) });
  assert.equal([known.threads, known.tried], [8, []]);
});

function gainOf(alone: number, together: number, use = useOf(8), key = 'm') {
  const [one, several] = [async () => alone, async () => together];
  return findGain({ file, key, available: 8, use, alone: one, together: several });
}

test('a gain is measured once for what identifies it', async () => {
  assert.is(await gainOf(10, 25.04), 250);
  assert.is(await gainOf(10, 10), 250);
  assert.is(await gainOf(10, 10, useOf(8), 'n'), 100);
  assert.is(await gainOf(0, 0, useOf(8), 'nothing'), 1);
  const { batching } = JSON.parse(readFileSync(file, 'utf8'));
  assert.equal(batching, { m: 250, n: 100, nothing: 1 });
});

test('a gain that was measured beside other work counts once, and a quiet load keeps its own', async () => {
  assert.is(await gainOf(10, 8, useOf(7.4)), 80);
  assert.is(await gainOf(10, 12, useOf(0)), 120);
  assert.is(await gainOf(10, 30, useOf(7.6)), 300);
  assert.is(await gainOf(10, 8, useOf(0)), 300);
});

test('a gain is kept where the system does not say what its cores do', async () => {
  assert.is(await gainOf(10, 20, () => ({ cores: [], own: 0, at: 0 })), 200);
  assert.is(await gainOf(10, 10), 200);
});

test('a remembered number above the available one is measured again', async () => {
  await find({ 1: 1, 2: 2, 4: 4, 8: 8 });
  const text = readFileSync(file, 'utf8').replace(': 8', ': 99');
  writeFileSync(file, text);
  assert.is((await find({ 1: 10 })).threads, 1);
});

test('a read-only folder costs the memory, not the answer', async () => {
  assert.is(
    (await find({ 1: 10, 2: 20 }, { file: join(folder, 'missing', 'threads.json') })).threads,
    2,
  );
});

test('the file is bounded', async () => {
  for (let model = 0; model < 80; model += 1) await find({ 1: 10 }, { modelKey: `m ${model}` });
  const { threads } = JSON.parse(readFileSync(file, 'utf8'));
  assert.is(Object.keys(threads).length, 64);
  assert.ok(Object.keys(threads).at(-1)?.startsWith('m 79'));
});

test.run();
