import { crc32 } from 'node:zlib';
import type { ProviderConfig } from '../../src/config/providers/provider.ts';

/**
 * The documented wire formats, chunk by chunk. The reasoning is `Hm.`, the text is `Hello`. A call
 * of the tool `look` may follow. The usage is 3 and 5 tokens.
 */
export interface Wire {
  config: Partial<ProviderConfig>;
  type: string;
  /** The requested path, without its query. */
  path: string;
  /** The header that has the key. */
  keyHeader: string;
  reasoning: string[];
  text: string[];
  call: string[];
  /** The chunks of an answer before them. */
  begin: string[];
  /** The end, for an answer with a call or without one. */
  end(hasCall: boolean): string[];
  /** A chunk that reports an error. */
  error: string;
  broken: string;
  /** Whether it has the reasoning at all. */
  hasReasoning: boolean;
}

const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const event = (value: { type: string }) => `event: ${value.type}\n${data(value)}`;

const chat = (delta: object, finish_reason: string | null = null, more: object = {}) =>
  data({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
    ...more,
  });
const usage = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 };
const chatCall = {
  role: 'assistant',
  tool_calls: [
    {
      index: 0,
      id: 'call00001',
      type: 'function',
      function: { name: 'look', arguments: '{"at":1}' },
    },
  ],
};
const sse = { type: 'text/event-stream', broken: 'data: {"a"\n\n' };

const chatWire = {
  ...sse,
  begin: [chat({ role: 'assistant', content: '' })],
  text: [chat({ content: 'Hel' }), chat({ content: 'lo' })],
  call: [chat(chatCall)],
  error: data({
    error: { message: 'quota used up', type: 'server_error', code: null, param: null },
  }),
};

const item = (type: string, more: object) => event({ type, ...more } as { type: string });
const fnItem = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'look' };
const responses = {
  ...sse,
  keyHeader: 'authorization',
  path: '/v1/responses',
  hasReasoning: true,
  begin: [
    item('response.created', {
      response: { id: 'resp_1', created_at: 1, model: 'm', service_tier: null },
    }),
  ],
  reasoning: [
    item('response.output_item.added', {
      output_index: 0,
      item: { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: null },
    }),
    item('response.reasoning_summary_part.added', { item_id: 'rs_1', summary_index: 0 }),
    item('response.reasoning_summary_text.delta', {
      item_id: 'rs_1',
      summary_index: 0,
      delta: 'Hm.',
    }),
    item('response.output_item.done', {
      output_index: 0,
      item: { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: null },
    }),
  ],
  text: [
    item('response.output_item.added', { output_index: 1, item: { type: 'message', id: 'msg_1' } }),
    item('response.output_text.delta', { item_id: 'msg_1', delta: 'Hel' }),
    item('response.output_text.delta', { item_id: 'msg_1', delta: 'lo' }),
    item('response.output_item.done', { output_index: 1, item: { type: 'message', id: 'msg_1' } }),
  ],
  call: [
    item('response.output_item.added', { output_index: 2, item: { ...fnItem, arguments: '' } }),
    item('response.function_call_arguments.delta', {
      item_id: 'fc_1',
      output_index: 2,
      delta: '{"at":1}',
    }),
    item('response.output_item.done', {
      output_index: 2,
      item: { ...fnItem, arguments: '{"at":1}', status: 'completed' },
    }),
  ],
  end: () => [
    item('response.completed', {
      response: {
        incomplete_details: null,
        usage: {
          input_tokens: 3,
          input_tokens_details: { cached_tokens: 0 },
          output_tokens: 5,
          output_tokens_details: { reasoning_tokens: 0 },
        },
        service_tier: null,
      },
    }),
  ],
  error: item('error', {
    sequence_number: 1,
    error: { type: 'server_error', code: 'server_error', message: 'quota used up', param: null },
  }),
};

const block = (index: number, content_block: object, delta: object) => [
  event({ type: 'content_block_start', index, content_block } as never),
  event({ type: 'content_block_delta', index, delta } as never),
  event({ type: 'content_block_stop', index } as never),
];

const gemini = (parts: object[], more: object = {}) =>
  data({
    candidates: [{ content: { parts, role: 'model' }, index: 0, ...more }],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 5, totalTokenCount: 8 },
  });
const geminiWire = {
  ...sse,
  keyHeader: 'x-goog-api-key',
  path: '/v1/models/m:streamGenerateContent',
  hasReasoning: true,
  begin: [],
  reasoning: [gemini([{ text: 'Hm.', thought: true }])],
  text: [gemini([{ text: 'Hel' }]), gemini([{ text: 'lo' }])],
  call: [gemini([{ functionCall: { name: 'look', args: { at: 1 } } }])],
  end: () => [gemini([{ text: '' }], { finishReason: 'STOP' })],
  error: data({ error: { code: 503, message: 'quota used up', status: 'UNAVAILABLE' } }),
};

const cohere = (type: string, more: object = {}) => event({ type, ...more } as { type: string });
const said = (content: object) => ({ index: 0, delta: { message: { content } } });
const cohereCall = (call: object) => ({ index: 0, delta: { message: { tool_calls: call } } });

/** One frame of Amazon, as binary text. */
export function frame(name: string, value: unknown, kind: 'event' | 'exception' = 'event'): string {
  const header = (key: string, text: string) =>
    Buffer.concat([
      Buffer.from([key.length]),
      Buffer.from(key),
      Buffer.from([7, text.length >> 8, text.length & 255]),
      Buffer.from(text),
    ]);
  const headers = Buffer.concat([
    header(`:${kind}-type`, name),
    header(':content-type', 'application/json'),
    header(':message-type', kind),
  ]);
  const body = Buffer.from(JSON.stringify(value));
  const prelude = Buffer.alloc(12);
  prelude.writeUInt32BE(16 + headers.length + body.length, 0);
  prelude.writeUInt32BE(headers.length, 4);
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8);
  const message = Buffer.concat([prelude, headers, body]);
  const check = Buffer.alloc(4);
  check.writeUInt32BE(crc32(message), 0);
  return Buffer.concat([message, check]).toString('latin1');
}

const delta = (contentBlockIndex: number, part: object) =>
  frame('contentBlockDelta', { contentBlockIndex, delta: part });
const stop = (contentBlockIndex: number) => frame('contentBlockStop', { contentBlockIndex });

export const wires: Record<string, Wire> = {
  'openai (responses)': { ...responses, config: { adapter: 'openai' } },
  'openai (chat)': {
    ...chatWire,
    config: { adapter: 'openai', options: { api: 'chat' } },
    path: '/v1/chat/completions',
    keyHeader: 'authorization',
    hasReasoning: false,
    reasoning: [],
    end: (hasCall) => [
      chat({}, hasCall ? 'tool_calls' : 'stop'),
      data({ ...JSON.parse(chat({}).slice(6)), choices: [], usage }),
      'data: [DONE]\n\n',
    ],
  },
  anthropic: {
    ...sse,
    config: { adapter: 'anthropic' },
    path: '/v1/messages',
    keyHeader: 'x-api-key',
    hasReasoning: true,
    begin: [
      event({
        type: 'message_start',
        message: {
          id: 'msg_1',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { input_tokens: 3, output_tokens: 1 },
        },
      } as never),
    ],
    reasoning: block(
      0,
      { type: 'thinking', thinking: '' },
      { type: 'thinking_delta', thinking: 'Hm.' },
    ),
    text: [
      event({
        type: 'content_block_start',
        index: 1,
        content_block: { type: 'text', text: '' },
      } as never),
      ...['Hel', 'lo'].map((text) =>
        event({
          type: 'content_block_delta',
          index: 1,
          delta: { type: 'text_delta', text },
        } as never),
      ),
      event({ type: 'content_block_stop', index: 1 } as never),
    ],
    call: block(
      2,
      { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} },
      { type: 'input_json_delta', partial_json: '{"at":1}' },
    ),
    end: (hasCall) => [
      event({
        type: 'message_delta',
        delta: { stop_reason: hasCall ? 'tool_use' : 'end_turn', stop_sequence: null },
        usage: { output_tokens: 5 },
      } as never),
      event({ type: 'message_stop' }),
    ],
    error: event({
      type: 'error',
      error: { type: 'overloaded_error', message: 'quota used up' },
    } as never),
  },
  google: { ...geminiWire, config: { adapter: 'google' } },
  vertex: { ...geminiWire, config: { adapter: 'vertex' } },
  mistral: {
    ...chatWire,
    config: { adapter: 'mistral' },
    path: '/v1/chat/completions',
    keyHeader: 'authorization',
    hasReasoning: true,
    reasoning: [
      chat({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'Hm.' }] }] }),
    ],
    end: (hasCall) => [
      chat({ content: '' }, hasCall ? 'tool_calls' : 'stop', { usage }),
      'data: [DONE]\n\n',
    ],
  },
  cohere: {
    ...sse,
    config: { adapter: 'cohere' },
    path: '/v1/chat',
    keyHeader: 'authorization',
    hasReasoning: true,
    begin: [cohere('message-start', { id: 'c1', delta: { message: { role: 'assistant' } } })],
    reasoning: [
      cohere('content-start', said({ type: 'thinking', thinking: '' })),
      cohere('content-delta', said({ thinking: 'Hm.' })),
      cohere('content-end', { index: 0 }),
    ],
    text: [
      cohere('content-start', said({ type: 'text', text: '' })),
      cohere('content-delta', said({ text: 'Hel' })),
      cohere('content-delta', said({ text: 'lo' })),
      cohere('content-end', { index: 0 }),
    ],
    call: [
      cohere(
        'tool-call-start',
        cohereCall({ id: 'look_1', type: 'function', function: { name: 'look', arguments: '' } }),
      ),
      cohere('tool-call-delta', cohereCall({ function: { arguments: '{"at":1}' } })),
      cohere('tool-call-end', { index: 0 }),
    ],
    end: (hasCall) => [
      cohere('message-end', {
        delta: {
          finish_reason: hasCall ? 'TOOL_CALL' : 'COMPLETE',
          usage: { tokens: { input_tokens: 3, output_tokens: 5 } },
        },
      }),
    ],
    error: data({ error: { message: 'quota used up' } }),
  },
  azure: { ...responses, keyHeader: 'api-key', config: { adapter: 'azure' } },
  bedrock: {
    config: { adapter: 'bedrock', options: { region: 'us-east-1' } },
    type: 'application/vnd.amazon.eventstream',
    path: '/v1/model/m/converse-stream',
    keyHeader: 'authorization',
    hasReasoning: true,
    begin: [frame('messageStart', { role: 'assistant' })],
    reasoning: [delta(0, { reasoningContent: { text: 'Hm.' } }), stop(0)],
    text: [delta(1, { text: 'Hel' }), delta(1, { text: 'lo' }), stop(1)],
    call: [
      frame('contentBlockStart', {
        contentBlockIndex: 2,
        start: { toolUse: { toolUseId: 'tool_1', name: 'look' } },
      }),
      delta(2, { toolUse: { input: '{"at":1}' } }),
      stop(2),
    ],
    end: (hasCall) => [
      frame('messageStop', { stopReason: hasCall ? 'tool_use' : 'end_turn' }),
      frame('metadata', {
        usage: { inputTokens: 3, outputTokens: 5, totalTokens: 8 },
        metrics: { latencyMs: 1 },
      }),
    ],
    error: frame('throttlingException', { message: 'quota used up' }, 'exception'),
    broken: frame('contentBlockDelta', { a: 1 }).replace('{"a":1}', '{"a":1 '),
  },
};

/** The bytes of chunks. The binary ones have one character for each byte. */
export function bytesOf(wire: Wire, chunks: readonly string[]): Buffer[] {
  return chunks.map((chunk) =>
    Buffer.from(chunk, wire.config.adapter === 'bedrock' ? 'latin1' : 'utf8'),
  );
}
