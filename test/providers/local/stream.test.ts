import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CHATML, makeGguf } from '../../fixtures/models/make-gguf.ts';
import type { Asking } from '../../helpers/asking.ts';
import { failure } from '../../helpers/failure.ts';
import {
  type LocalHarness,
  makeLocalProvider,
  readAnswer,
  runRequest,
  type WholeAnswer,
} from '../../helpers/local-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

/**
 * The weights are random: an answer is gibberish, depends on its prompt and does not end by itself.
 */
let local: LocalHarness;
const PROMPTS = ['one', 'two three', 'a longer question, with more words', 'é😀', '4'];

test.before(() => {
  local = makeLocalProvider({
    model: 'random',
    limits: { local_runs: 4, provider_runs: 6, local_engines: 1, output_tokens: 50 },
  });
  makeGguf(join(local.folder, 'random.gguf'), { context: 4096 });
});
test.after(() => local.close());

const ask = (
  changes: Asking = {},
  signal?: AbortSignal,
  heard?: WholeAnswer,
): Promise<WholeAnswer> => readAnswer(local, { model: 'random', ...changes }, signal, heard);
const LONG = runRequest({ model: 'random', prompt: 'go', max_tokens: 4000 });
const nothing = (): WholeAnswer => ({ text: '', token_ids: [], parts: [], finish: null });
const allBegun = (heard: WholeAnswer[]) =>
  waitFor('each answer has begun', () => heard.every(({ parts }) => parts.length > 0), {
    every_ms: 1,
  });

test('an answer comes in parts and ends with one finish and exact counts', async () => {
  const heard = await ask({ max_tokens: 240 });
  assert.is(heard.finish?.finish_reason, 'length');
  assert.is(heard.finish, heard.parts.at(-1));
  assert.is(heard.token_ids.length, 240);
  assert.is(heard.finish?.usage.output_tokens, 240);
  assert.ok((heard.finish?.tokens_per_second ?? 0) > 0);
  assert.ok((heard.finish?.usage.input_tokens ?? 0) > 10);
  assert.ok(
    heard.parts.length > 3 && heard.parts.length < 240,
    `${heard.parts.length} parts for 240 tokens`,
  );
});

test('the tokens of a prompt are counted without an answer, also while all sequences compute', async () => {
  const heard = await ask({ prompt: 'How many tokens?', max_tokens: 1 });
  const stop = new AbortController();
  const begun = [nothing(), nothing(), nothing(), nothing()];
  const busy = begun.map((one) => ask(LONG, stop.signal, one));
  try {
    await allBegun(begun);
    const count = (prompt: string) =>
      local.provider.countTokens?.(
        runRequest({ model: 'random', prompt }),
        new AbortController().signal,
      );
    assert.is(await count('How many tokens?'), heard.finish?.usage.input_tokens);
    assert.ok(((await count('x'.repeat(5000))) ?? 0) > 5000, 'also more than the context has');
  } finally {
    stop.abort();
    await Promise.all(busy);
  }
});

test('without a number of tokens in the request the configured limit applies', async () => {
  assert.is((await ask({ max_tokens: null })).token_ids.length, 50);
});

test('a greedy answer is always the same, alone or with others', async () => {
  const alone: string[] = [];
  for (const prompt of PROMPTS) alone.push((await ask({ prompt, max_tokens: 60 })).text);
  const together = await Promise.all(PROMPTS.map((prompt) => ask({ prompt, max_tokens: 60 })));
  assert.equal(
    together.map(({ text }) => text),
    alone,
  );
  assert.is(new Set(alone).size, PROMPTS.length);
});

test('a sampled answer is the same for the same seed and differs for another', async () => {
  const drawn = (seed: number) =>
    ask({ seed, temperature: 0.9, max_tokens: 80 }).then(({ token_ids }) => token_ids);
  const first = await drawn(5);
  assert.equal(await drawn(5), first);
  assert.not.equal(await drawn(6), first);
  const greedy = (await ask({ max_tokens: 80 })).token_ids;
  assert.not.equal(first, greedy);
  assert.not.equal(
    (await ask({ temperature: null, max_tokens: 80 })).token_ids,
    greedy,
    'a model that is not built in draws by itself',
  );
});

test('a sampled answer is the same alone and next to others, whatever the others do', async () => {
  makeGguf(join(local.folder, 'wide.gguf'), { context: 1024, width: 192, layers: 8 });
  const drawn = (seed: number) =>
    ask({ model: 'wide', prompt: `question ${seed}`, seed, temperature: 0.8, max_tokens: 40 }).then(
      ({ token_ids }) => token_ids,
    );
  const alone: number[][] = [];
  for (const seed of [1, 2, 3, 4]) alone.push(await drawn(seed));
  assert.equal(await Promise.all([1, 2, 3, 4].map(drawn)), alone);
  assert.equal(await Promise.all([4, 2].map(drawn)), [alone[3], alone[1]]);
});

test('system text changes the answer', async () => {
  assert.is.not((await ask({ system: 'You are terse.' })).text, (await ask()).text);
});

test('a prompt that leaves no room for an answer is refused with its size, never cut', async () => {
  const { finish } = await ask({ prompt: 'x', max_tokens: 1 });
  const overhead = (finish?.usage.input_tokens ?? 0) - 1;
  const fits = await ask({ prompt: 'x'.repeat(4095 - overhead), max_tokens: 10 });
  assert.equal(fits.finish, {
    type: 'finish',
    finish_reason: 'length',
    usage: { input_tokens: 4095, output_tokens: 1 },
  });
  const refused = await failure(ask({ prompt: 'x'.repeat(4096 - overhead) }));
  assert.is(refused.code, 'context_length_exceeded');
  assert.is(refused.retryable, false);
  assert.match(refused.message, '4096 tokens');
  const far = await failure(ask({ prompt: 'x'.repeat(3_000_000) }));
  assert.is(far.code, 'context_length_exceeded');
  assert.is((await ask({ max_tokens: 5 })).token_ids.length, 5);
});

test('an answer that fills the context ends there', async () => {
  const { finish } = await ask({ prompt: 'y'.repeat(4000), max_tokens: 1_000_000 });
  const { input_tokens, output_tokens } = finish?.usage ?? {};
  assert.is((input_tokens ?? 0) + (output_tokens ?? 0), 4096);
});

test('an abort while decoding ends the stream without a finish, after the work has stopped', async () => {
  const abort = new AbortController();
  const stream = local.provider.stream(
    { run_id: 'run_a', attempt: 1, request: LONG, resume: null },
    abort.signal,
  );
  let tokens = 0;
  let finished = false;
  for await (const part of stream) {
    if (part.type === 'finish') finished = true;
    else tokens += part.token_ids.length;
    abort.abort();
  }
  assert.not(finished);
  assert.ok(tokens > 0 && tokens < 4000, `${tokens} tokens`);
  await waitFor('the machine knows', () => local.state() === 'warm.idle');
});

test('a reader that leaves early stops the work', async () => {
  const stream = local.provider.stream(
    { run_id: 'run_b', attempt: 1, request: LONG, resume: null },
    new AbortController().signal,
  );
  for await (const _ of stream) break;
  await waitFor('the machine knows', () => local.state() === 'warm.idle');
});

test('an abort while the prompt is read ends the stream without output', async () => {
  const abort = new AbortController();
  const heard = ask({ prompt: 'z'.repeat(4000), max_tokens: 5 }, abort.signal);
  await waitFor('the work has begun', () => local.state() === 'warm.busy', { every_ms: 1 });
  abort.abort();
  assert.is((await heard).finish, null);
  await waitFor('the machine knows', () => local.state() === 'warm.idle');
});

test('a run that waits for a place in the context can be aborted, and the others continue', async () => {
  const [first, last] = [new AbortController(), new AbortController()];
  const heard = [nothing(), nothing(), nothing(), nothing()];
  const running = heard.map((one, seed) =>
    ask({ seed, prompt: `long ${seed}`, max_tokens: 3000 }, first.signal, one),
  );
  try {
    await allBegun(heard);
    const waiting = ask({ max_tokens: 10 }, last.signal);
    const next = ask({ max_tokens: 10 });
    const refused = await failure(ask());
    assert.is(refused.code, 'provider_busy');
    assert.ok(refused.retryable);
    const ordered = () => local.models.loaded(Date.now()).models.some(({ runs }) => runs === 6);
    await waitFor('the engine has all orders', ordered, { every_ms: 1 });
    last.abort();
    const { parts } = await waiting;
    assert.equal(parts, []);
    first.abort();
    for (const { finish } of await Promise.all(running)) assert.is(finish, null);
    assert.is((await next).token_ids.length, 10);
  } finally {
    first.abort();
    await Promise.allSettled(running);
  }
});

test('a run that starts while others are busy is answered next to them', async () => {
  for (let round = 0; round < 2; round += 1) {
    const abort = new AbortController();
    const heard = [nothing(), nothing()];
    const running = heard.map((one, at) =>
      ask({ prompt: `long ${at}`, max_tokens: 3900 }, abort.signal, one),
    );
    try {
      await allBegun(heard);
      assert.is((await ask({ max_tokens: 10 })).token_ids.length, 10);
      assert.equal(
        heard.map(({ finish }) => finish),
        [null, null],
      );
    } finally {
      abort.abort();
    }
    for (const { finish } of await Promise.all(running)) assert.is(finish, null);
  }
});

test('an aborted signal starts no work', async () => {
  await waitFor('the engine is idle', () => local.state() === 'warm.idle');
  const events = local.engine.events.length;
  const thrown = await ask({}, AbortSignal.abort(new Error('no'))).catch(
    (error: Error) => error.message,
  );
  assert.is(thrown, 'no');
  assert.is(local.engine.events.length, events);
});

test('a control token spelled out in a prompt stays text', async () => {
  const count = async (prompt: string) =>
    (await ask({ prompt, max_tokens: 1 })).finish?.usage.input_tokens ?? 0;
  const one = await count('x');
  assert.is(await count('x<|im_end|>'), one + '<|im_end|>'.length);
});

test('a character split over tokens arrives whole, and the model ends its answer by itself', async () => {
  makeGguf(join(local.folder, 'says.gguf'), { says: ['H', 'i', ' ', 0xf0, 0x9f, 0x98, 0x80, '!'] });
  const heard = await ask({ model: 'says' });
  assert.is(heard.text, 'Hi 😀!');
  assert.is(heard.token_ids.length, 8);
  assert.is(heard.finish?.finish_reason, 'stop');
  for (const part of heard.parts) if (part.type === 'output') assert.not.match(part.text, '\ufffd');
  const cut = await ask({ model: 'says', max_tokens: 5 });
  assert.is(cut.text, 'Hi ');
});

test('the template of the model file is used, and text cannot forge its control tokens either', async () => {
  const template =
    "{% for m in messages %}[{{m['role']}}] {{m['content']}}<|im_end|>\n{% endfor %}";
  makeGguf(join(local.folder, 'jinja.gguf'), { template, name: 'jinja' });
  const first = await ask({ model: 'jinja', prompt: 'x', max_tokens: 1 });
  assert.is(local.engine.snapshot().context.info?.chat_template, 'file');
  const second = await ask({ model: 'jinja', prompt: 'x<|im_end|>', max_tokens: 1 });
  assert.is(
    second.finish?.usage.input_tokens,
    (first.finish?.usage.input_tokens ?? 0) + '<|im_end|>'.length,
  );
});

test('an answer that the model is sure of passes the confidence filter, an unsure one is replaced', async () => {
  const gate = (minimum: number): [string, 'uint32' | 'float32' | 'string', number | string][] => [
    ['svc.confidence.tokens', 'uint32', 4],
    ['svc.confidence.minimum', 'float32', minimum],
    ['svc.confidence.fallback', 'string', 'Not sure.'],
  ];
  makeGguf(join(local.folder, 'sure.gguf'), {
    says: [...'Yes!'],
    template: CHATML,
    metadata: gate(0.5),
  });
  assert.is((await ask({ model: 'sure' })).text, 'Yes!');
  assert.is((await ask({ model: 'sure', max_tokens: 2 })).text, 'Ye');
  makeGguf(join(local.folder, 'unsure.gguf'), { metadata: gate(0.9999) });
  const declined = await ask({ model: 'unsure' });
  assert.is(declined.text, 'Not sure.');
  assert.equal(declined.finish?.usage.output_tokens, declined.token_ids.length);
  assert.is(declined.finish?.finish_reason, 'stop');
  assert.is((await ask({ model: 'unsure', max_tokens: 3 })).text, 'Not');
});

test.run();
