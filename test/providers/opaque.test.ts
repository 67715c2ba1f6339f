import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { outcome, remote } from '../helpers/remote.ts';
import { ScriptedServers } from '../helpers/scripted-servers.ts';
import { type Exchange, Upstream } from '../helpers/upstream.ts';
import { TOKEN } from '../transport/http/boot.ts';
import { bootReal } from '../transport/http/real.ts';

/** What a provider must get back with its answer, it gets back. Each upstream refuses without. */

const events = (list: readonly object[]) =>
  list.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
const block = (index: number, content_block: object, ...deltas: object[]) => [
  { type: 'content_block_start', index, content_block },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
  { type: 'content_block_stop', index },
];
const ended = (stop_reason: string) => [
  { type: 'message_delta', delta: { stop_reason }, usage: { input_tokens: 3, output_tokens: 5 } },
  { type: 'message_stop' },
];
const THOUGHTS = [
  { type: 'thinking', thinking: 'Hm.', signature: 'sig-1' },
  { type: 'redacted_thinking', data: 'red-1' },
  { type: 'thinking', thinking: 'Ah.', signature: 'sig-2' },
];
const thinking = (index: number, text: string, signature: string) =>
  block(
    index,
    { type: 'thinking', thinking: '', signature: '' },
    { type: 'thinking_delta', thinking: text },
    { type: 'signature_delta', signature },
  );
const CALLED = [
  ...thinking(0, 'Hm.', 'sig-1'),
  ...block(1, { type: 'redacted_thinking', data: 'red-1' }),
  ...thinking(2, 'Ah.', 'sig-2'),
  ...block(3, { type: 'tool_use', id: 'toolu_1', name: 'files__read', input: { n: 1 } }),
  ...ended('tool_use'),
];
const DONE = [...block(0, { type: 'text', text: 'done' }), ...ended('end_turn')];

const signedCall = {
  functionCall: { name: 'files__read', args: { n: 1 } },
  thoughtSignature: 'sig-g',
};
const gemini = (part: object) => [
  {
    candidates: [{ content: { parts: [part] }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 5 },
  },
];

/** An upstream that calls a tool first, and answers only who returns what came with the call. */
async function boot(adapter: 'anthropic' | 'google') {
  const [called, done] =
    adapter === 'anthropic' ? [CALLED, DONE] : [gemini(signedCall), gemini({ text: 'done' })];
  const wanted = adapter === 'anthropic' ? 'red-1' : 'sig-g';
  const upstream = await Upstream.start(async (x: Exchange) => {
    const { method, body } = x.received;
    if (method === 'GET')
      return void x.reply(200, { data: [{ id: 'm' }], models: [{ name: 'models/m' }] });
    const isSecond = /tool_result|functionResponse/.test(body);
    if (isSecond && !body.includes(wanted))
      return void x.reply(400, { error: { message: 'Expected thinking, but found tool_use' } });
    await x.open().write(events(isSecond ? done : called));
    x.end();
  });
  const port = remote(upstream.base_url, { config: { key: 'env:TEST_KEY', adapter } });
  const servers = new ScriptedServers({
    'files/read': { policy: 'allow', run: () => ({ text: '5', is_error: false }) },
  });
  const real = await bootReal({ remote: { lan: { port, kind: 'local' } }, servers });
  const post = async (more: object) => {
    const response = await fetch(`${real.url}/v1/messages`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'lan/m', max_tokens: 2000, messages: [GO], ...more }),
    });
    return { status: response.status, text: await response.text() };
  };
  const sent = () =>
    upstream.received.filter(({ method }) => method === 'POST').map(({ body }) => JSON.parse(body));
  const close = async () => {
    await real.close();
    await port.close();
    await upstream.stop();
  };
  return { post, sent, close };
}

const GO = { role: 'user', content: 'go' };
const SERVERS = { mcp_servers: [{ type: 'url', name: 'files', url: '' }] };
const TOOLS = { tools: [{ name: 'files__read', input_schema: { type: 'object' } }] };
const BUDGET = { thinking: { type: 'enabled', budget_tokens: 1024 } };
const USE = { type: 'tool_use', id: 'toolu_1', name: 'files__read', input: { n: 1 } };

test('anthropic: a tool loop returns thoughts with their signatures, and max_tokens stays', async () => {
  const { post, sent, close } = await boot('anthropic');
  try {
    const { status, text } = await post({ ...SERVERS, ...BUDGET });
    assert.is(status, 200, text);
    const [first, second] = sent();
    assert.equal([first.max_tokens, first.thinking.budget_tokens], [2000, 1024]);
    assert.equal(second.messages[1], { role: 'assistant', content: [...THOUGHTS, USE] });
  } finally {
    await close();
  }
});

test('google: a tool loop returns the signature of a call', async () => {
  const { post, sent, close } = await boot('google');
  try {
    const { status, text } = await post(SERVERS);
    assert.is(status, 200, text);
    assert.equal(
      sent()[1].contents[1].parts.map((part: object) => ({ ...part })),
      [{ ...signedCall, functionCall: { ...sent()[1].contents[1].parts[0].functionCall } }],
    );
  } finally {
    await close();
  }
});

test('anthropic: a client gets thoughts in the form of the API, whole and streamed, and returns them', async () => {
  const { post, sent, close } = await boot('anthropic');
  try {
    const { content } = JSON.parse((await post({ ...TOOLS, ...BUDGET })).text);
    assert.equal(content.slice(0, 3), THOUGHTS);
    const streamed = await post({ ...TOOLS, ...BUDGET, stream: true });
    const blocks = streamed.text
      .split('\n')
      .flatMap((line) => (line.startsWith('data: ') ? [JSON.parse(line.slice(6))] : []));
    assert.equal(
      blocks.flatMap(({ content_block, delta }) =>
        content_block?.type === 'redacted_thinking'
          ? [content_block.data]
          : delta?.type === 'signature_delta'
            ? [delta.signature]
            : [],
      ),
      ['sig-1', 'red-1', 'sig-2'],
    );
    const result = { type: 'tool_result', tool_use_id: 'toolu_1', content: '5' };
    const messages = [GO, { role: 'assistant', content }, { role: 'user', content: [result] }];
    const again = await post({ ...TOOLS, ...BUDGET, messages });
    assert.is(again.status, 200, again.text);
    assert.equal(sent()[2].messages[1].content, [...THOUGHTS, USE]);
  } finally {
    await close();
  }
});

test('what is opaque goes to no other provider and no other model', async () => {
  const upstream = await Upstream.start(async (x: Exchange) => {
    await x.open().write(events(DONE));
    x.end();
  });
  const port = remote(upstream.base_url, { config: { key: 'env:TEST_KEY', adapter: 'anthropic' } });
  const from = (provider: string, model: string) => ({
    type: 'reasoning' as const,
    text: `${provider} ${model}`,
    opaque: { form: 'signature', data: 'sig', provider, model },
  });
  const user = { role: 'user' as const, content: [{ type: 'text' as const, text: 'go' }] };
  try {
    const content = [from('test', 'm'), from('test', 'n'), from('other', 'm')];
    const messages = [user, { role: 'assistant' as const, content }, user];
    const { failure } = await outcome(port, { request: { messages, seed_asked: false } });
    assert.is(failure, null);
    const sent = JSON.parse(upstream.received[0]?.body ?? '');
    const own = { type: 'thinking', thinking: 'test m', signature: 'sig' };
    assert.equal(sent.messages[1].content, [own]);
  } finally {
    await port.close();
    await upstream.stop();
  }
});

test.run();
