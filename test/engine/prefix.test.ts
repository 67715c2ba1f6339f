import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Message } from '../../src/contract/messages/parts.ts';
import { type LoadedModel, loadModel } from '../../src/engine/load.ts';
import { measureSpeed, ownClock } from '../../src/engine/measured/speed.ts';
import type { FromEngine } from '../../src/engine/protocol/from-engine.ts';
import { ATTENTION, type LoadOrder, type RunOrder } from '../../src/engine/protocol/messages.ts';
import { Runs } from '../../src/engine/runs.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';

/** The engine in the process of the test, so that it can count what llama.cpp computes. */

const folder = mkdtempSync(join(tmpdir(), 'svc-prefix-'));
const random = makeGguf(join(folder, 'random.gguf'), { context: 2048 });
const speaking = makeGguf(join(folder, 'speaking.gguf'), { context: 2048, says: ['o', 'k'] });
const BATCH = 128;
/** The token of `!` in the made models. Those before it may be spelled otherwise. */
const FIRST_CHARACTER = 261;
let ids = 0;

interface Engine {
  loaded: LoadedModel;
  ask(order: Partial<RunOrder>): Promise<Heard & { decoded: number; usage: Usage }>;
}
interface Heard {
  token_ids: number[];
  text: string;
  /** What was heard after each output. */
  cuts: { token_ids: number[]; text: string }[];
  prompt_parts?: readonly number[];
}
type Usage = Extract<FromEngine, { type: 'finished' }>['usage'];

test.after(() => rmSync(folder, { recursive: true, force: true }));

async function open(path: string, more: Partial<LoadOrder> = {}): Promise<Engine> {
  const order: LoadOrder = {
    type: 'load',
    path,
    threads: 1,
    threads_file: join(folder, 'threads.json'),
    purpose: 'answers',
    gpu_layers: 'auto',
    parallel: 2,
    context_tokens: 2048,
    batching: false,
    attention: ATTENTION,
    template_ms: 10_000,
    ...more,
  };
  const loaded = await loadModel(order, () => true);
  let hear: (message: FromEngine) => void = () => {};
  const runs = new Runs(loaded, (message) => hear(message));
  const computed = countTokens(loaded);
  const ask: Engine['ask'] = (changes) =>
    new Promise((done, fail) => {
      ids += 1;
      const before = computed();
      const heard: Heard = { token_ids: [], text: '', cuts: [] };
      hear = (message) => {
        if (message.type === 'output') {
          heard.token_ids.push(...message.token_ids);
          heard.text += message.text;
          heard.cuts.push({ token_ids: [...heard.token_ids], text: heard.text });
          if (message.prompt_parts !== undefined) heard.prompt_parts = message.prompt_parts;
        } else if (message.type === 'finished')
          done({ ...heard, decoded: computed() - before, usage: message.usage });
        else fail(new Error(JSON.stringify(message)));
      };
      runs.start({ ...NEW, id: ids, ...changes });
    });
  return { loaded, ask };
}

/** Counts the tokens that are computed. */
function countTokens({ decoder }: LoadedModel): () => number {
  const compute = decoder.compute.bind(decoder) as (...given: unknown[]) => Promise<never>;
  let count = 0;
  decoder.compute = (...given: [unknown, unknown, readonly unknown[], unknown]) => {
    count += given[2].length;
    return compute(...given);
  };
  return () => count;
}

const said = (role: Message['role'], text: string): Message =>
  ({ role, content: [{ type: 'text', text }] }) as Message;
const LONG = Array.from({ length: 40 }, (_, at) => `sentence ${at}`).join('. ');
const FIRST = [said('user', LONG)];
const NEW: RunOrder = {
  type: 'run',
  id: 0,
  client: 'me',
  messages: FIRST,
  max_tokens: 1,
  temperature: 0,
  seed: 7,
  exact: false,
  only_count: false,
  options: {},
  call_key: 'a',
  resume: null,
};
const next = (answer: string, ask = 'and then?') => [
  ...FIRST,
  said('assistant', answer),
  said('user', ask),
];

test('the second turn of a conversation computes the whole batches of the first no more', async () => {
  const engine = await open(random);
  const first = await engine.ask({});
  assert.is(first.decoded, first.usage.input_tokens);
  assert.is(first.usage.cached_tokens, undefined);
  const second = await engine.ask({ messages: next('yes') });
  const whole = Math.floor(((first.usage.input_tokens ?? 0) - 1) / BATCH) * BATCH;
  assert.ok(whole >= 2 * BATCH);
  assert.is(second.usage.cached_tokens, whole);
  assert.is(second.decoded, (second.usage.input_tokens ?? 0) - whole);
  const third = await engine.ask({ messages: [...next('yes'), said('assistant', 'so'), ...FIRST] });
  assert.ok((third.usage.cached_tokens ?? 0) >= whole);
});

test('a sampled answer has the same tokens with and without the earlier turn', async () => {
  const [warm, cold] = [await open(random), await open(random)];
  for (const seed of [1, 2, 3, 4]) {
    const order = { messages: next(`answer ${seed}`), seed, temperature: 1.2, max_tokens: 60 };
    await warm.ask({ max_tokens: 20, temperature: 1, seed });
    const [kept, fresh] = [await warm.ask(order), await cold.ask({ ...order, client: `${seed}` })];
    assert.ok((kept.usage.cached_tokens ?? 0) > 0);
    assert.is(fresh.usage.cached_tokens, undefined);
    assert.equal(kept.token_ids, fresh.token_ids, `seed ${seed}`);
  }
});

test('runs that are computed together keep the answer too: the next turn computes only what is new', async () => {
  const engine = await open(speaking, { batching: true });
  const first = await engine.ask({ max_tokens: 10 });
  assert.is(first.text, 'ok');
  const second = await engine.ask({ messages: next('ok') });
  const kept = (first.usage.input_tokens ?? 0) + 2;
  assert.is(second.usage.cached_tokens, kept);
  assert.is(second.decoded, (second.usage.input_tokens ?? 0) - kept);
});

test('the next turn reuses an answer that was computed alone, and continues exactly after a cut', async () => {
  const alone = { parallel: 1, batching: 'auto' } as const;
  const [warm, cold] = [await open(random, alone), await open(random, alone)];
  let continued = 0;
  // A sampled answer is reused as far as its text has the same tokens.
  for (let seed = 34; continued < 2 && seed < 90; seed += 1) {
    const of = { client: `${seed}`, seed, temperature: 1.2 };
    const first = await warm.ask({ ...of, max_tokens: 12 });
    if ((first.token_ids[0] ?? 0) < FIRST_CHARACTER) continue;
    const order = { ...of, messages: next(first.text), max_tokens: 60 };
    const prompt = first.usage.input_tokens ?? 0;
    const second = await warm.ask(order);
    if ((second.usage.cached_tokens ?? 0) <= prompt) continue;
    continued += 1;
    const { prompt_parts = [] } = second;
    assert.equal(prompt_parts.slice(0, 2), [prompt, (second.usage.cached_tokens ?? 0) - prompt]);
    assert.is(
      prompt_parts.reduce((sum, part) => sum + part),
      second.usage.input_tokens,
    );
    const cut = second.cuts[Math.floor(second.cuts.length / 2)];
    assert.ok(cut !== undefined);
    const resume = { ...cut, parts: [], batched: false, threads: 1, prompt_parts };
    const rest = await cold.ask({ ...order, exact: true, resume });
    assert.equal([...cut.token_ids, ...rest.token_ids], second.token_ids, `seed ${seed}`);
    const asked = await warm.ask({ ...order, exact: true });
    assert.is(asked.usage.cached_tokens, Math.floor(prompt / BATCH) * BATCH);
    const { input_tokens } = asked.usage;
    assert.equal(asked.prompt_parts, [input_tokens], 'an answer with a seed is asked for again');
  }
  assert.is(continued, 2);
  const wrong = { token_ids: [], text: '', parts: [], batched: false, threads: 1 };
  const refused = await cold
    .ask({ exact: true, resume: { ...wrong, prompt_parts: [1, 2] } })
    .catch(String);
  assert.match(String(refused), 'resume_failed');
});

test('the gain of batches is measured in CPU time, which other work does not change', async () => {
  const { model } = (await open(random)).loaded;
  const measured = (answers: number, times: number[]) => {
    const clock = () => times.shift() ?? 0;
    return measureSpeed(model, { answers, threads: 1, limitMs: 600_000, clock });
  };
  assert.is(await measured(1, [5, 15]), 6400, '64 tokens in 10 ms');
  assert.is(await measured(4, [5, 5, 5, 5, 15, 15, 15, 15]), 4 * 6400);
  const cpuMs = () => (process.cpuUsage().user + process.cpuUsage().system) / 1000;
  const [from, at, to] = [cpuMs(), ownClock(model)(), cpuMs()];
  assert.ok(from <= at && at <= to);
});

test('each recent conversation keeps its sequence, and the one left first is dropped', async () => {
  const engine = await open(random);
  const other = (name: string) => [said('user', `${name}: ${LONG}`)];
  const cached = async (name: string) =>
    (await engine.ask({ messages: other(name) })).usage.cached_tokens ?? 0;
  assert.is(await cached('a'), 0);
  assert.is(await cached('b'), 0);
  assert.ok((await cached('a')) > 0);
  assert.ok((await cached('b')) > 0);
  assert.is(await cached('c'), 0);
  assert.ok((await cached('b')) > 0, 'b was used after a');
  assert.is(await cached('a'), 0);
});

test('nothing that one client asked is reused for another', async () => {
  const engine = await open(random);
  await engine.ask({ client: 'one' });
  assert.is((await engine.ask({ client: 'two' })).usage.cached_tokens, undefined);
});

test('an earlier prompt that is asked again, or only begins alike, is answered as the first time', async () => {
  const engine = await open(random);
  const first = await engine.ask({ max_tokens: 30 });
  const shorter = await engine.ask({
    messages: [said('user', LONG.slice(0, 150))],
    max_tokens: 30,
  });
  assert.equal((await engine.ask({ max_tokens: 30 })).token_ids, first.token_ids);
  const fresh = await open(random);
  const alone = await fresh.ask({ messages: [said('user', LONG.slice(0, 150))], max_tokens: 30 });
  assert.equal(shorter.token_ids, alone.token_ids);
});

test.run();
