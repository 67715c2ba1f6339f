import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { MediaPart, Message, ToolResultPart } from '../../src/contract/messages/parts.ts';
import { outcome, remote } from '../helpers/remote.ts';
import { type Exchange, Upstream } from '../helpers/upstream.ts';
import { bytesOf, type Wire, wires } from '../helpers/wires.ts';

/** What each API gets of a result with an image. */

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg==';
const image: MediaPart = { type: 'image', media_type: 'image/png', data: PNG };
const sound: MediaPart = { type: 'audio', media_type: 'audio/wav', data: 'UklGRg==' };
const TEXT = 'A dot:\n[file 1: image/png, 70 bytes]';

const conversation = (result: Partial<ToolResultPart> = {}): Message[] => [
  { role: 'user', content: [{ type: 'text', text: 'Look.' }] },
  {
    role: 'assistant',
    content: [{ type: 'tool_call', id: 'call00001', name: 'look', arguments: '{}' }],
  },
  {
    role: 'tool',
    content: [
      {
        type: 'tool_result',
        id: 'call00001',
        text: TEXT,
        is_error: false,
        media: [image],
        ...result,
      },
    ],
  },
];

const LOOK = { name: 'look', description: 'Looks.', parameters: { type: 'object' } };
/** The adapter that svc has itself. */
const PLAIN = { ...(wires['openai (chat)'] as Wire), config: {} };

type Refusal = [status: number, words: string];

/** Asks once for each list of messages. The upstream refuses requests that have an image. */
async function bodies(
  { wire = PLAIN, model = 'm', refusal }: { wire?: Wire; model?: string; refusal?: Refusal },
  ...asked: Message[][]
) {
  const chunks = bytesOf(wire, [...wire.begin, ...wire.text, ...wire.end(false)]);
  const upstream = await Upstream.start(async (x: Exchange) => {
    if (refusal !== undefined && x.received.body.includes(PNG))
      return void x.reply(refusal[0], { error: { message: refusal[1] } });
    x.open({ 'content-type': wire.type });
    for (const bytes of chunks) await x.write(bytes);
    x.end();
  });
  const provider = remote(upstream.base_url, { config: { key: 'env:TEST_KEY', ...wire.config } });
  try {
    const failures: (string | null)[] = [];
    for (const messages of asked) {
      const { failure } = await outcome(provider, {
        request: { messages, model, tools: [LOOK], seed_asked: false },
      });
      failures.push(failure === null ? null : `${failure.code}: ${failure.message}`);
    }
    const received = upstream.received.map(({ body }) => JSON.parse(body));
    return { failures, received };
  } finally {
    await provider.close();
    await upstream.stop();
  }
}

const URL = `data:image/png;base64,${PNG}`;
const TITLE = 'File 1 of the result of the tool call call00001:';
const OMITTED = '[svc: file 1 was left out: the model takes no images of tools]';
const RESULT = { role: 'tool', tool_call_id: 'call00001', content: TEXT };
const CHAT = [
  RESULT,
  {
    role: 'user',
    content: [
      { type: 'text', text: TITLE },
      { type: 'image_url', image_url: { url: URL } },
    ],
  },
];
const RESPONSES = [
  {
    type: 'function_call_output',
    call_id: 'call00001',
    output: [
      { type: 'input_text', text: TEXT },
      { type: 'input_image', image_url: URL },
    ],
  },
];
const inlineData = { mimeType: 'image/png', data: PNG };
const SAID = 'Tool executed successfully and returned this image as a response';
const gemini = (id: object) => [
  {
    role: 'user',
    parts: [
      { functionResponse: { ...id, name: 'look', response: { name: 'look', content: TEXT } } },
      { inlineData },
      { text: SAID },
    ],
  },
];

/** What follows the call in the body, by the name of the wire. */
const FORMS: Record<string, [field: string, after: unknown[]]> = {
  'openai (responses)': ['input', RESPONSES],
  'openai (chat)': ['messages', CHAT],
  azure: ['input', RESPONSES],
  anthropic: [
    'messages',
    [
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'call00001',
            content: [
              { type: 'text', text: TEXT },
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
            ],
          },
        ],
      },
    ],
  ],
  google: ['contents', gemini({ id: 'call00001' })],
  vertex: ['contents', gemini({})],
  bedrock: [
    'messages',
    [
      {
        role: 'user',
        content: [
          {
            toolResult: {
              toolUseId: 'call00001',
              content: [{ text: TEXT }, { image: { format: 'png', source: { bytes: PNG } } }],
            },
          },
        ],
      },
    ],
  ],
  mistral: ['messages', [{ ...RESULT, name: 'look', content: `${TEXT}\n${OMITTED}` }]],
  cohere: ['messages', [{ ...RESULT, content: `${TEXT}\n${OMITTED}` }]],
};

test('there is a form for each wire', () => {
  assert.equal(Object.keys(FORMS).toSorted(), Object.keys(wires).toSorted());
});

for (const [name, [field, after]] of Object.entries(FORMS))
  test(`${name}: an image of a result is in its own form`, async () => {
    const { received, failures } = await bodies({ wire: wires[name] as Wire }, conversation());
    assert.equal(failures, [null]);
    assert.equal(received[0][field].slice(2), after);
  });

const called = (body: Record<string, never>): unknown[] => {
  const all: unknown[] = [];
  JSON.stringify(body, (name, value) => {
    if (['arguments', 'input', 'args'].includes(name) && !Array.isArray(value)) all.push(value);
    return value;
  });
  return all;
};

for (const [name, wire] of Object.entries(wires))
  test(`${name}: the arguments of an earlier call are written once`, async () => {
    const { received } = await bodies({ wire }, conversation());
    const [args] = called(received[0]);
    assert.equal(typeof args === 'string' ? JSON.parse(args) : args, {});
  });

test('Gemini 3 takes images in the result', async () => {
  const { received } = await bodies(
    { wire: wires.google as Wire, model: 'gemini-3-pro' },
    conversation(),
  );
  const response = { name: 'look', content: TEXT };
  assert.equal(received[0].contents.slice(2), [
    {
      role: 'user',
      parts: [
        { functionResponse: { id: 'call00001', name: 'look', response, parts: [{ inlineData }] } },
      ],
    },
  ]);
});

test('a server with the API of OpenAI gets images after the results of a turn', async () => {
  const [asked, called, results] = conversation();
  const both: Message = {
    role: 'tool',
    content: [
      ...(results?.content ?? []),
      { type: 'tool_result', id: 'b', text: 'none', is_error: false },
      {
        type: 'tool_result',
        id: 'c',
        text: '[file 1: audio/wav, 4 bytes]',
        is_error: false,
        media: [sound],
      },
    ],
  };
  const { received } = await bodies({}, [asked, called, both] as Message[]);
  assert.equal(received[0].messages.slice(2), [
    RESULT,
    { role: 'tool', tool_call_id: 'b', content: 'none' },
    { role: 'tool', tool_call_id: 'c', content: '[file 1: audio/wav, 4 bytes]' },
    {
      role: 'user',
      content: [
        ...(CHAT[1] as { content: object[] }).content,
        { type: 'text', text: 'File 1 of the result of the tool call c:' },
        { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
      ],
    },
  ]);
});

test('an error with an image stays an error, and the image follows it', async () => {
  const { received } = await bodies(
    { wire: wires.anthropic as Wire },
    conversation({ is_error: true }),
  );
  assert.equal(received[0].messages[2], {
    role: 'user',
    content: [
      { type: 'tool_result', tool_use_id: 'call00001', content: TEXT, is_error: true },
      { type: 'text', text: TITLE },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
    ],
  });
});

test('a kind of file that an API does not take is named, and the other one is sent', async () => {
  const text = 'Both.';
  const { received } = await bodies(
    { wire: wires.anthropic as Wire },
    conversation({ text, media: [sound, image] }),
  );
  assert.equal(received[0].messages[2].content[0].content, [
    { type: 'text', text: 'Both.\n[svc: file 1 was left out: the model takes no audio of tools]' },
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
  ]);
});

const REFUSALS: Refusal[] = [
  [500, 'image input is not supported - hint: if this is unexpected, provide the mmproj'],
  [404, 'No endpoints found that support image input'],
  [400, 'm is not a multimodal model'],
  [400, "Unexpected role 'user' after role 'tool'"],
];
for (const refusal of REFUSALS)
  test(`a model that refuses images (${refusal.join(' ')}) gets none from then on`, async () => {
    const { received, failures } = await bodies({ refusal }, conversation(), conversation());
    assert.equal(failures, [null, null]);
    const blind = [{ ...RESULT, content: `${TEXT}\n${OMITTED}` }];
    assert.equal(
      received.map(({ messages }) => messages.slice(2)),
      [CHAT, blind, blind],
    );
  });

test('an image that is too large is left out, and the next one is sent', async () => {
  const refusal: Refusal = [400, 'image exceeds 5 MB maximum: 6 MB'];
  const { received, failures } = await bodies({ refusal }, conversation(), conversation());
  assert.equal(failures, [null, null]);
  assert.is(received.length, 4);
  assert.equal(received[2], received[0]);
});

test('another refusal is not tried again, and an image of the user is no file of a tool', async () => {
  const other = await bodies({ refusal: [400, 'no such parameter'] }, conversation());
  assert.is(other.received.length, 1);
  const own: Message[] = [{ role: 'user', content: [image] }];
  const users = await bodies({ refusal: [400, 'no image input'] }, own);
  assert.is(users.received.length, 1);
  assert.match(users.failures[0] ?? '', /no image input/);
});

test.run();
