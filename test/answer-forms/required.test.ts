import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CALLS } from '../../src/answer-forms/calls.ts';
import type { CallRow } from '../../src/answer-forms/form.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import {
  type LocalHarness,
  makeLocalProvider,
  partsOf,
  readAnswer,
} from '../helpers/local-provider.ts';

/** Calls in the forms of families, which llama.cpp forces on random weights. */

const template = (marks: string) =>
  [
    `{# ${marks} #}{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}`,
    '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}',
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}',
  ].join('');
const parameters = {
  type: 'object',
  properties: {
    city: { enum: ['Oslo', 'Paris'] },
    days: { type: 'integer', minimum: 1, maximum: 7 },
  },
  required: ['days'],
  additionalProperties: false,
};
const tools = [{ name: 'weather', description: 'The weather.', parameters }];
const isValid = new Ajv2020().compile(parameters);

const FORMS = [
  'Qwen3-Coder',
  'GLM 4.7',
  'gpt-oss',
  'Gemma 4',
  'LFM2',
  'Mistral Small 3.2',
  'DeepSeek R1',
];
const rowOfForm = (form: string) =>
  CALLS.find(({ families }) => families.startsWith(form)) as CallRow;

let local: LocalHarness;
test.before(() => {
  local = makeLocalProvider({ model: 'random0' });
  for (const [at, form] of FORMS.entries()) {
    const row = rowOfForm(form);
    const source = template(row.marks.flat().join(' '));
    makeGguf(join(local.folder, `random${at}.gguf`), { context: 2048, template: source });
  }
});
test.after(() => local.close());

for (const [at, form] of FORMS.entries())
  test(`random weights write a valid call in the form of ${form} if they must`, async () => {
    let valid = 0;
    for (const seed of [1, 2, 3]) {
      const request = { tools, tool_choice: 'required', temperature: 1, seed } as const;
      const answer = await readAnswer(local, {
        model: `random${at}`,
        max_tokens: 1500,
        ...request,
      });
      const [call, ...others] = partsOf(answer);
      assert.equal(others, []);
      assert.ok(
        call?.type === 'tool_call' && call.name === 'weather',
        JSON.stringify(answer.parts),
      );
      if (answer.finish?.finish_reason === 'length') continue;
      assert.is(answer.finish?.finish_reason, 'tool_calls');
      assert.ok(isValid(JSON.parse(call.arguments)), call.arguments);
      valid += 1;
    }
    assert.ok(valid > 0, 'a whole call');
  });

test.run();
