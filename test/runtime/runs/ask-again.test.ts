import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import { bootReal, type Real } from '../../transport/http/real.ts';

const test = suite<{ real: Real; asking: Real }>('an answer without its form');

test.before.each(async (context) => {
  context.real = await bootReal();
  context.asking = await bootReal({ settings: { ask_again: true } });
});
test.after.each(async ({ real, asking }) => {
  await real.close();
  await asking.close();
});

const schema = { type: 'object', properties: { a: { type: 'number' } } };
const form = { response_format: { type: 'json', name: null, schema } };

/** The provider says these texts, one for each time that it is asked. */
function says(real: Real, ...texts: string[]) {
  const before = real.provider.asked.length;
  real.provider.script = () => [
    output(texts[real.provider.asked.length - before - 1] ?? 'no more', 1),
    finish(),
  ];
}

async function ended(real: Real, input: object) {
  const { id } = await real.runtime.runs.start({ prompt: 'Hi', ...input } as never, 'test');
  await waitFor('the run has ended', () => !real.kernel.instances.has(id));
  return real.runtime.runs.get(id);
}

test('the model gets its answer and what is wrong with it, and the new answer counts', async ({
  real,
}) => {
  says(real, '{"a":"x"}', '{"a":1}');
  const run = await ended(real, { ...form, ask_again: true });
  assert.equal([run.state, run.output, run.form], ['completed', '{"a":1}', 'compared']);
  assert.equal([run.attempts, run.usage.output_tokens], [2, 2], 'both answers cost something');
  const [, again] = real.provider.asked;
  const added = [
    { role: 'assistant', content: [{ type: 'text', text: '{"a":"x"}' }] },
    {
      role: 'user',
      content: [
        {
          type: 'text',
          text: 'It/a must be number. Answer again, in the form that was asked for.',
        },
      ],
    },
  ];
  assert.equal(again?.request.messages.slice(1), added);
  assert.equal(again?.request.response_format, form.response_format);
  assert.equal([again?.resume, run.turns], [null, added]);
});

test('the second failure is the failure', async ({ real }) => {
  says(real, 'prose', '{"a":"x"}', '{"a":1}');
  const run = await ended(real, { ...form, ask_again: true });
  assert.equal(
    [run.state, run.finish_reason, run.output],
    ['completed', 'wrong_form', '{"a":"x"}'],
  );
  assert.is(real.provider.asked.length, 2);
});

test('it is not asked for again by default, nor if the request says so', async ({
  real,
  asking,
}) => {
  for (const [daemon, input] of [
    [real, form],
    [asking, { ...form, ask_again: false }],
  ] as const) {
    says(daemon, '{"a":"x"}');
    assert.is((await ended(daemon, input)).finish_reason, 'wrong_form');
    assert.is(daemon.provider.asked.length, 1);
  }
});

/** How each API asks for the form, and where its whole answer has the text. */
const messages = [{ role: 'user', content: 'Hi' }];
const json_schema = { type: 'json_schema', json_schema: { name: 'a', schema } };
for (const [path, body] of [
  ['/v1/chat/completions', { messages, response_format: json_schema }],
  ['/v1/completions', { prompt: 'Hi', guided_json: schema }],
  [
    '/v1/messages',
    { messages, max_tokens: 9, output_config: { format: { type: 'json_schema', schema } } },
  ],
  ['/api/chat', { messages, format: schema }],
] as const)
  test(`${path}: the answer is whole, and a stream ends with its error`, async ({
    asking: real,
  }) => {
    const post = (stream: boolean) => {
      says(real, '{"a":"x"}', '{"a":1}');
      const sent = { model: 'local/svc-mini', ...body, stream };
      return real.get(path, { method: 'POST', body: JSON.stringify(sent) });
    };
    const whole = await post(false);
    assert.is(whole.status, 200);
    assert.match(whole.text, JSON.stringify('{"a":1}'));
    assert.not.match(whole.text, '{\\"a\\":\\"x\\"}');
    assert.is(real.provider.asked.length, 2);
    const streamed = await post(true);
    assert.match(streamed.text, 'does not have the requested form');
    assert.is(real.provider.asked.length, 3);
  });

test.run();
