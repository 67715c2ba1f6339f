import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunInput } from '../../src/contract/contract.ts';
import type { Opaque } from '../../src/contract/messages/parts.ts';
import { settled } from '../helpers/calling-model.ts';
import {
  bootOpaque,
  CALL_ITEM,
  CHAT_CALL,
  DETAILS,
  EXTRA,
  events,
  GO,
  KINDS,
  response,
  SAID_ITEM,
  signedCall,
  THOUGHT_ITEMS,
  THOUGHTS,
} from '../helpers/opaque-upstreams.ts';
import { outcome, remote } from '../helpers/remote.ts';
import { type Exchange, Upstream } from '../helpers/upstream.ts';

/** What a provider must get back with its answer, it gets back. Each upstream refuses without. */

/** The data of a streamed answer. */
function dataOf(text: string) {
  return text
    .split('\n')
    .flatMap((line) => (line.startsWith('data: {') ? [JSON.parse(line.slice(6))] : []));
}

const SERVERS = { mcp_servers: [{ type: 'url', name: 'files', url: '' }] };
const TOOLS = { tools: [{ name: 'files__read', input_schema: { type: 'object' } }] };
const BUDGET = { thinking: { type: 'enabled', budget_tokens: 1024 } };
const USE = { type: 'tool_use', id: 'toolu_1', name: 'files__read', input: { n: 1 } };

test('anthropic: a tool loop returns thoughts with their signatures, and max_tokens stays', async () => {
  const { post, sent, close } = await bootOpaque('anthropic');
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
  const { post, sent, close } = await bootOpaque('google');
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
  const { post, sent, close } = await bootOpaque('anthropic');
  try {
    const { content } = JSON.parse((await post({ ...TOOLS, ...BUDGET })).text);
    assert.equal(content.slice(0, 3), THOUGHTS);
    const streamed = await post({ ...TOOLS, ...BUDGET, stream: true });
    assert.equal(
      dataOf(streamed.text).flatMap(({ content_block, delta }) =>
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

/** What is opaque in blocks of thoughts: whole, and in the events of a stream. */
const sealedIn = (blocks: Record<string, unknown>[]) =>
  blocks.flatMap(({ type, signature, data }) =>
    type === 'thinking' ? [signature] : type === 'redacted_thinking' ? [data] : [],
  );
const returnedTo = {
  openrouter: (body: { messages: { reasoning_details: unknown }[] }) =>
    body.messages[1]?.reasoning_details,
  responses: (body: { input: unknown[] }) => body.input.slice(1, 3),
};

for (const [kind, returned, at] of [
  ['openrouter', DETAILS, returnedTo.openrouter],
  ['responses', THOUGHT_ITEMS, returnedTo.responses],
] as const)
  test(`${kind}: a client of Anthropic's API gets it in the fields of that API, and returns it`, async () => {
    const { post, sent, close } = await bootOpaque(kind);
    try {
      const { content } = JSON.parse((await post({ ...TOOLS, ...BUDGET })).text);
      const isOfRun = (text: string) => text.startsWith('run_');
      const sealed = sealedIn(content).filter((text) => !isOfRun(String(text)));
      const events = dataOf((await post({ ...TOOLS, ...BUDGET, stream: true })).text);
      const streamed = events.flatMap(({ content_block, delta }) =>
        delta?.type === 'signature_delta'
          ? [delta.signature]
          : content_block?.type === 'redacted_thinking'
            ? [content_block.data]
            : [],
      );
      assert.is(sealed.length, kind === 'responses' ? 2 : 1);
      assert.equal(
        streamed.filter((text) => !isOfRun(text)),
        sealed,
      );
      const result = { type: 'tool_result', tool_use_id: 'call_1', content: '5' };
      const messages = [GO, { role: 'assistant', content }, { role: 'user', content: [result] }];
      const again = await post({ ...TOOLS, ...BUDGET, messages });
      assert.is(again.status, 200, again.text);
      assert.equal(at(sent()[2]), returned);
    } finally {
      await close();
    }
  });

const FUNCTION = {
  tools: [{ type: 'function', function: { name: 'files__read', parameters: { type: 'object' } } }],
};
const MCP = { tools: [{ type: 'mcp', server_label: 'files', require_approval: 'never' }] };
const RESULT = { role: 'tool', tool_call_id: 'call_1', content: '5' };

interface Said {
  content: null;
  tool_calls: [{ id: string; extra_content?: object }];
  reasoning_content?: string;
  reasoning_details?: object[];
}
type Delta = Partial<Pick<Said, 'tool_calls' | 'reasoning_details'>>;

/** What the upstream gets back of an answer, and a client gets and sends back. */
const CHATS: Record<string, Said> = {
  'google as OpenAI': { content: null, tool_calls: [{ ...CHAT_CALL, ...EXTRA }] },
  openrouter: {
    content: null,
    reasoning_content: 'Hm. Ah.',
    tool_calls: [CHAT_CALL],
    reasoning_details: DETAILS,
  },
};

for (const [kind, said] of Object.entries(CHATS) as [keyof typeof KINDS, Said][]) {
  test(`${kind}: a tool loop returns what came with the call`, async () => {
    const { complete, sent, close } = await bootOpaque(kind);
    try {
      const { status, text } = await complete(MCP);
      assert.is(status, 200, text);
      assert.is(JSON.parse(text).choices[0].message.content, 'done');
      assert.equal(sent()[1].messages[1], { role: 'assistant', ...said });
    } finally {
      await close();
    }
  });

  test(`${kind}: a client gets it in the same field, whole and streamed, and returns it`, async () => {
    const { complete, sent, close } = await bootOpaque(kind);
    try {
      const whole = JSON.parse((await complete(FUNCTION)).text).choices[0].message;
      assert.equal(whole, { role: 'assistant', refusal: null, ...said });
      const streamed = dataOf((await complete({ ...FUNCTION, stream: true })).text);
      const deltas: Delta[] = streamed.flatMap(({ choices }) =>
        choices.map(({ delta }: { delta: Delta }) => delta),
      );
      const [call] = deltas.flatMap(({ tool_calls }) => tool_calls ?? []);
      const details = deltas.flatMap(({ reasoning_details = [] }) => reasoning_details);
      const { tool_calls, reasoning_details = [] } = said;
      assert.equal(call?.extra_content, tool_calls[0].extra_content);
      assert.equal(details, reasoning_details);
      const again = await complete({ ...FUNCTION, messages: [GO, whole, RESULT] });
      assert.is(again.status, 200, again.text);
      assert.equal(sent()[2].messages[1], { role: 'assistant', ...said });
    } finally {
      await close();
    }
  });
}

test("anthropic: a client of chat completions gets it in OpenRouter's field, and returns it", async () => {
  const { complete, sent, close } = await bootOpaque('anthropic');
  const asked = { ...FUNCTION, reasoning_effort: 'low', max_tokens: 2000 };
  try {
    const { message } = JSON.parse((await complete(asked)).text).choices[0];
    const texts = message.reasoning_details.map(({ text }: { text?: string }) => text);
    assert.equal(texts, ['Hm.', undefined, 'Ah.']);
    const streamed = dataOf((await complete({ ...asked, stream: true })).text);
    const details = streamed.flatMap(({ choices }) =>
      choices.flatMap(({ delta }: { delta: Delta }) => delta.reasoning_details ?? []),
    );
    assert.equal(details, message.reasoning_details);
    const result = { ...RESULT, tool_call_id: 'toolu_1' };
    const again = await complete({ ...asked, messages: [GO, message, result] });
    assert.is(again.status, 200, again.text);
    assert.equal(sent()[2].messages[1].content, [...THOUGHTS, USE]);
  } finally {
    await close();
  }
});

const INCLUDE = { store: false, include: ['reasoning.encrypted_content'] };
const FLAT = { tools: [{ type: 'function', name: 'files__read', parameters: { type: 'object' } }] };
/** Without the ids of svc, and what only svc can read. */
const plainItem = ({ id: _, encrypted_content, ...item }: Record<string, unknown>) => ({
  ...item,
  ...(encrypted_content === undefined ? {} : { isSealed: true }),
});

test('responses: a tool loop asks for what was thought, and returns its items', async () => {
  const { respond, sent, close } = await bootOpaque('responses');
  try {
    const { status, text } = await respond(MCP);
    assert.is(status, 200, text);
    const [first, second] = sent();
    assert.equal([first.store, first.include], [false, INCLUDE.include]);
    assert.equal(second.input.slice(1, 3), THOUGHT_ITEMS);
  } finally {
    await close();
  }
});

test('responses: a client gets items of reasoning, whole and streamed, and returns them', async () => {
  const { respond, sent, close } = await bootOpaque('responses');
  try {
    const { output } = JSON.parse((await respond({ ...FLAT, ...INCLUDE })).text);
    const thought = { type: 'reasoning', isSealed: true, status: 'completed' };
    const said = { type: 'summary_text', text: 'Hm.Ah.' };
    const items = [
      { ...thought, summary: [said] },
      { ...thought, summary: [] },
      { ...CALL_ITEM, status: 'completed' },
    ];
    assert.equal(output.map(plainItem), items);
    const streamed = dataOf((await respond({ ...FLAT, ...INCLUDE, stream: true })).text);
    const done = streamed.filter(({ type }) => type === 'response.output_item.done');
    assert.equal(
      done.map(({ item }) => plainItem(item)),
      items,
    );
    const ends = streamed.filter(({ type }) => type === 'response.reasoning_summary_text.done');
    assert.equal(
      ends.map((event) => event.text),
      ['Hm.Ah.'],
    );
    // Codex leaves out the ids.
    const result = { type: 'function_call_output', call_id: 'call_1', output: '5' };
    const sentBack = output.map(({ id: _, ...item }: { id: string }) => item);
    for (const items of [output, sentBack]) {
      const again = await respond({ ...INCLUDE, ...FLAT, input: [GO, ...items, result] });
      assert.is(again.status, 200, again.text);
      assert.equal(sent().at(-1).input.slice(1, 3), THOUGHT_ITEMS);
    }
  } finally {
    await close();
  }
});

test('responses: an earlier response, its items, and items of the API itself say it too', async () => {
  const { respond, sent, close } = await bootOpaque('responses');
  const result = { type: 'function_call_output', call_id: 'call_1', output: '5' };
  try {
    const { id, output } = JSON.parse((await respond(FLAT)).text);
    const references = output.map((item: { id: string }) => ({
      type: 'item_reference',
      id: item.id,
    }));
    const own = [GO, ...THOUGHT_ITEMS, CALL_ITEM];
    for (const more of [
      { previous_response_id: id, input: [result] },
      { input: [GO, ...references, result] },
      { input: [...own, result] },
    ]) {
      const again = await respond({ ...FLAT, ...more });
      assert.is(again.status, 200, again.text);
      assert.equal(sent().at(-1).input.slice(1, 3), THOUGHT_ITEMS);
    }
    const changed = { type: 'reasoning', summary: [], encrypted_content: 'svc-opaque-1:e30' };
    const refused = await respond({ input: [GO, changed] });
    assert.equal(
      [refused.status, JSON.parse(refused.text).error.param],
      [400, 'input.1.encrypted_content'],
    );
  } finally {
    await close();
  }
});

test('responses: a model that knows no include is asked without it', async () => {
  const upstream = await Upstream.start(async (x: Exchange) => {
    if (x.received.method === 'GET') return void x.reply(200, { data: [{ id: 'm' }] });
    if (!x.received.body.includes('include')) {
      await x.open().write(events(response(SAID_ITEM)));
      return x.end();
    }
    const message = 'Encrypted content is not supported with this model.';
    x.reply(400, { error: { message, type: 'invalid_request_error', param: 'include' } });
  });
  const port = remote(upstream.base_url, { config: { key: 'env:TEST_KEY', adapter: 'openai' } });
  try {
    for (const asked of [2, 3]) {
      const { text, failure } = await outcome(port, { request: { seed_asked: false } });
      assert.equal([failure, text], [null, 'done']);
      assert.is(upstream.received.length, asked);
    }
  } finally {
    await port.close();
    await upstream.stop();
  }
});

const signatureIn = {
  google: (body: { contents: { parts: { thoughtSignature?: string }[] }[] }) =>
    body.contents[1]?.parts.map(({ thoughtSignature }) => thoughtSignature),
  'google as OpenAI': (body: { messages: Said[] }) =>
    body.messages[1]?.tool_calls.map(({ extra_content }) => extra_content),
};
for (const [kind, signed] of [
  ['google', 'sig-g'],
  ['google as OpenAI', EXTRA.extra_content],
] as const)
  test(`${kind}: clients of APIs without a place for it in a call get it beside the call`, async () => {
    const { post, respond, sent, close } = await bootOpaque(kind);
    const last = () => signatureIn[kind](sent().at(-1));
    try {
      const { content } = JSON.parse((await post(TOOLS)).text);
      const [{ type, data }, { id }] = content;
      assert.equal([content.length, type], [2, 'redacted_thinking']);
      const blocks = dataOf((await post({ ...TOOLS, stream: true })).text).flatMap(
        ({ content_block }) => (content_block === undefined ? [] : [content_block]),
      );
      const shape = blocks.map((block) => [block.type, block.data?.slice(0, 13)]);
      assert.equal(shape, [
        ['redacted_thinking', data.slice(0, 13)],
        ['tool_use', undefined],
      ]);
      const result = { type: 'tool_result', tool_use_id: id, content: '5' };
      const messages = [GO, { role: 'assistant', content }, { role: 'user', content: [result] }];
      assert.is((await post({ ...TOOLS, messages })).status, 200);
      assert.equal(last(), [signed]);
      const { output } = JSON.parse((await respond(FLAT)).text);
      assert.equal(
        output.map((item: { type: string }) => item.type),
        ['reasoning', 'function_call'],
      );
      const streamed = dataOf((await respond({ ...FLAT, stream: true })).text);
      const done = streamed.filter((event) => event.type === 'response.output_item.done');
      assert.equal(
        done.map(({ item, output_index }) => [item.type, output_index]),
        [
          ['reasoning', 0],
          ['function_call', 1],
        ],
      );
      const { call_id } = output[1];
      const answered = { type: 'function_call_output', call_id, output: '5' };
      const again = await respond({ ...FLAT, input: [GO, ...output, answered] });
      assert.is(again.status, 200, again.text);
      assert.equal(last(), [signed]);
    } finally {
      await close();
    }
  });

test('what is too large to keep ends the answer with stream_oversized', async () => {
  const upstream = await Upstream.start(async (x: Exchange) => {
    await x.open().write(events(KINDS['google as OpenAI'].called));
    x.end();
  });
  const { name, arguments: written } = CHAT_CALL.function;
  const { thought_signature } = EXTRA.extra_content.google;
  const counted = [name, CHAT_CALL.id, written, thought_signature, 'thoughtSignature'];
  const most = counted.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  try {
    for (const [bytes, code] of [
      [most, undefined],
      [most - 1, 'stream_oversized'],
    ] as const) {
      const limits = { provider_answer_bytes: bytes };
      const port = remote(upstream.base_url, { limits });
      const { failure, parts } = await outcome(port, { request: { seed_asked: false } });
      assert.is(failure?.code, code);
      if (code === undefined)
        assert.equal(parts[0], {
          type: 'tool_call',
          id: CHAT_CALL.id,
          ...CHAT_CALL.function,
          opaque: { form: 'thoughtSignature', data: thought_signature },
        });
      await port.close();
    }
  } finally {
    await upstream.stop();
  }
});

test('reasoning_details with too many values end the answer with stream_oversized', async () => {
  const upstream = await Upstream.start(async (x: Exchange) => {
    const detail = { type: 'reasoning.encrypted', data: Array.from({ length: 60_000 }, () => 1) };
    const delta = { reasoning_details: [detail] };
    const chunk = { choices: [{ index: 0, delta }] };
    const last = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
    await x.open().write(events([chunk, chunk, last]));
    x.end();
  });
  const port = remote(upstream.base_url);
  try {
    const { failure } = await outcome(port, { request: { seed_asked: false } });
    assert.is(failure?.code, 'stream_oversized');
    assert.match(failure?.message ?? '', 'the reasoning_details of an answer');
  } finally {
    await port.close();
    await upstream.stop();
  }
});

test('anthropic: thoughts that have no room in max_tokens are refused, and never left out', async () => {
  const { post, sent, close } = await bootOpaque('anthropic');
  try {
    const refused = await post({ ...TOOLS, ...BUDGET, max_tokens: 1024 });
    const { error } = JSON.parse(refused.text);
    assert.equal([refused.status, error.details.error_code], [400, 'capability_missing']);
    assert.match(error.message, 'cannot think in 1024 tokens');
    assert.equal(sent(), []);
    await post({ ...TOOLS, ...BUDGET, max_tokens: 1025 });
    await post({ ...TOOLS, max_tokens: 1 });
    assert.equal(
      sent().map(({ max_tokens, thinking }) => [max_tokens, thinking?.budget_tokens]),
      [
        [1025, 1024],
        [1, undefined],
      ],
    );
  } finally {
    await close();
  }
});

test('what is opaque goes to its own provider and model alone, and the run counts it', async () => {
  const { sent, close, runtime, daemon } = await bootOpaque('anthropic');
  const from = (text: string, opaque: Omit<Opaque, 'data'>) => ({
    type: 'reasoning' as const,
    text,
    opaque: { data: `sig of ${text}`, ...opaque },
  });
  const user = { role: 'user' as const, content: [{ type: 'text' as const, text: 'go' }] };
  const other = { form: 'signature', provider: 'lan', model: 'n' };
  const said = { type: 'text' as const, text: 'said', opaque: { ...other, data: 'no' } };
  const content = [
    from('own', { form: 'signature', provider: 'lan', model: 'm' }),
    from('of another model', other),
    from('of another provider', { form: 'signature', provider: 'other', model: 'm' }),
    from('of a client', { form: 'signature' }),
    from('of another API', { form: 'thoughtSignature' }),
    said,
  ];
  try {
    const messages = [user, { role: 'assistant' as const, content }, user];
    const run = await runtime.runs.start({ model: 'lan/m', messages } as RunInput, 'test');
    await settled(daemon.kernel, run.id);
    const { opaque_parts, opaque_left_out } = await runtime.runs.get(run.id);
    const thought = (thinking: string) => ({
      type: 'thinking',
      thinking,
      signature: `sig of ${thinking}`,
    });
    assert.equal(sent()[0].messages[1].content, [
      thought('own'),
      thought('of a client'),
      { type: 'text', text: 'said' },
    ]);
    // The answer has three more.
    assert.equal([opaque_parts, opaque_left_out], [5, 4]);
  } finally {
    await close();
  }
});

test.run();
