import Anthropic from '@anthropic-ai/sdk';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import type { OutputPart } from '../../../src/ports/providers.ts';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { TOKEN } from '../../transport/http/boot.ts';
import { bootReal, type Real } from '../../transport/http/real.ts';

const test = suite<{ real: Real; client: Anthropic }>('what a request of Anthropic asks of a run');

test.before.each(async (context) => {
  context.real = await bootReal({ script: [output('Hello', 1), output(' you', 2), finish()] });
  context.client = new Anthropic({ apiKey: TOKEN, baseURL: context.real.url, maxRetries: 0 });
});
test.after.each(({ real }) => real.close());

const ASKED = {
  model: 'local/svc-mini',
  max_tokens: 100,
  messages: [{ role: 'user' as const, content: 'Hi' }],
};
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const WEATHER = {
  name: 'weather',
  description: 'Tells the weather.',
  input_schema: { type: 'object' as const, properties: { city: { type: 'string' } } },
};
const ended: OutputPart = {
  type: 'finish',
  finish_reason: 'stop',
  usage: { input_tokens: 12, output_tokens: 5, cached_tokens: 4 },
};
async function failed(asked: Promise<unknown>): Promise<InstanceType<typeof Anthropic.APIError>> {
  try {
    await asked;
  } catch (error) {
    assert.instance(error, Anthropic.APIError);
    return error as InstanceType<typeof Anthropic.APIError>;
  }
  throw new Error('the request was answered');
}

test('what a model cannot do names the field of the request', async ({ real }) => {
  const param = 'messages.1.content.1';
  real.provider.script = [new SvcError('capability_missing', `No image in ${param}.`, { param })];
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } };
  const content = [{ type: 'text', text: 'What is it?' }, image];
  for (const stream of [false, true]) {
    const body = { ...ASKED, system: 'Be brief.', messages: [{ role: 'user', content }], stream };
    const { status, json } = await real.get('/v1/messages', { method: 'POST', body });
    assert.is(status, 400);
    assert.is(json.error.details.param, 'messages.0.content.1');
    assert.match(json.error.message, 'No image in messages.0.content.1.');
  }
});

test('images of results reach the model in the next message of the user', async ({
  real,
  client,
}) => {
  const image = {
    type: 'image' as const,
    source: { type: 'base64' as const, media_type: 'image/png' as const, data: PNG },
  };
  const use = (id: string) => ({ type: 'tool_use' as const, id, name: 'see', input: {} });
  const result = { type: 'tool_result' as const };
  const messages = [
    { role: 'user' as const, content: 'Look' },
    { role: 'assistant' as const, content: [use('c1'), use('c2')] },
    {
      role: 'user' as const,
      content: [
        { ...result, tool_use_id: 'c1', content: [image] },
        { ...result, tool_use_id: 'c2', content: [{ type: 'text' as const, text: 'ok' }, image] },
        { type: 'text' as const, text: 'And?' },
      ],
    },
  ];
  await client.messages.create({ ...ASKED, messages });
  const asked = real.provider.asked[0]?.request.messages.slice(2) ?? [];
  const shown = { type: 'image', media_type: 'image/png', data: PNG };
  const named = (id: string) => ({
    type: 'text',
    text: `This image is the result of the tool call ${id}:`,
  });
  const answered = (id: string, text: string) => ({
    role: 'tool',
    content: [{ type: 'tool_result', id, text, is_error: false }],
  });
  assert.equal(asked, [
    answered('c1', 'The next message has it.'),
    answered('c2', 'ok'),
    {
      role: 'user',
      content: [named('c1'), shown, named('c2'), shown, { type: 'text', text: 'And?' }],
    },
  ]);
  real.provider.script = [
    new SvcError('capability_missing', undefined, { param: 'messages.4.content.3' }),
  ];
  const refused = await failed(client.messages.create({ ...ASKED, messages }));
  assert.is(refused.status, 400);
  assert.match(JSON.stringify(refused.error), 'messages.2.content.1.content.1');
});

test('an effort, a budget, one call at most and top_k reach the run', async ({ real, client }) => {
  const thinking = (budget_tokens: number) => ({ type: 'enabled' as const, budget_tokens });
  const adaptive = { type: 'adaptive' as const };
  for (const [more, effort, budget] of [
    [{ thinking: thinking(1024) }, undefined, 1024],
    [{ thinking: thinking(5) }, undefined, 5],
    [{ thinking: adaptive, output_config: { effort: 'max' } }, 'max'],
    [{ thinking: adaptive }, undefined],
    [{ thinking: { type: 'disabled' } }, undefined],
    [{ output_config: { effort: 'low' } }, undefined],
  ] as const) {
    await client.messages.create({ ...ASKED, ...more } as never);
    const { request } = real.provider.asked.at(-1) ?? {};
    const { reasoning_effort, reasoning_budget_tokens } = request ?? {};
    assert.equal([reasoning_effort, reasoning_budget_tokens], [effort, budget]);
  }
  const refused = await failed(client.messages.create({ ...ASKED, thinking: thinking(1.5) }));
  assert.is(refused.status, 400);
  assert.match(JSON.stringify(refused.error), 'thinking.budget_tokens');
  const tools = [{ name: 't', input_schema: { type: 'object' as const } }];
  const tool_choice = { type: 'auto' as const, disable_parallel_tool_use: true };
  await client.messages.create({ ...ASKED, tools, tool_choice, top_k: 7 } as never);
  const { parallel_tool_calls, top_k } = real.provider.asked.at(-1)?.request ?? {};
  assert.equal([parallel_tool_calls, top_k], [false, 7]);
});

test('a stream begins with the tokens of the prompt, counted by the engine or estimated', async ({
  real,
  client,
}) => {
  const begun = async () => {
    let tokens: number | null = null;
    const stream = client.messages.stream({ ...ASKED, system: 'Be very brief.', tools: [WEATHER] });
    stream.on('streamEvent', (event) => {
      if (event.type === 'message_start') tokens = event.message.usage.input_tokens;
    });
    const { usage } = await stream.finalMessage();
    return { tokens, end: usage.input_tokens };
  };
  const tools = [{ ...WEATHER, parameters: WEATHER.input_schema, input_schema: undefined }];
  const estimate = Math.ceil(('HiBe very brief.'.length + JSON.stringify(tools).length) / 4);
  real.provider.script = [output('Hello', 1), ended];
  assert.equal(await begun(), { tokens: estimate, end: 8 });
  // The first output of an engine may be tokens without text.
  const first = { ...output('', 7), prompt_parts: [256, 0, 44] } as OutputPart;
  real.provider.script = [first, output('Hello', 1), ended];
  assert.equal(await begun(), { tokens: 300, end: 8 });
});

test('a last message of the assistant is the beginning of the answer', async ({ real, client }) => {
  const messages = [...ASKED.messages, { role: 'assistant' as const, content: 'So the' }];
  const { content } = await client.messages.create({ ...ASKED, messages });
  assert.equal(content, [{ type: 'text', text: 'Hello you' }]);
  assert.equal(real.provider.asked[0]?.request.messages, [
    { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
    { role: 'assistant', content: [{ type: 'text', text: 'So the' }], continued: true },
  ]);
  await client.messages.create({
    ...ASKED,
    messages: [...messages, { role: 'user', content: 'And?' }],
  });
  const later = real.provider.asked[1]?.request.messages ?? [];
  assert.equal(
    later.map(({ continued }) => continued),
    [undefined, undefined, undefined],
  );
});

test('the note of Claude Code for its server reaches no model', async ({ real, client }) => {
  const system = (note: string) => [
    { type: 'text' as const, text: `x-anthropic-billing-header: cc_version=2.1.${note};` },
    { type: 'text' as const, text: 'Be brief.' },
  ];
  for (const note of ['197.d99', '197.b75'])
    await client.messages.create({ ...ASKED, system: system(note) });
  const [one, other] = real.provider.asked.map(({ request }) => request.messages);
  assert.equal(one?.[0]?.content, [{ type: 'text', text: 'Be brief.' }]);
  assert.equal(one, other);
  const said = system('1')[0]?.text ?? '';
  await client.messages.create({ ...ASKED, messages: [{ role: 'user', content: said }] });
  const asked = real.provider.asked.at(-1)?.request.messages;
  assert.equal(asked?.[0]?.content, [{ type: 'text', text: said }], 'a user may say it');
});

test.run();
