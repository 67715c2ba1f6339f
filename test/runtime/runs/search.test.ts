import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunInput } from '../../../src/contract/contract.ts';
import { searchRuns, termsOf } from '../../../src/runtime/runs/search.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { codeOf, waitFor } from '../../helpers/wait.ts';

async function boot() {
  const local = new ScriptedProvider('local', [output('An answer with a socket.'), finish()]);
  const { runtime } = await bootRuntime({ local });
  const ask = async (input: RunInput) => {
    const { id } = await runtime.runs.start(input, 'test');
    await waitFor('the run ends', async () => (await runtime.runs.head(id)).finished);
    return id;
  };
  return { runtime, ask };
}

test('words and phrases are terms; punctuation alone is not', () => {
  assert.equal(termsOf('one "two three" fo* - "!"'), ['one', 'two three', 'fo*']);
  assert.equal(termsOf('say "hi'), ['say', 'hi']);
});

test('runs are found by prompt and answer, page by page', async () => {
  const { runtime, ask } = await boot();
  const ids: string[] = [];
  for (const prompt of ['one daemon', 'two', 'three daemon'])
    ids.push(await ask({ prompt, system: 'hidden' }));
  const [one, , three] = ids;
  const first = await runtime.runs.search({ words: 'daemon socket', limit: 1 });
  assert.equal([first.runs.map(({ id }) => id), first.next], [[three], three]);
  const second = await runtime.runs.search({ words: 'daemon', limit: 1, before: three ?? '' });
  assert.equal([second.runs.map(({ id }) => id), second.next], [[one], null]);
  const [{ snippet = '', matches = [] } = {}] = first.runs;
  assert.equal(matches.map(([from, to]) => snippet.slice(from, to)).slice(0, 1), [
    snippet.includes('daemon') ? 'daemon' : 'socket',
  ]);
  for (const words of ['-', '" "', 'x '.repeat(40)])
    assert.is(await codeOf(runtime.runs.search({ words })), 'invalid_request', words);
  const nowhere = runtime.runs.search({ words: 'daemon', before: 'run_x' });
  assert.is(await codeOf(nowhere), 'invalid_request');
});

test('a page names the runs that the log cannot read, and how many it has no words of', async () => {
  const row = { run_id: 'run_1', state: 'completed', created_at: 1000 };
  const damage = { run_id: 'run_2', damage: 'Event 7 is damaged.' };
  const page = async (rows: object[], unindexed: number) => {
    const store = { searchRuns: async () => rows, unindexedRuns: async () => unindexed };
    return searchRuns(store as never, { words: 'a', limit: 2 }, { page_runs: 9 });
  };
  const run = { id: 'run_1', state: 'completed', created_at: '1970-01-01T00:00:01.000Z' };
  assert.equal(await page([row], 0), { runs: [run], next: null });
  assert.equal(await page([row, damage, row], 3), {
    runs: [run],
    next: 'run_2',
    damaged: [{ id: 'run_2', message: 'Event 7 is damaged.' }],
    unindexed: 3,
  });
});

test('a run with later turns is not removed before them', async () => {
  const { runtime, ask } = await boot();
  const first = await ask({ prompt: 'the secret' });
  const second = await ask({ prompt: 'and?', conversation: first });
  assert.is(await codeOf(runtime.runs.remove(first)), 'run_continued');
  assert.is((await runtime.runs.get(first)).prompt, 'the secret');
  await runtime.runs.remove(second);
  await runtime.runs.remove(first);
  assert.equal((await runtime.runs.search({ words: 'secret' })).runs, []);
});

test('a turn that begins while the run before it is removed repeats none of its texts', async () => {
  const { runtime, ask } = await boot();
  const first = await ask({ prompt: 'the secret' });
  const [removed, turn] = await Promise.allSettled([
    runtime.runs.remove(first),
    runtime.runs.start({ prompt: 'and?', conversation: first }, 'test'),
  ]);
  assert.equal([removed.status, turn.status].sort(), ['fulfilled', 'rejected']);
});

test.run();
