import type { Limits } from '../../src/limits.ts';
import type { ProviderPort } from '../../src/ports/providers.ts';
import { TOKEN } from '../transport/http/boot.ts';
import { bootReal } from '../transport/http/real.ts';
import { remote } from './remote.ts';
import { ScriptedServers } from './scripted-servers.ts';
import { type Exchange, Upstream } from './upstream.ts';

/** Upstreams that answer with opaque data, and need them back. */

export const events = (list: readonly object[]) =>
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
export const THOUGHTS = [
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

export const signedCall = {
  functionCall: { name: 'files__read', args: { n: 1 } },
  thoughtSignature: 'sig-g',
};
const gemini = (part: object) => [
  {
    candidates: [{ content: { parts: [part] }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 5 },
  },
];

const chat = (...choices: object[]) => [
  ...choices.map((choice) => ({ choices: [{ index: 0, ...choice }] })),
  { choices: [], usage: { prompt_tokens: 3, completion_tokens: 5 } },
];
export const EXTRA = { extra_content: { google: { thought_signature: 'sig-"c"\u2028' } } };
export const CHAT_CALL = {
  id: 'call_1',
  type: 'function',
  function: { name: 'files__read', arguments: '{"n":1}' },
};
/** OpenRouter sends its details in pieces, and the signature after the text. */
const plainDetail = { type: 'reasoning.text', format: 'f', index: 0 };
const signature = 'sig-o';
const encrypted = { type: 'reasoning.encrypted', data: 'enc-o', format: 'f', id: 'r1', index: 1 };
export const DETAILS = [{ ...plainDetail, text: 'Hm. Ah.', signature }, encrypted];
const openrouter = [
  { delta: { reasoning: 'Hm.', reasoning_details: [{ ...plainDetail, text: 'Hm.' }] } },
  { delta: { reasoning: ' Ah.', reasoning_details: [{ ...plainDetail, text: ' Ah.' }] } },
  { delta: { tool_calls: [{ index: 0, ...CHAT_CALL }] } },
  { delta: { reasoning_details: [{ ...plainDetail, text: null, signature }, encrypted] } },
  { delta: {}, finish_reason: 'tool_calls' },
];
const CHAT_DONE = chat({ delta: { content: 'done' }, finish_reason: 'stop' });

/** Items of OpenAI's Responses. */
export const THOUGHT_ITEMS = [
  {
    id: 'rs_up_1',
    type: 'reasoning',
    summary: [
      { type: 'summary_text', text: 'Hm.' },
      { type: 'summary_text', text: 'Ah.' },
    ],
    encrypted_content: 'enc-"1"',
  },
  { id: 'rs_up_2', type: 'reasoning', summary: [], encrypted_content: 'enc-2' },
];
export const CALL_ITEM = {
  type: 'function_call',
  call_id: 'call_1',
  name: 'files__read',
  arguments: '{"n":1}',
};
export const response = (...output: object[]) => [
  ...output.flatMap((item, output_index) => [
    { type: 'response.output_item.added', output_index, item: { ...item, summary: [] } },
    { type: 'response.output_item.done', output_index, item: { ...item, status: 'completed' } },
  ]),
  {
    type: 'response.completed',
    response: { output, usage: { input_tokens: 3, output_tokens: 5 } },
  },
];
export const SAID_ITEM = { type: 'message', content: [{ type: 'output_text', text: 'done' }] };

/**
 * The first and the second answer of an upstream, and the data that must come back between them.
 */
export const KINDS = {
  anthropic: { adapter: 'anthropic', called: CALLED, done: DONE, wanted: 'red-1' },
  /** It thinks, and calls nothing. */
  thoughts: {
    adapter: 'anthropic',
    called: [
      ...thinking(0, 'Hm.', 'sig-1'),
      ...block(1, { type: 'text', text: 'done' }),
      ...ended('end_turn'),
    ],
    done: DONE,
    wanted: '',
  },
  google: {
    adapter: 'google',
    called: gemini(signedCall),
    done: gemini({ text: 'done' }),
    wanted: 'sig-g',
  },
  'google as OpenAI': {
    adapter: 'openai-compatible',
    called: chat({
      delta: { tool_calls: [{ index: 0, ...CHAT_CALL, ...EXTRA }] },
      finish_reason: 'tool_calls',
    }),
    done: CHAT_DONE,
    wanted: JSON.stringify(EXTRA).slice(1, -1),
  },
  openrouter: {
    adapter: 'openai-compatible',
    called: chat(...openrouter),
    done: CHAT_DONE,
    wanted: 'enc-o',
  },
  responses: {
    adapter: 'openai',
    called: response(...THOUGHT_ITEMS, { id: 'fc_1', ...CALL_ITEM }),
    done: response(SAID_ITEM),
    wanted: 'enc-2',
  },
} as const;

export const GO = { role: 'user', content: 'go' };

/**
 * An upstream that calls a tool first, and answers only a request that returns the opaque data of
 * the call.
 */
export async function bootOpaque(
  kind: keyof typeof KINDS,
  {
    wanted = KINDS[kind].wanted,
    other,
    limits = {},
  }: { wanted?: string; other?: ProviderPort; limits?: Partial<Limits> } = {},
) {
  const { adapter, called, done } = KINDS[kind];
  const upstream = await Upstream.start(async (x: Exchange) => {
    const { method, body } = x.received;
    if (method === 'GET')
      return void x.reply(200, { data: [{ id: 'm' }], models: [{ name: 'models/m' }] });
    const isSecond = /tool_result|functionResponse|"role":"tool"|function_call_output/.test(body);
    if (isSecond && !body.includes(wanted))
      return void x.reply(400, { error: { message: 'Expected thinking, but found tool_use' } });
    await x.open().write(events(isSecond ? done : called));
    x.end();
  });
  const port = remote(upstream.base_url, { config: { key: 'env:TEST_KEY', adapter }, limits });
  const servers = new ScriptedServers({
    'files/read': { policy: 'allow', run: () => ({ text: '5', is_error: false }) },
  });
  const real = await bootReal({
    remote: {
      lan: { port, kind: 'local' },
      ...(other === undefined ? {} : { other: { port: other, kind: 'local' } }),
    },
    servers,
    limits,
  });
  const ask = async (path: string, body: object) => {
    const response = await fetch(`${real.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'lan/m', ...body }),
    });
    return { status: response.status, text: await response.text() };
  };
  const post = (more: object) => ask('/v1/messages', { max_tokens: 2000, messages: [GO], ...more });
  const complete = (more: object) => ask('/v1/chat/completions', { messages: [GO], ...more });
  const respond = (more: object) => ask('/v1/responses', { input: 'go', ...more });
  const sent = () =>
    upstream.received.filter(({ method }) => method === 'POST').map(({ body }) => JSON.parse(body));
  const close = async () => {
    await real.close();
    await port.close();
    await upstream.stop();
  };
  return { post, complete, respond, sent, close, daemon: real, runtime: real.runtime };
}
