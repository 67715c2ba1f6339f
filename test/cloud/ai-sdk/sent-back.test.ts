import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ProviderConfig } from '../../../src/config/providers/provider.ts';
import { CALL_ITEM, KINDS, THOUGHT_ITEMS, THOUGHTS } from '../../helpers/opaque-upstreams.ts';
import { outcome, remote } from '../../helpers/remote.ts';
import { type Exchange, Upstream } from '../../helpers/upstream.ts';
import { bytesOf, frame, type Wire, wires } from '../../helpers/wires.ts';

/** What a package reads of an answer, and must send back: where svc does not read the protocol. */

const CONVERSED = [
  { reasoningContent: { reasoningText: { text: 'Hm.', signature: 'sig-1' } } },
  { reasoningContent: { redactedContent: 'cmVkLTE=' } },
];
const [WHOLE_ITEM] = THOUGHT_ITEMS;

/** Whole answers of servers, and where the next request has what is opaque in them. */
const WHOLE: [Partial<ProviderConfig>, object, string, unknown][] = [
  [
    { adapter: 'anthropic' },
    {
      type: 'message',
      id: 'm',
      model: 'm',
      role: 'assistant',
      stop_reason: 'tool_use',
      content: [
        ...THOUGHTS.slice(0, 2),
        { type: 'tool_use', id: 'call_1', name: 'look', input: {} },
      ],
      usage: { input_tokens: 3, output_tokens: 5 },
    },
    'messages.1.content',
    [...THOUGHTS.slice(0, 2), { type: 'tool_use', id: 'call_1', name: 'look', input: {} }],
  ],
  [
    { adapter: 'google' },
    KINDS.google.called[0] as object,
    'contents.1.parts.0.thoughtSignature',
    'sig-g',
  ],
  [
    { adapter: 'openai' },
    {
      id: 'resp_1',
      created_at: 1,
      model: 'm',
      incomplete_details: null,
      error: null,
      output: [WHOLE_ITEM, { id: 'fc_1', ...CALL_ITEM }],
      usage: { input_tokens: 3, output_tokens: 5 },
    },
    'input.1',
    { ...WHOLE_ITEM, summary: [{ type: 'summary_text', text: 'Hm.Ah.' }] },
  ],
  [
    { adapter: 'bedrock', options: { region: 'us-east-1' } },
    {
      output: {
        message: {
          role: 'assistant',
          content: [...CONVERSED, { toolUse: { toolUseId: 'call_1', name: 'look', input: {} } }],
        },
      },
      stopReason: 'tool_use',
      usage: { inputTokens: 3, outputTokens: 5, totalTokens: 8 },
    },
    'messages.1.content',
    [...CONVERSED, { toolUse: { toolUseId: 'call_1', name: 'look', input: {} } }],
  ],
];

/** Asks twice: the second time with the first answer. Returns what is there in that request. */
async function sentBack(
  config: Partial<ProviderConfig>,
  reply: (x: Exchange) => unknown,
  at: string,
) {
  const upstream = await Upstream.start(async (x: Exchange) => void (await reply(x)));
  const port = remote(upstream.base_url, { config: { key: 'env:TEST_KEY', ...config } });
  const user = { role: 'user' as const, content: [{ type: 'text' as const, text: 'go' }] };
  const tools = [{ name: 'look', description: null, parameters: { type: 'object' } }];
  try {
    const { parts, failure } = await outcome(port, { request: { seed_asked: false, tools } });
    assert.is(failure, null);
    const [call] = parts.filter(({ type }) => type === 'tool_call') as { id: string }[];
    const result = { type: 'tool_result' as const, id: call?.id ?? '', text: '5', is_error: false };
    const messages = [
      user,
      { role: 'assistant' as const, content: parts },
      call === undefined ? user : { role: 'tool' as const, content: [result] },
    ];
    await outcome(port, { request: { seed_asked: false, tools, messages } });
    const body = JSON.parse(upstream.received[1]?.body ?? '');
    return at.split('.').reduce((value, name) => value?.[name], body);
  } finally {
    await port.close();
    await upstream.stop();
  }
}

for (const [config, answer, at, expected] of WHOLE)
  test(`${config.adapter}: what is opaque in a whole answer goes back`, async () => {
    const reply = (x: Exchange) => x.reply(200, answer);
    assert.equal(await sentBack({ ...config, stream: false }, reply, at), expected);
  });

test('bedrock: a signature that comes in a stream goes back', async () => {
  const delta = (of: object) =>
    frame('contentBlockDelta', { contentBlockIndex: 0, delta: { reasoningContent: of } });
  const wire = wires.bedrock as Wire;
  const chunks = [
    ...wire.begin,
    delta({ text: 'Hm.' }),
    delta({ signature: 'sig-1' }),
    frame('contentBlockStop', { contentBlockIndex: 0 }),
    ...wire.text,
    ...wire.end(false),
  ];
  const reply = async (x: Exchange) => {
    await x.open({ 'content-type': wire.type }).write(Buffer.concat(bytesOf(wire, chunks)));
    x.end();
  };
  assert.equal(await sentBack(wire.config, reply, 'messages.1.content.0'), CONVERSED[0]);
});

test.run();
