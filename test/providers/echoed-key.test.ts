import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { withoutSplitKey } from '../../src/cloud/openai/passed-events.ts';
import { KeyBytes } from '../../src/cloud/remote/echoed-key.ts';
import type { SvcError } from '../../src/errors.ts';
import { defaultLimits } from '../../src/limits.ts';
import type { PassedAnswer, ProviderPort } from '../../src/ports/providers.ts';
import { outcome, remote, SECRET_KEY } from '../helpers/remote.ts';
import { type Exchange, Upstream } from '../helpers/upstream.ts';

/** A provider that repeats its key: at no door does a client get it. */
const KEY = SECRET_KEY;
const never = new AbortController().signal;

const escaped = (text: string, isUpper = false) =>
  [...text]
    .map((each) => {
      const hex = each.charCodeAt(0).toString(16).padStart(4, '0');
      return `\\u${isUpper ? hex.toUpperCase() : hex}`;
    })
    .join('');

function filtered(pieces: readonly Buffer[], key = KEY): string {
  const filter = KeyBytes.of(key);
  if (filter === null) throw new Error('there is a key');
  return Buffer.concat([...pieces.map((piece) => filter.take(piece)), filter.end()]).toString();
}

function cut(bytes: Buffer, at: readonly number[]): Buffer[] {
  const places = [...at.map((place) => place % (bytes.length + 1)), bytes.length].sort(
    (a, b) => a - b,
  );
  return places.map((to, index) => bytes.subarray(places[index - 1] ?? 0, to));
}

const WRITTEN: readonly (readonly [came: string, shown: string])[] = [
  [`a ${KEY} b`, 'a [key] b'],
  [`${KEY}${KEY}`, '[key][key]'],
  [`${KEY.slice(0, -1)} ${KEY.slice(1)}`, `${KEY.slice(0, -1)} ${KEY.slice(1)}`],
  [`${KEY.slice(0, 5)}${KEY}`, `${KEY.slice(0, 5)}[key]`],
  [escaped(KEY), '[key]'],
  [escaped(KEY, true), '[key]'],
  [`x${KEY.slice(0, 4)}${escaped(KEY.slice(4, 9))}${KEY.slice(9)}`, 'x[key]'],
  [`"\\n\\"\\u00e4\\u12"${KEY.slice(0, 8)}\\`, `"\\n\\"\\u00e4\\u12"${KEY.slice(0, 8)}\\`],
  ['\\'.repeat(50), '\\'.repeat(50)],
  ['Zoë s sk sk- Łódź', 'Zoë s sk sk- Łódź'],
];

test('the key is taken out of bytes, wherever they are cut, and nothing else changes', () => {
  for (const [came, shown] of WRITTEN) {
    assert.is(filtered([Buffer.from(came)]), shown);
    assert.is(filtered([...Buffer.from(came)].map((byte) => Buffer.of(byte))), shown);
  }
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...WRITTEN), { maxLength: 4 }),
      fc.array(fc.nat(400), { maxLength: 6 }),
      (parts, at) => {
        const came = parts.map(([text]) => `<${text}>`).join('');
        const shown = parts.map(([, text]) => `<${text}>`).join('');
        assert.is(filtered(cut(Buffer.from(came), at)), shown);
      },
    ),
  );
});

test('a key with a slash is found as JSON may write it, and a short one is no secret', () => {
  const key = 'abc/def+ghi=jkl.mno-pqr';
  for (const form of [key, key.replace('/', '\\/'), key.replace('/', '\\u002f')])
    assert.is(filtered([Buffer.from(`"${form}"`)], key), '"[key]"');
  assert.is(KeyBytes.of('x'.repeat(19)), null);
  assert.is(KeyBytes.of(null), null);
});

test('only what may begin the key waits', () => {
  const filter = KeyBytes.of(KEY);
  const shown = (text: string) => filter?.take(Buffer.from(text)).toString();
  assert.is(shown('data: {"a":1}\n\n'), 'data: {"a":1}\n\n');
  assert.is(shown(`a ${KEY.slice(0, 6)}`), 'a ');
  assert.is(shown('!'), `${KEY.slice(0, 6)}!`);
  assert.is(filter?.end().toString(), '');
});

async function withProvider<T>(
  scenario: (x: Exchange) => unknown,
  use: (port: ProviderPort) => Promise<T>,
  config: Parameters<typeof remote>[1] = {},
): Promise<T> {
  const upstream = await Upstream.start(scenario);
  const port = remote(upstream.base_url, {
    ...config,
    config: { key: 'env:TEST_KEY', ...config.config },
  });
  try {
    return await use(port);
  } finally {
    await port.close();
    await upstream.stop();
  }
}

const echo = (key = KEY) => ({
  error: { message: `Incorrect API key: ${key}`, code: key, param: key, type: key },
  models: [{ id: `m-${key}`, name: `m-${key}` }],
  data: [{ url: `https://x/${key}`, revised_prompt: key, b64_json: key, id: `m-${key}` }],
  text: `key ${key}`,
  [key]: key,
});
const bodies = [JSON.stringify(echo()), JSON.stringify(echo()).replaceAll(KEY, escaped(KEY))];

/** All that a client could see. */
function seen(value: unknown): string {
  const failure = value as Partial<SvcError>;
  return JSON.stringify([value, failure?.message, failure?.hint, failure?.details, failure?.param]);
}

const clean = (value: unknown) => {
  const text = seen(value);
  assert.not.ok(text.includes(KEY), text);
  assert.not.ok(text.includes(KEY.slice(4, 20)), text);
};

for (const status of [200, 400, 401, 404, 429, 500])
  test(`with status ${status}, no door shows the key`, async () => {
    for (const body of bodies)
      for (const adapter of [
        'openai-compatible',
        'openai',
        'anthropic',
        'google',
        'mistral',
        'cohere',
      ])
        await withProvider(
          ({ response }) =>
            void response
              .writeHead(status, {
                'content-type': `application/json; x="${KEY}"`,
                'x-request-id': KEY,
                [`x-${KEY}`]: KEY,
              })
              .end(body),
          async (port) => {
            const caught = (asked: Promise<unknown> | undefined) =>
              asked?.catch((thrown) => thrown);
            clean(await caught(port.models(never)));
            clean(await caught(port.embed?.('m', ['a'], {}, never)));
            clean(await caught(port.rank?.('m', 'a', ['b'], never)));
            clean(await caught(outcome(port)));
            for (const path of ['/images/generations', '/audio/transcriptions'])
              clean(await caught(port.pass === undefined ? undefined : passed(port, path)));
          },
          { config: { adapter } },
        );
  });

/** What a client gets of an answer that is passed on. */
async function passed(port: ProviderPort, path: string): Promise<string[]> {
  const got: string[] = [];
  const take = async ({ content_type, body }: PassedAnswer) => {
    got.push(content_type);
    const chunks: Uint8Array[] = [];
    for await (const piece of body) chunks.push(piece);
    got.push(Buffer.concat(chunks).toString());
  };
  const request = { path, model: 'm', content_type: 'application/json', body: '{}', texts: [] };
  await port.pass?.({ ...request, take }, never);
  return got;
}

test('an answer that is passed on has a place for the key, and is else as it came', async () => {
  const image = {
    created: 1,
    data: [{ url: `https://x/?k=${KEY}&a=1`, revised_prompt: `a ${KEY}` }],
  };
  const [, body = ''] = await withProvider(
    (x) => x.reply(200, image),
    (port) => passed(port, '/images/generations'),
  );
  assert.is(body, JSON.stringify(image).replaceAll(KEY, '[key]'));
  const sound = Buffer.from(Array.from({ length: 4096 }, (_, at) => (at * 7) % 256));
  const [, other] = await withProvider(
    ({ response }) => void response.writeHead(200, { 'content-type': 'audio/mpeg' }).end(sound),
    (port) => passed(port, '/audio/transcriptions'),
  );
  assert.is(other, sound.toString());
});

const event = (delta: string, more: object = {}) =>
  `data: ${JSON.stringify({ type: 'transcript.text.delta', delta, ...more })}\n\n`;

/** The texts of a stream of events that was passed on. */
function textsOf(stream: string, field = 'delta'): string {
  return stream
    .split('\n\n')
    .flatMap((block) => /^data: (\{.*\})$/m.exec(block)?.[1] ?? [])
    .map((json) => JSON.parse(json)[field] ?? '')
    .join('');
}

async function throughEvents(pieces: Iterable<string | Buffer>): Promise<string> {
  async function* body() {
    for (const piece of pieces) yield Buffer.from(piece);
  }
  const chunks: Uint8Array[] = [];
  for await (const piece of withoutSplitKey(body(), KEY, defaultLimits.provider_answer_bytes))
    chunks.push(piece);
  return Buffer.concat(chunks).toString();
}

test('a key in pieces is taken out of the events that are passed on', async () => {
  const whole = `before ${KEY} after`;
  for (const size of [1, 2, 3, 5, 7, 11]) {
    const pieces = whole.match(new RegExp(`.{1,${size}}`, 'g')) ?? [];
    const done = `event: done\ndata: ${JSON.stringify({ type: 'transcript.text.done', text: 'whole' })}\n\n`;
    const came = Buffer.from([...pieces.map((piece) => event(piece)), done].join(''));
    for (const step of [1, 17, came.length]) {
      const chunks = Array.from({ length: Math.ceil(came.length / step) }, (_, at) =>
        came.subarray(at * step, (at + 1) * step),
      );
      const shown = await throughEvents(chunks);
      const text = textsOf(shown);
      assert.not.ok(text.includes(KEY.slice(4)), text);
      assert.match(text, /^before s?k?-?\[key\] after$/);
      assert.ok(shown.endsWith(done));
    }
  }
});

test('events without the key go on byte for byte, and each as soon as it has come', async () => {
  const came = [
    ': hello\r\n\r\n',
    `event: a\r\ndata: {"delta" :  "one"}\r\n\r\n`,
    `data: [DONE]\n\n`,
    `data: {"delta":"${KEY.slice(0, 10)}"}\n\n`,
    'data: {"other":1}\n\n',
    'data: {"delta":"rest"}',
  ];
  const stream = await throughEvents(came);
  assert.is(textsOf(stream.replaceAll('\r\n', '\n')), `one${KEY.slice(0, 10)}rest`);
  assert.ok(stream.startsWith(came.slice(0, 3).join('')));
  assert.ok(stream.endsWith(came.slice(4).join('')));
  const iterator = withoutSplitKey(
    (async function* () {
      yield Buffer.from(event('one'));
      throw new Error('no more is needed');
    })(),
    KEY,
    1000,
  )[Symbol.asyncIterator]();
  assert.is(Buffer.from((await iterator.next()).value).toString(), event('one'));
});

test('an event without an end has a bound', async () => {
  const endless = withoutSplitKey(
    (async function* () {
      for (;;) yield Buffer.from('data: xxxxxxxxxxxxxxxxxxxx');
    })(),
    KEY,
    1000,
  );
  const failure = await (async () => {
    for await (const _ of endless) throw new Error('nothing of it goes on');
    return null;
  })().catch((thrown: SvcError) => thrown);
  assert.is(failure?.code, 'stream_oversized');
});

test.run();
