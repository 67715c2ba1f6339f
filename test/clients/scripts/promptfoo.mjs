import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { attempt, expect, SVC_EMBEDDING_ID, SVC_MODEL_ID, SVC_TOKEN, SVC_URL } from './cases.mjs';
import { run } from './programs.mjs';

const OFF = { PROMPTFOO_DISABLE_TELEMETRY: '1', PROMPTFOO_DISABLE_UPDATE: '1' };
// Its provider for Ollama sends no header of ours, so the token is in the address.
const env = {
  ...OFF,
  PROMPTFOO_CONFIG_DIR: resolve('state'),
  OLLAMA_BASE_URL: `${SVC_URL}/t/${SVC_TOKEN}`,
};
const openai = { apiBaseUrl: `${SVC_URL}/v1`, apiKey: SVC_TOKEN };
const vectors = { id: `openai:embedding:${SVC_EMBEDDING_ID}`, config: openai };
const PROVIDERS = {
  chat: { id: `openai:chat:${SVC_MODEL_ID}`, config: openai },
  responses: { id: `openai:responses:${SVC_MODEL_ID}`, config: openai },
  completion: { id: `openai:completion:${SVC_MODEL_ID}`, config: openai },
  anthropic: {
    id: `anthropic:messages:${SVC_MODEL_ID}`,
    config: { apiBaseUrl: SVC_URL, apiKey: SVC_TOKEN },
  },
  ollama: { id: `ollama:chat:${SVC_MODEL_ID}` },
};

/** The results of one evaluation. A failed assertion is a result, with the exit status 100. */
async function evaluate(name, provider, tests) {
  const [config, output] = [resolve(`${name}.json`), resolve(`${name}.out.json`)];
  writeFileSync(config, JSON.stringify({ prompts: ['{{say}}'], providers: [provider], tests }));
  const args = ['eval', '-c', config, '-o', output, '--no-cache', '--no-progress-bar', '-j', '2'];
  await run(process.execPath, [resolve('node_modules/.bin/promptfoo'), ...args], { env }).catch(
    ({ message }) => {
      if (!message.startsWith('it ended with 100')) throw new Error(message);
    },
  );
  return JSON.parse(readFileSync(output, 'utf8')).results.results;
}

for (const [name, provider] of Object.entries(PROVIDERS))
  await attempt(`${name}: assertions about two answers`, async () => {
    const equals = (value) => ({
      vars: { say: value },
      assert: [{ type: 'equals', value: `You said: ${value}` }],
    });
    const results = await evaluate(name, provider, [equals('hello there'), equals('one two')]);
    expect(
      results.map(({ success, error }) => [success, error ?? null]),
      [
        [true, null],
        [true, null],
      ],
    );
  });

await attempt('chat: JSON by a schema', async () => {
  const properties = { city: { type: 'string' }, people: { type: 'integer' } };
  const schema = { type: 'object', properties, additionalProperties: false };
  const json_schema = { name: 'place', strict: true, schema };
  const config = { ...openai, response_format: { type: 'json_schema', json_schema } };
  const [{ success }] = await evaluate('schema', { ...PROVIDERS.chat, config }, [
    { vars: { say: '7 people' }, assert: [{ type: 'is-json', value: schema }] },
  ]);
  expect(success, true);
});
await attempt('similar, by embeddings', async () => {
  const similar = (value) => ({
    vars: { say: 'hello there' },
    assert: [{ type: 'similar', value, threshold: 0.999, provider: vectors }],
  });
  const tests = [similar('You said: hello there'), similar('something else')];
  const results = await evaluate('similar', PROVIDERS.chat, tests);
  expect(
    results.map(({ success }) => success),
    [true, false],
  );
});
await attempt('an unknown model says so', async () => {
  const provider = { id: 'openai:chat:up/none', config: openai };
  const [{ error }] = await evaluate('unknown', provider, [{ vars: { say: 'x' } }]);
  expect(error.includes('does not have the model'), true, error);
});
