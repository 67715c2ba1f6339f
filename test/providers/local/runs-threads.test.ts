import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { loadModel } from '../../../src/providers/local/engine/load.ts';
import { ATTENTION, type RunOrder } from '../../../src/providers/local/engine/messages.ts';
import { Runs } from '../../../src/providers/local/engine/runs.ts';
import type { FromEngine } from '../../../src/providers/local/from-engine.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';

/** The engine in the process of the test. Its model may use two threads. */

/** Of an answer. On a busy machine a token by two threads takes a hundred times as long. */
const TOKENS = 40;
const FEW = 10;

const folder = mkdtempSync(join(tmpdir(), 'svc-threads-now-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));

const loaded = await loadModel(
  {
    type: 'load',
    path: makeGguf(join(folder, 'made.gguf')),
    threads: 2,
    threads_file: join(folder, 'threads.json'),
    purpose: 'answers',
    gpu_layers: 0,
    parallel: 2,
    context_tokens: 512,
    batching: false,
    attention: ATTENTION,
    template_ms: 10_000,
  },
  () => true,
);
const now = { present: 2 };
const heard: FromEngine[] = [];
let onMessage = () => {};
const runs = new Runs({ ...loaded, threads: { alone: 2, wide: 2, now } }, (message) => {
  heard.push(message);
  onMessage();
});

let last = 0;
function start(max_tokens: number, resume: RunOrder['resume'] = null, text = 'Say it.'): number {
  last += 1;
  runs.start({
    type: 'run',
    id: last,
    client: `client ${last}`,
    max_tokens,
    temperature: 0,
    messages: [{ role: 'user', content: [{ type: 'text', text }] }],
    seed: 7,
    exact: true,
    only_count: false,
    options: { logprobs: 3 },
    call_key: 'a',
    resume,
  });
  return last;
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise<void>((resolve) => (onMessage = resolve));
}
const outputsOf = (id: number) =>
  heard.flatMap((message) => (message.type === 'output' && message.id === id ? [message] : []));
const isOver = (id: number) => () =>
  heard.some((message) => message.type === 'finished' && message.id === id);
const threadsOf = (id: number) => [...new Set(outputsOf(id).map(({ threads }) => threads))];

test('an answer says which threads compute it, and a busy machine gives it fewer', async () => {
  const free = start(FEW);
  await until(isOver(free));
  assert.equal(threadsOf(free), [2]);
  assert.is(loaded.decoder.threads, 2);
  now.present = 1;
  const busy = start(FEW);
  await until(isOver(busy));
  assert.equal(threadsOf(busy), [1]);
  assert.is(loaded.decoder.threads, 1);
});

test('the threads of an answer in progress do not change, whatever begins beside it', async () => {
  now.present = 1;
  const first = start(TOKENS);
  await until(() => outputsOf(first).length > 0);
  now.present = 2;
  const second = start(TOKENS);
  await until(isOver(second));
  await until(isOver(first));
  assert.equal([threadsOf(first), threadsOf(second)], [[1], [1]]);
});

test('an answer that continues has the threads that it had', async () => {
  now.present = 1;
  const resume = { token_ids: [], text: '', parts: [], batched: false, threads: 2 };
  const again = start(FEW, resume);
  await until(isOver(again));
  assert.equal(threadsOf(again), [2]);
  const elsewhere = start(FEW, { ...resume, threads: 16 });
  await until(isOver(elsewhere));
  assert.equal(threadsOf(elsewhere), [2], 'never more than the context has');
});

test('a prompt is computed with the threads that are free, and its answer is the same', async () => {
  const answers = [];
  for (const present of [1, 2]) {
    now.present = present;
    const resume = { token_ids: [], text: '', parts: [], batched: false, threads: 1 };
    const run = start(TOKENS, resume, 'Say it, and say it again. '.repeat(8));
    await until(isOver(run));
    assert.equal([loaded.decoder.threads, loaded.decoder.wideThreads()], [1, present]);
    answers.push(outputsOf(run).flatMap(({ logprobs }) => logprobs ?? []));
  }
  assert.is(answers[0]?.length, TOKENS);
  assert.equal(answers[0], answers[1]);
});

test.run();
