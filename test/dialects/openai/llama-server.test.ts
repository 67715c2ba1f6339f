import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Reading } from '../../../src/contract/reading.ts';
import { SvcError } from '../../../src/errors.ts';
import type { OutputPart, ReadInput } from '../../../src/ports/providers.ts';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { bootReal, type Real } from '../../transport/http/real.ts';

/** What llama-server has beside OpenAI's API, in its forms. */
const test = suite<{ real: Real; read: ReadInput[] }>('programs for llama-server');

const EURO = { id: 3, text: '\ufffd', bytes: [0xe2, 0x82] };
const READING: Reading = { text: 'a €', tokens: [{ id: 5, text: 'a' }, EURO] };

test.before.each(async (context) => {
  context.read = [];
  context.real = await bootReal({ script: [output('one', 1), output(' two', 2), finish()] });
  Object.assign(context.real.provider, {
    async read(_model: string, input: ReadInput) {
      context.read.push(input);
      return READING;
    },
  });
});
test.after.each(({ real }) => real.close());

const post = (real: Real, path: string, body: object) =>
  real.get(path, { method: 'POST', body: JSON.stringify({ model: 'local/base', ...body }) });
const runsOf = async (real: Real) => (await real.runtime.runs.list({})).runs.length;

test('/tokenize: ids, or pieces with their bytes', async ({ real, read }) => {
  const tokens = async (body: object) =>
    (await post(real, '/tokenize', { content: 'a €', ...body })).json;
  assert.equal(await tokens({}), { tokens: [5, 3] });
  assert.equal(await tokens({ add_special: true, parse_special: false, with_pieces: true }), {
    tokens: [
      { id: 5, piece: 'a' },
      { id: 3, piece: [0xe2, 0x82] },
    ],
  });
  assert.equal(read, [
    { of: 'a €', begins: false, control: true, top: null },
    { of: 'a €', begins: true, control: false, top: null },
  ]);
  assert.is(await runsOf(real), 0);
});

test('/detokenize: the text of tokens', async ({ real, read }) => {
  assert.equal((await post(real, '/detokenize', { tokens: [5, 3] })).json, { content: 'a €' });
  assert.equal(read[0]?.of, [5, 3]);
});

test('/apply-template: the prompt of a conversation, without a run', async ({ real, read }) => {
  const messages = [
    { role: 'system', content: 'Be short.' },
    { role: 'user', content: 'Hi' },
  ];
  assert.equal((await post(real, '/apply-template', { messages })).json, { prompt: 'a €' });
  const [{ of }] = read as [ReadInput];
  assert.ok(typeof of === 'object' && 'messages' in of);
  assert.equal(
    of.messages.map(({ role }) => role),
    ['system', 'user'],
  );
  assert.is(await runsOf(real), 0);
});

test('/infill: the text between two others is a run, whole and streamed', async ({ real }) => {
  const body = {
    input_prefix: 'def f(',
    input_suffix: '):',
    input_extra: [{ filename: 'a.py', text: 'x = 1' }, { text: 'y' }],
    prompt: 'a',
    n_predict: 7,
    temperature: 0.5,
    seed: -1,
  };
  const { json } = await post(real, '/infill', body);
  const { content, stop, stop_type, tokens_predicted, tokens_evaluated } = json;
  assert.equal([content, stop, stop_type], ['one two', true, 'eos']);
  assert.equal([tokens_predicted, tokens_evaluated], [1, 1]);
  const { request } = real.provider.asked[0] as (typeof real.provider.asked)[number];
  const { messages, suffix, raw, max_tokens, temperature, seed_asked } = request;
  assert.equal(
    messages.map(({ role, content }) => [
      role,
      ...content.map((part) => (part.type === 'text' ? part.text : part.type)),
    ]),
    [
      ['user', 'a.py', 'x = 1'],
      ['user', 'tmp', 'y'],
      ['user', 'filename', 'def f(', 'a'],
    ],
  );
  assert.equal([suffix, raw, max_tokens, temperature], ['):', true, 7, 0.5]);
  assert.is(seed_asked, false);
  const { text } = await post(real, '/infill', { ...body, stream: true });
  const events = text.split('\n\n').flatMap((line) => (line ? [JSON.parse(line.slice(6))] : []));
  assert.equal(
    events.map(({ content, stop }) => [content, stop]),
    [
      ['one two', false],
      ['', true],
    ],
  );
});

test('/infill: an empty suffix has a middle too, and a form is kept', async ({ real }) => {
  const json_schema = { type: 'object' };
  await post(real, '/infill', { input_prefix: '', input_suffix: '', json_schema });
  const { suffix, messages, response_format } = real.provider.asked[0]?.request ?? {};
  assert.is(suffix, '');
  assert.equal(messages?.[0]?.content, [
    { type: 'text', text: 'filename' },
    { type: 'text', text: '' },
  ]);
  assert.equal(response_format?.schema, json_schema);
});

test('/infill: why it ended, and nothing for no tokens', async ({ real }) => {
  const ends = async (more: Partial<Extract<OutputPart, { type: 'finish' }>>) => {
    real.provider.script = [output('x', 1), { ...finish(), ...more } as OutputPart];
    const asked = { input_prefix: 'a', input_suffix: 'b' };
    const { stop_type, stopping_word } = (await post(real, '/infill', asked)).json;
    return [stop_type, stopping_word];
  };
  assert.equal(await ends({}), ['eos', '']);
  assert.equal(await ends({ finish_reason: 'length' }), ['limit', '']);
  assert.equal(await ends({ stop_sequence: 'END' }), ['word', 'END']);
  const before = await runsOf(real);
  const none = await post(real, '/infill', { input_prefix: 'a', input_suffix: '', n_predict: 0 });
  assert.equal([none.status, none.json.content, none.json.stop], [200, '', true]);
  assert.is(await runsOf(real), before);
});

test('errors have the names of the request', async ({ real }) => {
  for (const [path, body, param] of [
    ['/tokenize', {}, 'content'],
    ['/detokenize', { tokens: [1, 'a'] }, 'tokens.1'],
    ['/apply-template', { messages: [] }, 'messages'],
    ['/infill', { input_prefix: 'a' }, 'input_suffix'],
    ['/infill', { input_prefix: 'a', input_suffix: '', n_predict: -2 }, 'n_predict'],
  ] as const) {
    const { status, json } = await post(real, path, body);
    assert.equal([status, json.error.code, json.error.param], [400, 'invalid_request', param]);
  }
  real.provider.script = [new SvcError('capability_missing', 'No.', { param: 'suffix' })];
  const { json } = await post(real, '/infill', { input_prefix: 'a', input_suffix: 'b' });
  assert.equal([json.error.code, json.error.param], ['capability_missing', 'input_suffix']);
  Object.assign(real.provider, { read: undefined });
  for (const path of ['/tokenize', '/detokenize', '/apply-template']) {
    const body = { content: 'a', tokens: [1], messages: [{ role: 'user', content: 'Hi' }] };
    assert.is((await post(real, path, body)).json.error.code, 'capability_missing', path);
  }
});

test('/props: the model, and that it is not in memory', async ({ real, read }) => {
  const model = { id: 'local/base', provider: 'local', name: 'base', quantization: 'Q4_1' };
  const listed = { ...model, context_length: 512, capabilities: ['chat', 'tools'] };
  real.provider.models = () => Promise.resolve([listed as never]);
  const metadata = { 'tokenizer.chat_template': '{{ x }}', 'tokenizer.ggml.bos_token_id': 1 };
  real.runtime.models.show = async () => ({ ...listed, metadata }) as never;
  const { status, json } = await real.get('/props?model=local/base');
  assert.is(status, 200, JSON.stringify(json));
  const { default_generation_settings, chat_template, model_alias, is_sleeping, bos_token } = json;
  assert.is(default_generation_settings.n_ctx, 512);
  assert.equal([chat_template, model_alias, is_sleeping], ['{{ x }}', 'local/base', true]);
  assert.equal([json.chat_template_caps.supports_tools, bos_token, read], [true, '', []]);
});

test.run();
