import { Ajv2020 } from 'ajv/dist/2020.js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { CACHE, testModel } from '../../../tools/test-models/models.ts';
import {
  type LocalHarness,
  makeLocalProvider,
  partsOf,
  readAnswer,
} from '../../helpers/local-provider.ts';
import { TOOL_LIST } from '../../helpers/made-models.ts';

/** What made models cannot show: a template, a vocabulary and weights that users have. */

const names = ['smollm2', 'gemma'] as const;
const test = suite<{ local: LocalHarness }>('real models');
const absent = names.filter((name) => testModel(name) === null);
const here = absent.length === 0 ? test : test.skip;
if (absent.length > 0) console.log('skipped: no models of npm run test-models');

test.before((context) => {
  context.local = makeLocalProvider({ models: CACHE, model: 'smollm2' });
});
test.after(({ local }) => local.close());

const PERSON = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 2, maxLength: 12 },
    age: { type: 'integer', minimum: 0, maximum: 120 },
    role: { enum: ['reader', 'writer'] },
    nick: { type: 'string', maxLength: 8 },
  },
  required: ['name', 'age', 'role'],
  additionalProperties: false,
};

here('SmolLM2 is asked with its template, which has a system message', async ({ local }) => {
  const tokens = async (asking: object) =>
    (await readAnswer(local, { model: 'smollm2', max_tokens: 1, ...asking })).finish?.usage
      .input_tokens;
  assert.is(await tokens({ prompt: 'Hello' }), 31);
  assert.is(await tokens({ prompt: 'Hello', system: 'Hello' }), 16);
  assert.is(await tokens({ prompt: 'Hello', raw: true }), 1);
});

here('a base model goes on with the text as it is', async ({ local }) => {
  const asking = { model: 'gemma', prompt: 'The sky is', max_tokens: 8 };
  const answers = [];
  for (const raw of [false, true]) answers.push(await readAnswer(local, { ...asking, raw }));
  const [plain, raw] = answers;
  assert.is(plain?.finish?.usage.input_tokens, 4);
  assert.equal(plain?.token_ids, raw?.token_ids);
});

here('a model with a window computes an earlier prompt no more', async ({ local }) => {
  const prompt = Array.from({ length: 40 }, (_, at) => `Sentence ${at} is here.`).join(' ');
  const asking = { model: 'gemma', prompt, max_tokens: 4, temperature: 0 };
  const first = await readAnswer(local, asking);
  const again = await readAnswer(local, asking);
  assert.equal(again.token_ids, first.token_ids);
  const { input_tokens, cached_tokens = 0 } = again.finish?.usage ?? {};
  assert.ok(cached_tokens >= 128, `${cached_tokens} of ${input_tokens}`);
});

here('an answer has the form that its schema says, whatever the seed', async ({ local }) => {
  const valid = new Ajv2020().compile(PERSON);
  for (const model of names)
    for (const seed of model === 'gemma' ? [1] : [1, 2, 3]) {
      const { text } = await readAnswer(local, {
        model,
        prompt: 'Write one person as JSON.',
        response_format: { type: 'json', name: null, schema: PERSON },
        temperature: 1,
        max_tokens: 200,
        seed,
      });
      assert.ok(valid(JSON.parse(text)), `${model} ${seed}: ${text}`);
    }
});

here('a model whose template has no tools calls one that is required', async ({ local }) => {
  const asking = { model: 'smollm2', prompt: 'What is the weather in Paris?', tools: TOOL_LIST };
  const answer = await readAnswer(local, {
    ...asking,
    tool_choice: { name: 'weather' },
    max_tokens: 80,
  });
  const [call] = partsOf(answer);
  assert.ok(call?.type === 'tool_call' && call.name === 'weather');
  assert.type(JSON.parse(call.arguments).city, 'string');
  assert.is(answer.finish?.tool_form, 'generic');
});

test.run();
