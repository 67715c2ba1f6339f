import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Asker, openAsker } from '../../eval/ask.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../../helpers/local-provider.ts';

const PROMPTS = [
  'How do I start the daemon?',
  'how can i see the last 20 log lines',
  'What is the capital of France?',
  'stop it',
  'write me a poem about the sea',
  'zxq blorf wibble?',
  'Which providers are there?',
  'naïve café, 日本語? 😀',
  'How much is 17 times 23',
  'which exit code means that it is busy',
];

let local: LocalHarness;
let asker: Asker;
test.before(async () => {
  local = makeLocalProvider();
  asker = await openAsker();
});
test.after(async () => {
  await asker.close();
  await local.close();
});

test('the built-in model called directly answers as llama.cpp does, or says that it is not sure', async () => {
  const heard = await Promise.all(
    PROMPTS.map((prompt) => readAnswer(local, { prompt, temperature: null, max_tokens: 160 })),
  );
  for (const [at, prompt] of PROMPTS.entries()) {
    const direct = await asker.ask(prompt);
    const sure = direct.confidence >= asker.rule.minimum;
    assert.is(heard[at]?.text, sure ? direct.text : asker.fallback, prompt);
    if (sure)
      assert.equal(heard[at]?.token_ids, direct.ended ? direct.tokens.slice(0, -1) : direct.tokens);
  }
});

test('the built-in model says that it is not sure about a text longer than a question', async () => {
  const prompt = `Summarize this: ${'The economy grew by two percent as exports rose. '.repeat(12)}`;
  const asked = { prompt, temperature: null, max_tokens: 160 };
  const { text, finish } = await readAnswer(local, asked);
  assert.is(text, asker.fallback);
  assert.is(finish?.finish_reason, 'stop');
});

test('without a temperature the built-in model does not sample', async () => {
  const [first, second] = await Promise.all(
    [1, 2].map((seed) =>
      readAnswer(local, { prompt: 'How do I stop it?', temperature: null, seed }),
    ),
  );
  assert.is(first?.text, second?.text);
});

test('the built-in model has one thread, and none is measured', async () => {
  const local = makeLocalProvider({ threads: null });
  await local.warm();
  assert.is(local.engine.snapshot().context.info?.threads, 1);
  assert.not(existsSync(join(local.folder, 'engine-threads.json')));
  await local.close();
});

test.run();
