import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { OutputPart } from '../../src/ports/providers.ts';
import { withoutFence } from '../../src/runtime/runs/answer-form.ts';
import { finish, output } from '../helpers/scripted-provider.ts';
import { bootReal, type Real } from '../transport/http/real.ts';

const test = suite<{ real: Real }>('an answer that was to be JSON');

test.before.each(async (context) => {
  context.real = await bootReal();
});
test.after.each(({ real }) => real.close());

const model = 'local/svc-mini';
const messages = [{ role: 'user', content: 'Hi' }];
const schema = { type: 'object', properties: { a: { type: 'number' } } };
const json_object = { type: 'json_object' };

/** How each API asks for JSON, and where its whole answer has the text. */
const ASKS: [path: string, body: object, text: string][] = [
  ['/v1/chat/completions', { messages, response_format: json_object }, 'choices.0.message.content'],
  ['/v1/completions', { prompt: 'Hi', guided_json: schema }, 'choices.0.text'],
  [
    '/v1/responses',
    { input: 'Hi', text: { format: { type: 'json_schema', name: 'a', schema } } },
    'output.0.content.0.text',
  ],
  [
    '/v1/messages',
    { messages, max_tokens: 9, output_config: { format: { type: 'json_schema', schema } } },
    'content.0.text',
  ],
  ['/api/chat', { messages, format: 'json' }, 'message.content'],
  ['/api/generate', { prompt: 'Hi', format: schema }, 'response'],
];

const post = (real: Real, path: string, body: object) =>
  real.get(path, { method: 'POST', body: JSON.stringify({ model, ...body }) });

const textAt = (json: object, place: string) =>
  place.split('.').reduce<unknown>((value, name) => Reflect.get(Object(value), name), json);

for (const [path, body, place] of ASKS) {
  test(`${path}: prose is an error, whole and streamed`, async ({ real }) => {
    real.provider.script = [output('Sure! Here it is.', 1), finish()];
    const whole = await post(real, path, { ...body, stream: false });
    assert.equal([whole.status, whole.headers['x-should-retry']], [502, 'false']);
    assert.match(whole.text, 'local was asked for JSON, and answered with something else.');
    const { text, headers } = await post(real, path, { ...body, stream: true });
    assert.match(text, 'Sure! Here it is.');
    assert.match(text, 'local was asked for JSON, and answered with something else.');
    assert.not.match(text, /"finish_reason":"stop"|"stop_reason":"end_turn"|"done":true|\[DONE\]/);
    assert.not.match(text, /response\.completed/);
    const run = await real.runtime.runs.get(String(headers['x-svc-run-id']));
    assert.equal([run.state, run.finish_reason], ['completed', 'not_json']);
    assert.equal([run.output, run.usage.output_tokens], ['Sure! Here it is.', 1]);
  });

  test(`${path}: JSON is an answer, also in a fence of Markdown`, async ({ real }) => {
    for (const pieces of [
      ['{"a":', '1}'],
      ['``', '`json\n{"a":', '1}\n`', '``\n'],
    ]) {
      real.provider.script = [...pieces.map((text) => output(text)), finish()];
      const { status, json } = await post(real, path, { ...body, stream: false });
      assert.equal([status, textAt(json, place)], [200, '{"a":1}'], path);
    }
  });

  test(`${path}: an answer that is cut ends as one that is cut`, async ({ real }) => {
    const cut = { ...(finish() as Extract<OutputPart, { type: 'finish' }>) };
    real.provider.script = [output('{"a":', 1), { ...cut, finish_reason: 'length' }];
    const { status, text } = await post(real, path, { ...body, stream: false });
    assert.is(status, 200);
    assert.match(
      text,
      /"finish_reason":"length"|"max_output_tokens"\}|"stop_reason":"max_tokens"|"done_reason":"length"/,
    );
  });
}

for (const [path, body, place] of ASKS.filter(([, sent]) =>
  JSON.stringify(sent).includes('number'),
))
  test(`${path}: JSON that does not fit the schema is an error, whole and streamed`, async ({
    real,
  }) => {
    const said = 'The answer of local does not have the requested form. It/a must be number';
    real.provider.script = [output('{"a":"x"}', 1), finish()];
    const whole = await post(real, path, { ...body, stream: false });
    assert.equal([whole.status, whole.headers['x-should-retry']], [502, 'false']);
    assert.match(whole.text, said);
    const { text, headers } = await post(real, path, { ...body, stream: true });
    assert.match(text, said);
    assert.not.match(text, /"finish_reason":"stop"|"stop_reason":"end_turn"|"done":true|\[DONE\]/);
    assert.not.match(text, /response\.completed/);
    const run = await real.runtime.runs.get(String(headers['x-svc-run-id']));
    assert.equal([run.state, run.finish_reason], ['completed', 'wrong_form']);
    assert.equal([run.form_problem, run.form], ['It/a must be number.', undefined]);
    assert.equal([run.output, run.usage.output_tokens], ['{"a":"x"}', 1]);
    real.provider.script = [output('{"a":1}', 1), finish()];
    const right = await post(real, path, { ...body, stream: false });
    assert.equal([right.status, textAt(right.json, place)], [200, '{"a":1}']);
    const id = String(right.headers['x-svc-run-id']);
    assert.is((await real.runtime.runs.get(id)).form, 'compared');
  });

test('an answer that the grammar of its engine wrote is not compared', async ({ real }) => {
  const kept = { ...(finish() as Extract<OutputPart, { type: 'finish' }>), form: 'kept' as const };
  real.provider.script = [output('{"a":"x"}', 1), kept];
  const { status, headers } = await post(real, '/v1/completions', {
    prompt: 'Hi',
    guided_json: schema,
  });
  assert.is(status, 200);
  assert.is((await real.runtime.runs.get(String(headers['x-svc-run-id']))).form, 'kept');
});

test('a stored response that is no JSON has failed, with its usage', async ({ real }) => {
  real.provider.script = [output('No.', 1), finish()];
  const body = { input: 'Hi', text: { format: json_object }, stream: true };
  const { text } = await post(real, '/v1/responses', body);
  const [, id] = /"id":"(resp_\w+)"/.exec(text) ?? [];
  const { json } = await real.get(`/v1/responses/${id}`);
  assert.equal([json.status, json.error.code], ['failed', 'answer_not_json']);
  assert.equal([json.usage.output_tokens, json.output[0].status], [1, 'incomplete']);
});

test('what is JSON: an object or list without a schema, any value with one', async ({ real }) => {
  const ends = async (text: string, response_format: object) => {
    real.provider.script = [output(text, 1), finish()];
    return (await post(real, '/v1/chat/completions', { messages, response_format })).status;
  };
  const with_schema = { type: 'json_schema', json_schema: { name: 'a', schema: {} } };
  assert.is(await ends('[1]', json_object), 200);
  assert.is(await ends('42', json_object), 502);
  assert.is(await ends('42', with_schema), 200);
  assert.is(await ends('{"a":1} and more', with_schema), 502);
  assert.is(await ends('Prose', { type: 'text' }), 200);
});

const unfenced = async (...texts: (string | OutputPart)[]) => {
  const parts = texts.map((text) => (typeof text === 'string' ? output(text) : text));
  const response_format = { type: 'json', name: null, schema: null } as const;
  let made = '';
  for await (const part of withoutFence(streamed(parts), { response_format }))
    if (part.type === 'output') made += part.text;
  return made;
};
async function* streamed(parts: readonly OutputPart[]) {
  yield* parts;
}

test('only a fence around the whole text is left out, in any pieces', async () => {
  const split = (text: string) => [...text];
  for (const [written, left] of [
    ['```json\n{"a":1}\n```', '{"a":1}'],
    ['\n```\r\n{"a":1}\r\n```\n', '{"a":1}'],
    ['```JSON \n{"a":"```"}\n```', '{"a":"```"}'],
    ['{"a":1}\n', '{"a":1}\n'],
    ['``', '``'],
    ['```json\n{"a":', '{"a":'],
    ['```json\n{"a":1}\n``', '{"a":1}\n``'],
    ['Here:\n```json\n{}\n```', 'Here:\n```json\n{}\n```'],
    ['```json {"a":1}```', '```json {"a":1}```'],
    ['```json\n{}\n```\nDone.', '{}\n```\nDone.'],
  ] as const) {
    assert.is(await unfenced(written, finish()), left);
    assert.is(await unfenced(...split(written), finish()), left, 'one character at a time');
  }
});

test.run();
