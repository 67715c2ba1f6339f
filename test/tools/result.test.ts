import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../src/limits.ts';
import { resultOf } from '../../src/tools/result.ts';
import { bootToolServers, scripted, type ToolServersHarness } from '../helpers/tool-servers.ts';

const open: ToolServersHarness[] = [];
test.after.each(async () => {
  for (const harness of open.splice(0)) await harness.leave();
});

const text = (value: unknown) => ({ type: 'text', text: value });
const read = (result: unknown, limits = {}) => resultOf(result, { ...defaultLimits, ...limits });
const textOf = (result: unknown, limits = {}) => read(result, limits).text;

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg==';
const WAV = Buffer.from('RIFF\x0a\0\0\0WAVEfmt \0\0', 'latin1').toString('base64');
const TYPES = 'models take image/png, image/jpeg, image/gif, image/webp, audio/wav, audio/mpeg';

const FORMS: readonly [what: string, result: object, text: string][] = [
  [
    'an unknown part beside a text',
    { content: [{ type: 'chart', rows: 3 }, text('5')] },
    '[svc: a part of type "chart" was left out]\n5',
  ],
  ['no content', {}, ''],
  ['content that is null', { content: null }, ''],
  [
    'content that is a text',
    { content: 'five' },
    '[svc: the content is not a list, and was left out]',
  ],
  [
    'a part that is null',
    { content: [null, text('5')] },
    '[svc: a part without a type was left out]\n5',
  ],
  ['a part that is a text', { content: ['5'] }, '[svc: a part without a type was left out]'],
  [
    'a text that is a number',
    { content: [text(5)] },
    '[svc: a part of type "text" was left out: it has no text]',
  ],
  [
    'a type with commands',
    { content: [{ type: '\u001b[2J"\n' }] },
    '[svc: a part of type "\u{fffd}[2J\\" " was left out]',
  ],
];

for (const [what, result, expected] of FORMS)
  test(`${what} is a result`, async () => {
    const harness = await bootToolServers({ x: scripted(['says']) });
    open.push(harness);
    const options = { id: 'call_1', signal: AbortSignal.timeout(60_000), timeout_ms: 30_000 };
    assert.equal(await harness.servers.call('x', 'say', { result }, options), {
      text: expected,
      is_error: false,
    });
  });

test('structured content follows the text, also that of an error', () => {
  const structuredContent = { code: 7 };
  assert.equal(read({ content: [text('It failed.')], structuredContent, isError: true }), {
    text: 'It failed.\n{"code":7}',
    is_error: true,
  });
  assert.is(textOf({ structuredContent: { code: 7 } }), '{"code":7}');
  assert.is(textOf({ content: null, structuredContent: [1] }), '[1]');
  assert.is(textOf({ content: [text('x')], structuredContent: null }), 'x');
});

test('structured content that the text has already comes once', () => {
  const once = (written: string, structuredContent: unknown) =>
    assert.is(textOf({ content: [text(written)], structuredContent }), written);
  once('{ "b": [1.0, 2], "a": "é" }', { a: 'é', b: [1, 2] });
  once('hello', { result: 'hello' });
  once('5', { result: '5' });
  assert.is(
    textOf({ content: [text('hello')], structuredContent: { result: 'hello', more: 1 } }),
    'hello\n{"result":"hello","more":1}',
  );
  once('[1,2]', { result: [1, 2] });
  assert.is(
    textOf({ content: [text('a'), text('2')], structuredContent: { result: ['a', 2] } }),
    'a\n2',
  );
  assert.is(
    textOf({ content: [text('{"a":1}')], structuredContent: { a: 2 } }),
    '{"a":1}\n{"a":2}',
  );
  assert.is(
    textOf({ content: [text('Sunny.'), text('{"a":1}')], structuredContent: { a: 1 } }),
    'Sunny.\n{"a":1}',
  );
});

test('a link and an embedded text name their source, and what is no text is named', () => {
  assert.is(
    textOf({
      content: [
        { type: 'resource_link', uri: 'file:///a.txt', name: 'a.txt', mimeType: 'text/plain' },
        { type: 'resource_link', uri: 'db://1', name: 'one', description: 'The\nfirst.' },
        { type: 'resource_link' },
        { type: 'resource', resource: { uri: 'file:///b.md', text: '# B' } },
        {
          type: 'resource',
          resource: { uri: 'file:///c.zip', mimeType: 'application/zip', blob: 'UEsDBA==' },
        },
        { type: 'resource', resource: null },
      ],
    }),
    [
      '[link: file:///a.txt "a.txt" text/plain]',
      '[link: db://1 "one": The first.]',
      '[svc: a part of type "resource_link" was left out: it has no address]',
      '[resource: file:///b.md]\n# B',
      '[resource: file:///c.zip]',
      `[svc: its content (application/zip, 4 bytes) was left out: ${TYPES}]`,
      '[svc: a part of type "resource" was left out: it has no content]',
    ].join('\n'),
  );
});

test('images and sounds are files of the result, and the text counts them', () => {
  const image = { type: 'image', mimeType: 'image/jpeg', data: PNG };
  assert.equal(
    read({
      content: [
        text('Two:'),
        image,
        {
          type: 'resource',
          resource: { uri: 'file:///a.wav', blob: `${WAV.slice(0, 8)}\n${WAV.slice(8)}` },
        },
        { type: 'image', mimeType: 'image/bmp', data: 'Qk0=' },
        { type: 'image', mimeType: 'image/png', data: '%%' },
        { type: 'audio' },
      ],
    }),
    {
      text: [
        'Two:',
        '[file 1: image/png, 70 bytes]',
        '[resource: file:///a.wav]',
        '[file 2: audio/wav, 18 bytes]',
        `[svc: a part of type "image" (image/bmp, 2 bytes) was left out: ${TYPES}]`,
        '[svc: a part of type "image" was left out: its data is not base64]',
        `[svc: a part of type "audio" (0 bytes) was left out: ${TYPES}]`,
      ].join('\n'),
      is_error: false,
      media: [
        { type: 'image', media_type: 'image/png', data: PNG },
        { type: 'audio', media_type: 'audio/wav', data: WAV },
      ],
    },
  );
});

test('the files of a result have a bound', () => {
  const image = { type: 'image', mimeType: 'image/png', data: PNG };
  const content = [image, image, image];
  const limits = { mcp_files_bytes: 2 * PNG.length };
  assert.is(read({ content }, limits).media?.length, 2);
  assert.is(read({ content: [image] }, { mcp_files_bytes: PNG.length }).media?.length, 1);
  const { media, ...rest } = read({ content: [image] }, { mcp_files_bytes: PNG.length - 1 });
  assert.is(media, undefined);
  assert.is(
    rest.text,
    '[svc: a part of type "image" (image/png, 70 bytes) was left out: ' +
      `the files of the result have more than ${PNG.length - 1} bytes as base64]`,
  );
});

test('the bytes and the parts of a result have a bound', () => {
  const limits = { mcp_result_bytes: 1024, mcp_result_parts: 3 };
  const parts = (count: number) => ({ content: Array.from({ length: count }, () => text('a')) });
  assert.is(textOf(parts(3), limits), 'a\na\na');
  assert.is(textOf(parts(5), limits), 'a\na\na\n[svc: 2 more parts were left out]');
  assert.is(textOf({ content: [text('a'.repeat(1024))] }, limits), 'a'.repeat(1024));
  assert.is(
    textOf({ content: [text('a'.repeat(1025))], structuredContent: { b: 1 } }, limits),
    `${'a'.repeat(1024)}\n[svc: cut here; 1025 bytes in all, 1024 at most]`,
  );
});

test.run();
