import { deflateSync } from 'node:zlib';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Limits } from '../../../src/limits.ts';
import { lineOf, pdfOf } from '../../helpers/pdf.ts';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { bootReal, type Real } from '../../transport/http/real.ts';

/** Documents reach a model as text. A PDF file may be hostile. */
const test = suite<{ real: Real }>('documents of Anthropic');

const script = [output('Read.', 1), finish()];
test.before.each(async (context) => {
  context.real = await bootReal({ script });
});
test.after.each(({ real }) => real.close());

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } };
const text = (said: string) => ({ type: 'text', text: said });
const file = (data: Buffer, media_type = 'application/pdf') => ({
  type: 'document',
  source: { type: 'base64', media_type, data: data.toString('base64') },
});
const TWO = pdfOf([lineOf('The first page.'), lineOf('The second page.')]);

function send(real: Real, content: object[], more: object = {}) {
  const messages = [{ role: 'user', content }];
  const body = { model: 'local/svc-mini', max_tokens: 9, messages, ...more };
  return real.get('/v1/messages', { method: 'POST', body });
}

async function refusal(real: Real, block: object): Promise<string> {
  const { status, json } = await send(real, [block]);
  assert.equal([status, json.error.type], [400, 'invalid_request_error']);
  return json.error.message;
}

const withLimits = (limits: Partial<Limits>) => bootReal({ script, limits });

test('each kind of document is a text in its place', async ({ real }) => {
  const about = { title: 'A "report"', context: 'It is old.', citations: { enabled: false } };
  const answer = await send(real, [
    { ...file(TWO), ...about, cache_control: { type: 'ephemeral' } },
    file(Buffer.from('{"a": "ä"}'), 'application/json; charset=utf-8'),
    { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Plain.' } },
    { type: 'document', source: { type: 'content', content: 'Short.' } },
    { type: 'document', source: { type: 'content', content: [text('See'), image] } },
    text('What is it?'),
  ]);
  assert.is(answer.status, 200);
  assert.equal(real.provider.asked[0]?.request.messages, [
    {
      role: 'user',
      content: [
        text(
          '<document title="A \\"report\\"">\nIt is old.\n\n' +
            'The first page.\n\nThe second page.\n</document>',
        ),
        text('<document>\n{"a": "ä"}\n</document>'),
        text('<document>\nPlain.\n</document>'),
        text('<document>\nShort.\n</document>'),
        text('<document>\n'),
        text('See'),
        { type: 'image', media_type: 'image/png', data: PNG },
        text('\n</document>'),
        text('What is it?'),
      ],
    },
  ]);
});

test('the result of a tool may have documents', async ({ real }) => {
  const content = [text('Found:'), file(TWO)];
  const { status } = await send(real, [], {
    messages: [
      { role: 'user', content: 'Look' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'see', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content }] },
    ],
  });
  assert.is(status, 200);
  assert.equal(real.provider.asked[0]?.request.messages.at(-1)?.content, [
    {
      type: 'tool_result',
      id: 'c1',
      is_error: false,
      text: 'Found:\n<document>\nThe first page.\n\nThe second page.\n</document>',
    },
  ]);
});

test('a document without text, or of another kind, is refused by name', async ({ real }) => {
  const data = 'messages.0.content.0.source.data';
  const cases: [object, string][] = [
    [file(pdfOf(['0 0 m 10 10 l S'])), `${data} has no text, so it shows pictures only.`],
    [file(Buffer.from('no file')), `${data} is no PDF file that can be read`],
    [file(Buffer.alloc(0)), `${data} is no PDF file that can be read`],
    [file(Buffer.from([0xff, 0xfe]), 'text/plain'), `${data} is not UTF-8 text.`],
    [
      { type: 'document', source: { ...file(TWO, 'text/plain').source, data: '%%%%' } },
      `${data} is not base64.`,
    ],
    [file(TWO, 'application/msword'), `${data} is of the type "application/msword".`],
    [
      { type: 'document', source: { type: 'url', url: 'https://x/y.pdf' } },
      'messages.0.content.0.source.type must be base64, text or content',
    ],
    [{ ...file(TWO), citations: { enabled: true } }, 'citations.enabled must be false'],
  ];
  for (const [block, message] of cases) assert.match(await refusal(real, block), message);
  assert.is(real.provider.asked.length, 0);
});

test('a hostile file ends its own request, and nothing else', async () => {
  const bomb = pdfOf([deflateSync(Buffer.alloc(400 * 1024 * 1024, ' '))]);
  const small = await withLimits({ document_memory_bytes: 64 * 1024 * 1024 });
  assert.match(await refusal(small, file(bomb)), 'needs too much memory to read');
  assert.is((await send(small, [file(TWO)])).status, 200);
  await small.close();
  const endless = pdfOf([`${lineOf('again')}\n`.repeat(200_000)]);
  const short = await withLimits({ document_ms: 100 });
  assert.match(await refusal(short, file(endless)), 'takes longer than 100 ms to read');
  await short.close();
  const few = await withLimits({ document_pages: 1, documents: 1 });
  const three = pdfOf([1, 2, 3].map((page) => lineOf(`Page ${page}.`)));
  assert.match(await refusal(few, file(three)), 'has 3 pages; at most 1 are read');
  const slow = Array.from({ length: 3 }, (_, index) =>
    send(few, [file(pdfOf([`${lineOf(`again ${index}`)}\n`.repeat(1000)]))]),
  );
  const statuses = (await Promise.all(slow)).map(({ status }) => status);
  assert.equal(statuses.sort(), [200, 429, 429]);
  await few.close();
});

test('a file that the next turn sends again is not read again', async ({ real }) => {
  const fresh = file(pdfOf([lineOf('Read once.')]));
  assert.is((await send(real, [fresh])).status, 200);
  const short = await withLimits({ document_ms: 100, documents: 1 });
  const all = await Promise.all(Array.from({ length: 5 }, () => send(short, [fresh])));
  for (const { status } of all) assert.is(status, 200);
  await short.close();
});

test('the same file twice at one time is kept once', async ({ real }) => {
  const text = (letter: string) => `${lineOf(letter.repeat(80))}\n`.repeat(10_000);
  const [twice, other] = ['a', 'b'].map((letter) => file(pdfOf([text(letter)])));
  assert.ok(twice !== undefined && other !== undefined);
  await Promise.all(Array.from({ length: 12 }, () => send(real, [twice])));
  assert.is((await send(real, [other])).status, 200);
  const short = await withLimits({ document_ms: 100 });
  for (const kept of [twice, other]) assert.is((await send(short, [kept])).status, 200);
  await short.close();
});

test.run();
