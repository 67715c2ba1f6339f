import { Ollama } from 'ollama';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ModelRecord } from '../../../src/contract/model-record.ts';
import { SvcError } from '../../../src/errors.ts';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { BEARER, TOKEN } from '../../transport/http/boot.ts';
import { bootReal, type Real } from '../../transport/http/real.ts';

/** The token is in the path, as for Ollama's command line. */
const test = suite<{ real: Real; client: Ollama }>("changes of models in Ollama's API");

test.before.each(async (context) => {
  context.real = await bootReal({ script: [output('Hello', 1), finish()] });
  context.real.provider.models = async () => [MODEL];
  context.client = new Ollama({ host: `${context.real.url}/t/${TOKEN}` });
});
test.after.each(({ real }) => real.close());

const MODEL = {
  id: 'local/svc-mini',
  provider: 'local',
  name: 'svc-mini',
  state: 'loaded',
  size_bytes: 1234,
  digest: null,
  quantization: null,
  parameters: null,
  context_length: null,
  capabilities: [],
  default: true,
  built_in: true,
  path: null,
} as ModelRecord;
const messages = [{ role: 'user', content: 'Hi' }];

async function failed(asked: Promise<unknown>): Promise<{ message: string; status_code: number }> {
  try {
    await asked;
  } catch (error) {
    return error as { message: string; status_code: number };
  }
  throw new Error('the request was answered');
}

test('what create makes answers with its system text and parameters, unless a request says otherwise', async ({
  real,
  client,
}) => {
  const statuses: string[] = [];
  for await (const { status } of await client.create({
    model: 'mario',
    from: 'svc-mini',
    system: 'You are Mario.',
    stream: true,
    parameters: { temperature: 0.25, stop: ['<end>'], num_predict: 9, num_ctx: 8192 },
  }))
    statuses.push(status);
  assert.equal(statuses, ['success']);
  await client.chat({ model: 'mario:latest', messages });
  await client.generate({ model: 'mario', prompt: 'x', system: 'Be short.' });
  const said = { role: 'system', content: 'No.' };
  await client.chat({ model: 'mario', messages: [said, ...messages], options: { temperature: 1 } });
  const asked = real.provider.asked.map(({ request }) => request);
  assert.equal(
    asked.map(({ model, temperature, max_tokens, stop, context_tokens }) => [
      model,
      temperature,
      max_tokens,
      stop,
      context_tokens,
    ]),
    [0.25, 0.25, 1].map((temperature) => ['svc-mini', temperature, 9, ['<end>'], 8192]),
  );
  assert.equal(
    asked.map((request) => request.messages.map(({ role, content }) => [role, content])),
    ['You are Mario.', 'Be short.', 'No.'].map((text, index) => [
      ['system', [{ type: 'text', text }]],
      ['user', [{ type: 'text', text: index === 1 ? 'x' : 'Hi' }]],
    ]),
  );
  Object.assign(real.runtime.models, { show: async () => ({ ...MODEL, metadata: {} }) });
  const shown = await client.show({ model: 'mario' });
  assert.is(shown.system, 'You are Mario.');
  assert.equal(shown.parameters.split('\n').sort(), [
    'num_ctx 8192',
    'num_predict 9',
    'stop "<end>"',
    'temperature 0.25',
  ]);
  assert.match(
    shown.modelfile,
    /^FROM local\/svc-mini\n(PARAMETER .*\n){4}SYSTEM "You are Mario\."/,
  );
});

test('examples, a template and a licence are kept, and shown', async ({ real, client }) => {
  Object.assign(real.runtime.models, { show: async () => ({ ...MODEL, metadata: {} }) });
  const turns = [
    { role: 'user', content: 'Who?' },
    { role: 'assistant', content: 'Mario.' },
  ];
  await client.create({
    model: 'mario',
    from: 'svc-mini',
    messages: turns,
    license: ['MIT', 'x'],
    parameters: { presence_penalty: 1.5 },
  });
  await client.generate({ model: 'mario', prompt: 'Hi' });
  const { messages: asked, presence_penalty } = real.provider.asked[0]?.request ?? {};
  assert.equal(
    asked?.map(({ role, content }) => [role, content]),
    [...turns, { role: 'user', content: 'Hi' }].map(({ role, content }) => [
      role,
      [{ type: 'text', text: content }],
    ]),
  );
  assert.is(presence_penalty, 1.5);
  const shown = (await client.show({ model: 'mario' })) as unknown as Record<string, unknown>;
  assert.equal(shown.messages, turns);
  assert.is(
    shown.modelfile,
    'FROM local/svc-mini\nPARAMETER presence_penalty 1.5\nMESSAGE user "Who?"\n' +
      'MESSAGE assistant "Mario."\nLICENSE """MIT\n\nx"""\n',
  );
});

test('a copy is another name with the same text and parameters, and each is removed alone', async ({
  real,
  client,
}) => {
  await client.create({ model: 'mario', from: 'svc-mini', system: 'You are Mario.' });
  await client.copy({ source: 'mario', destination: 'luigi:v2' });
  const { models } = await client.list();
  assert.equal(
    models.map(({ name }) => name),
    ['local/svc-mini:latest', 'mario:latest', 'luigi:v2'],
  );
  assert.is(new Set(models.map(({ digest }) => digest)).size, 1);
  assert.match(models[0]?.digest ?? '', /^[0-9a-f]{64}$/);
  await client.delete({ model: 'mario:latest' });
  assert.equal(Object.keys(real.runtime.models.aliases()), ['luigi:v2']);
  await client.chat({ model: 'luigi:v2', messages });
  assert.is(real.provider.asked.at(-1)?.request.messages.length, 2);
  const removed: string[] = [];
  Object.assign(real.runtime.models, { remove: async (id: string) => removed.push(id) });
  await client.delete({ model: 'svc-mini' });
  assert.equal(removed, ['local/svc-mini']);
});

test('what create and copy cannot do is refused by name, and changes nothing', async ({
  real,
  client,
}) => {
  const from = 'svc-mini';
  const cases: [object, RegExp][] = [
    [{}, /from is missing/],
    [{ from, template: '{{ .Prompt }}' }, /TEMPLATE is a template of Go, which svc cannot render/],
    [{ from, messages: [{ role: 'tool', content: 'x' }] }, /messages\.0\.role must be one of/],
    [{ from, adapters: { a: 'sha256:0' } }, /adapters is not supported.*svc model create/],
    [{ files: { a: 'sha256:0' } }, /files is not supported.*svc model import/],
    [{ from, quantize: 'q4_K_M' }, /quantize is not supported/],
    [{ from, parameters: { mirostat: 1 } }, /"parameters\.mirostat" is not a field/],
    [{ from, parameters: { temperature: 'hot' } }, /parameters\.temperature must be a number/],
    [{ from, parameters: { temperature: 9 } }, /temperature must be a number from 0 to 2/],
    [{ from: 'elsewhere/x' }, /There is no provider|no such model|model/i],
  ];
  for (const [sent, message] of cases)
    assert.match((await failed(client.create({ model: 'new', ...sent }))).message, message);
  for (const destination of ['svc-mini', 'svc-mini:latest'])
    assert.match((await failed(client.copy({ source: from, destination }))).message, 'already');
  assert.is((await failed(client.copy({ source: from, destination: 'a/b' }))).status_code, 400);
  assert.equal(real.runtime.models.aliases(), {});
  assert.match((await failed(client.push({ model: 'x' }))).message, 'does not serve');
});

test('a pull shows how far it is, in the words that programs know', async ({ real, client }) => {
  const pulled: unknown[] = [];
  const about = { file: 'm.gguf', url: 'https://hub.example/m.gguf', size_bytes: 8, error: null };
  Object.assign(real.runtime.pulls, {
    async *pull(input: unknown) {
      pulled.push(input);
      yield { ...about, state: 'resolving', file: null, url: null };
      yield { ...about, state: 'downloading', bytes: 4 };
      yield { ...about, state: 'backoff', bytes: 4, error: { message: 'It is away.' } };
      yield { ...about, state: 'verifying', bytes: 8 };
      yield { ...about, state: 'completed', bytes: 8 };
    },
  });
  const lines = [];
  for await (const line of await client.pull({ model: 'hf.co/a/b:Q4', stream: true }))
    lines.push(line);
  assert.equal(
    lines.map(({ status }) => status),
    [
      'pulling manifest',
      'pulling m.gguf',
      'waiting: It is away.',
      'verifying sha256 digest',
      'success',
    ],
  );
  assert.equal([lines[1]?.total, lines[1]?.completed], [8, 4]);
  assert.match(lines[1]?.digest ?? '', /^sha256:[0-9a-f]{64}$/);
  assert.is((await client.pull({ model: 'qwen3:0.6b' })).status, 'success');
  assert.equal(
    pulled,
    ['hf:a/b:Q4', 'qwen3:0.6b'].map((reference) => ({ reference, name: null, sha256: null })),
  );
});

test('a pull that fails says why; a model that is there needs none', async ({ real, client }) => {
  Object.assign(real.runtime.pulls, {
    // biome-ignore lint/correctness/useYield: it fails before
    async *pull() {
      throw new SvcError('invalid_request', 'There is no such name.');
    },
  });
  assert.is((await client.pull({ model: 'svc-mini' })).status, 'success');
  await client.copy({ source: 'svc-mini', destination: 'mario' });
  assert.is((await client.pull({ model: 'mario' })).status, 'success');
  Object.assign(real.runtime.models, { find: () => Promise.reject(new SvcError('model_unknown')) });
  for (const stream of [true, false]) {
    const { status_code, message } = await failed(client.pull({ model: 'nope', stream } as never));
    assert.is(status_code, 400);
    assert.match(message, 'There is no such name.');
  }
});

test('empty and null fields mean nothing, and a name is as good as a model', async ({ real }) => {
  Object.assign(real.runtime.models, { show: async () => ({ ...MODEL, metadata: {} }) });
  const post = (path: string, body: object, method = 'POST') =>
    real.get(`/api/${path}`, { method, body, headers: BEARER });
  const bodies = [
    // What the Go package sends.
    { model: 'svc-mini', system: '', template: '', verbose: false, options: null, name: '' },
    { model: '', name: 'svc-mini' },
    { model: null, name: 'svc-mini', unknown: { a: 1 } },
  ];
  for (const body of bodies) assert.is((await post('show', body)).status, 200);
  assert.is((await post('show', { model: '', name: '' })).status, 400);
  const options = { repeat_last_n: 3, typical_p: 0.7, num_thread: 8, temperature: null };
  const { headers, status } = await post('generate', {
    model: 'svc-mini',
    prompt: 'x',
    stream: false,
    keep_alive: '',
    format: '',
    think: null,
    suffix: '',
    template: '',
    system: '',
    context: null,
    raw: false,
    options,
  });
  assert.is(status, 200);
  assert.is(
    headers['x-svc-ignored'],
    'options.repeat_last_n, options.typical_p, options.num_thread',
  );
  assert.is((await post('copy', { source: 'svc-mini', destination: 'a' })).status, 200);
  assert.is((await post('delete', { model: '', name: 'a' }, 'DELETE')).status, 200);
});

test.run();
