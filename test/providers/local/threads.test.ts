import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { candidates, findThreads } from '../../../src/providers/local/engine/measured/threads.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-threads-'));
const file = join(folder, 'engine-threads.json');
test.before.each(() => rmSync(file, { force: true }));
test.after(() => rmSync(folder, { recursive: true }));

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
