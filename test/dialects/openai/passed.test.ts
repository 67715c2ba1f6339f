import { toFile } from 'openai';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../../src/limits.ts';
import { remote } from '../../helpers/remote.ts';
import { gate } from '../../helpers/scripted-provider.ts';
import { type Exchange, type Scenario, Upstream } from '../../helpers/upstream.ts';
import { waitFor } from '../../helpers/wait.ts';
import { TOKEN } from '../../transport/http/boot.ts';
import { bootReal } from '../../transport/http/real.ts';
import { clientOf } from './boot.ts';

/** Requests that a provider gets as they are: the `openai` package, svc, and a remote API. */
async function boot(
  scenario: Scenario,
  limits: { upload_bytes?: number } = {},
  {
    kind = 'local',
    passed_answer_bytes = defaultLimits.passed_answer_bytes,
  }: { kind?: 'local' | 'cloud'; passed_answer_bytes?: number } = {},
) {
  const upstream = await Upstream.start((x) =>
    x.received.method === 'GET' ? x.reply(200, { data: [] }) : scenario(x),
  );
  const port = remote(upstream.base_url, {
    config: { key: 'env:TEST_KEY' },
    limits: { passed_answer_bytes },
  });
  const real = await bootReal({ remote: { lan: { port, kind } }, limits });
  const client = clientOf(real);
  const post = (path: string, body: FormData | string, headers: Record<string, string> = {}) =>
    fetch(`${real.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, ...headers },
      body,
    });
  const code = async (answer: Promise<Response>) => {
    const { status, headers, body } = await answer.then(async (response) => ({
      status: response.status,
      headers: response.headers,
      body: (await response.json()) as { error: { code: string; param: string | null } },
    }));
    return { status, code: body.error.code, param: body.error.param, headers };
  };
  const close = async () => {
    await real.close();
    await port.close();
    await upstream.stop();
  };
  return { real, client, upstream, post, code, close };
}

const TRANSCRIPTIONS = '/v1/audio/transcriptions';
const SOUND = Buffer.from('RIFF\0\0\0\0WAVEfmt \r\n--\r\n\x01\x7f');
const wav = () => toFile(SOUND, 'a.wav', { type: 'audio/wav' });
const formOf = ({ received: { body, headers } }: Pick<Exchange, 'received'>) =>
  new Response(body, { headers: { 'content-type': String(headers['content-type']) } }).formData();
const form = (fields: Record<string, string> = { model: 'lan/w' }, file: Blob | null = wave) => {
  const made = new FormData();
  for (const [name, value] of Object.entries(fields)) made.append(name, value);
  if (file !== null) made.append('file', file, 'a.wav');
  return made;
};
const wave = new Blob([SOUND], { type: 'audio/wav' });

test('a form reaches the provider as it is, with its own name of the model', async () => {
  const { client, upstream, close } = await boot((x) => x.reply(200, { text: 'Hello.' }));
  const { text } = await client.audio.transcriptions.create({
    file: await wav(),
    model: 'lan/whisper/large',
    language: 'en',
    prompt: 'Zoë, Łódź',
    response_format: 'verbose_json',
    temperature: 0.5,
    timestamp_granularities: ['word', 'segment'],
  });
  assert.is(text, 'Hello.');
  const [received] = upstream.received.filter(({ method }) => method === 'POST');
  if (received === undefined) throw new Error('nothing was received');
  assert.equal(
    [received.path, received.headers.authorization?.slice(0, 7)],
    [TRANSCRIPTIONS, 'Bearer '],
  );
  assert.not.match(received.headers.authorization ?? '', TOKEN);
  const { file, ...fields } = Object.groupBy([...(await formOf({ received }))], ([name]) => name);
  assert.equal(
    Object.fromEntries(
      Object.entries(fields).map(([name, all]) => [name, all?.map(([, value]) => value)]),
    ),
    {
      model: ['whisper/large'],
      language: ['en'],
      prompt: ['Zoë, Łódź'],
      response_format: ['verbose_json'],
      temperature: ['0.5'],
      'timestamp_granularities[]': ['word', 'segment'],
    },
  );
  const sent = file?.[0]?.[1] as File;
  assert.equal(
    [sent.name, sent.type, Buffer.from(await sent.arrayBuffer())],
    ['a.wav', 'audio/wav', SOUND],
  );
  await close();
});

test('an answer keeps its type, unless a browser would show it', async () => {
  const types = ['text/vtt', 'application/x-subrip', 'text/html; charset=utf-8'];
  let type = '';
  const { post, close } = await boot((x) =>
    x.response.writeHead(200, { 'content-type': type }).end('1\n<b>Hi</b>'),
  );
  for (type of types) {
    const answer = await post(TRANSCRIPTIONS, form());
    assert.is(await answer.text(), '1\n<b>Hi</b>');
    const shown = type.startsWith('text/html') ? 'text/plain; charset=utf-8' : type;
    assert.equal(
      ['content-type', 'x-content-type-options', 'cache-control'].map((name) =>
        answer.headers.get(name),
      ),
      [shown, 'nosniff', 'no-store'],
    );
  }
  await close();
});

test('a stream of events comes as it is made', async () => {
  const heard = gate();
  const { client, close } = await boot(async (x) => {
    x.open();
    await x.event({ type: 'transcript.text.delta', delta: 'Hel' });
    await heard.opened;
    await x.event({ type: 'transcript.text.done', text: 'Hello' });
    await x.done();
  });
  const file = await wav();
  const events = await client.audio.transcriptions.create({ file, model: 'lan/w', stream: true });
  const types: string[] = [];
  for await (const { type } of events) {
    types.push(type);
    heard.open();
  }
  assert.equal(types, ['transcript.text.delta', 'transcript.text.done']);
  await close();
});

test('an order for images is passed on with fields that svc does not know', async () => {
  const data = [{ b64_json: 'x'.repeat(300_000) }];
  const { client, upstream, close } = await boot((x) => x.reply(200, { created: 1, data }));
  const order = { prompt: 'A cat', n: 2, size: '256x256', seed: 7 } as const;
  const made = await client.images.generate({ ...order, model: 'lan/draw' });
  assert.equal(made.data, data);
  const bodies = upstream.received.filter(({ path }) => path === '/v1/images/generations');
  assert.equal(
    bodies.map(({ body }) => JSON.parse(body)),
    [{ ...order, model: 'draw' }],
  );
  await close();
});

test('what a provider refuses keeps its meaning, and one without the path is named', async () => {
  let refuse: Scenario = () => {};
  const { post, code, close } = await boot((x) => refuse(x));
  const asked = () => code(post(TRANSCRIPTIONS, form()));
  refuse = (x) => x.reply(404, { detail: 'Not Found' });
  assert.equal((await asked()).code, 'capability_missing');
  refuse = (x) => x.reply(429, { error: { message: 'slow' } }, { 'retry-after': '7' });
  const busy = await asked();
  assert.equal(
    [busy.status, busy.code, busy.headers.get('retry-after')],
    [429, 'provider_busy', '7'],
  );
  const local = await code(post(TRANSCRIPTIONS, form({ model: 'local/svc-mini' })));
  assert.equal([local.status, local.code, local.param], [400, 'capability_missing', 'model']);
  await close();
});

test('an invalid form is refused by its place, before a provider is asked', async () => {
  const { post, code, upstream, close } = await boot((x) => x.reply(200, {}), {
    upload_bytes: 16_384,
  });
  const many = form();
  for (let index = 0; index < 70; index += 1) many.append('x', '1');
  const type = 'multipart/form-data; boundary=b';
  for (const [body, headers, expected] of [
    [form({}), {}, [400, 'invalid_request', 'model']],
    [form({ model: '' }), {}, [400, 'invalid_request', 'model']],
    [form({ model: 'lan/w' }, null), {}, [400, 'invalid_request', 'file']],
    [form({ model: 'lan/w', prompt: 'a\0b' }), {}, [400, 'prompt_not_text', 'prompt']],
    [form({ model: 'lan/w', prompt: 'x'.repeat(20_000) }), {}, [413, 'body_too_large', null]],
    [many, {}, [400, 'invalid_request', null]],
    ['{"model":"lan/w"}', { 'content-type': 'application/json' }, [400, 'invalid_request', null]],
    ['--b\r\nnothing', { 'content-type': type }, [400, 'invalid_request', null]],
  ] as const) {
    const refused = await code(post(TRANSCRIPTIONS, body, headers));
    assert.equal([refused.status, refused.code, refused.param], expected);
  }
  const page = { origin: 'https://app.example', cookie: 'x=1', authorization: '' };
  assert.is((await code(post(TRANSCRIPTIONS, form(), page))).status, 401);
  assert.equal(
    upstream.received.filter(({ method }) => method === 'POST'),
    [],
  );
  await close();
});

test('a client that leaves closes the connection, and a cut answer is cut for the client', async () => {
  const exchanges: Exchange[] = [];
  const { real, post, close } = await boot((x) => {
    exchanges.push(x);
  });
  const gone = new AbortController();
  const left = fetch(`${real.url}${TRANSCRIPTIONS}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${TOKEN}` },
    body: form(),
    signal: gone.signal,
  }).catch(() => null);
  await waitFor('it is asked', () => exchanges.length === 1);
  gone.abort();
  await left;
  await exchanges[0]?.closed;
  await waitFor('its place is free', () => real.runtime.report().embeddings.active === 0);
  const cut = post(TRANSCRIPTIONS, form()).then((answer) => answer.text());
  await waitFor('it is asked again', () => exchanges.length === 2);
  await exchanges[1]?.open().write('data: {"type":');
  exchanges[1]?.socket.destroy();
  assert.ok(
    await cut.then(
      () => false,
      () => true,
    ),
  );
  await close();
});

test('the tokens of a request are read from an answer up to its bound, else estimated', async () => {
  const answer = { text: 'Hello.', usage: { input_tokens: 12 } };
  const { length } = JSON.stringify(answer);
  for (const [bytes, tokens] of [
    [length, [12, 0]],
    [length - 1, [2, 1]],
  ] as const) {
    const { real, post, close } = await boot(
      (x) => x.reply(200, answer),
      {},
      { kind: 'cloud', passed_answer_bytes: bytes },
    );
    const sent = await post(TRANSCRIPTIONS, form());
    assert.equal(await sent.json(), answer, 'the answer is passed on whole');
    const { total } = await real.runtime.usage({});
    assert.equal([total.input_tokens, total.estimated_embeddings], tokens, `${bytes} bytes`);
    await close();
  }
});

test.run();
