import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { loadModel } from '../../src/engine/load.ts';
import type { FromEngine } from '../../src/engine/protocol/from-engine.ts';
import { ATTENTION, type RunOrder } from '../../src/engine/protocol/messages.ts';
import { Runs } from '../../src/engine/runs.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';

/** The engine in the process of the test. Its model may use two threads. */

/** Of an answer. */
const TOKENS = 40;
const FEW = 10;

const folder = mkdtempSync(join(tmpdir(), 'svc-threads-'));
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
const heard: FromEngine[] = [];
let onMessage = () => {};
const runs = new Runs(loaded, (message) => {
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

test('an answer says which threads compute it', async () => {
  const run = start(FEW);
  await until(isOver(run));
  assert.equal(threadsOf(run), [2]);
  assert.equal(
    [loaded.decoder.threads, loaded.decoder.wide(8), loaded.decoder.wide(512)],
    [2, 2, 2],
  );
});

test('an answer that continues has the threads that it had', async () => {
  const resume = { token_ids: [], text: '', parts: [], batched: false, threads: 1 };
  const again = start(FEW, resume);
  await until(isOver(again));
  assert.equal(threadsOf(again), [1]);
  const elsewhere = start(FEW, { ...resume, threads: 16 });
  await until(isOver(elsewhere));
  assert.equal(threadsOf(elsewhere), [2], 'never more than the context has');
});

test('the threads of an answer in progress do not change, whatever begins beside it', async () => {
  const resume = { token_ids: [], text: '', parts: [], batched: false, threads: 1 };
  const first = start(TOKENS, resume);
  await until(() => outputsOf(first).length > 0);
  const second = start(TOKENS);
  await until(isOver(second));
  await until(isOver(first));
  assert.equal([threadsOf(first), threadsOf(second)], [[1], [1]]);
});

test.run();
