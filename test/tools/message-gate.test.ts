import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits, jsonBudgets, type Limits } from '../../src/limits.ts';
import { Excess, MessageGate } from '../../src/tools/message-gate.ts';

/** The gate that every message of a tool server passes. */

function gateAt(limits: Partial<Limits> = {}) {
  const clock = { now: 0 };
  const gate = new MessageGate({ ...defaultLimits, ...limits }, () => clock.now);
  const ask = (id: number, method = 'tools/call') => gate.note({ jsonrpc: '2.0', id, method });
  const read = (value: unknown, only?: number) =>
    gate.read(Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)), only);
  return { gate, clock, ask, read };
}

const excess = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    if (error instanceof Excess) return error.message;
    throw error;
  }
  return 'none';
};

const answer = (id: unknown, result: unknown = {}) => ({ jsonrpc: '2.0', id, result });

test('an answer passes once, and only to a request that waits for it', () => {
  const { gate, ask, read } = gateAt();
  assert.equal(read(answer(1)), []);
  ask(1);
  assert.ok(gate.isOpen(1));
  assert.equal(read(answer(2)), []);
  assert.equal(read(answer(1, { content: 1 })), [answer(1, { content: 1 })]);
  assert.equal(read(answer(1)), [], 'a second one');
  assert.not.ok(gate.isOpen(1));
  ask(3);
  const params = { requestId: 3, reason: 'late' };
  gate.note({ jsonrpc: '2.0', method: 'notifications/cancelled', params });
  assert.equal(read(answer(3)), [], 'one that comes after the call was given up');
});

test('an id may be a text, and an error without one belongs to the only request', () => {
  const { ask, read } = gateAt();
  ask(1);
  assert.equal(read(answer('1')), [answer(1)]);
  const error = { code: -32700, message: 'no' };
  ask(2);
  assert.equal(read({ jsonrpc: '2.0', id: null, error }), [], 'another request may be meant');
  assert.equal(read({ jsonrpc: '2.0', id: null, error }, 2), [{ jsonrpc: '2.0', id: 2, error }]);
  ask(4);
  assert.equal(read('{"jsonrpc":"2.0","id":5,"id":4,"result":{}}'), [answer(4)], 'twice');
  for (const id of ['', ' 6', '6.0', [6], { 6: 6 }, true]) {
    ask(6);
    assert.equal(read(answer(id)), [], JSON.stringify(id));
  }
});

for (const [what, sent, passed] of [
  ['a result that is no object', { id: 1, result: [1] }, { id: 1, result: { content: [1] } }],
  ['a result that is null', { id: 1, result: null }, { id: 1, result: { content: null } }],
  [
    '_meta of a result',
    { id: 1, result: { a: null, _meta: null } },
    { id: 1, result: { a: null } },
  ],
  [
    'an error in a wrong form',
    { id: 1, result: null, error: { code: 'x', message: null } },
    { id: 1, error: { code: -32603, message: 'The server gives no reason.' } },
  ],
  ['a notification with an id that is null', { id: null, method: 'n' }, { method: 'n' }],
  ['params that are null', { id: 'a', method: 'ping', params: null }, { id: 'a', method: 'ping' }],
  [
    '_meta of params',
    { method: 'n', params: { _meta: null, a: 1 } },
    { method: 'n', params: { a: 1 } },
  ],
] as const)
  test(`${what} gets the form that the client takes`, () => {
    const { ask, read } = gateAt();
    ask(1);
    assert.equal(read(sent), [{ jsonrpc: '2.0', ...passed }]);
  });

test('an introduction may have nulls, and need not say its name', () => {
  const { ask, read } = gateAt();
  const base = { protocolVersion: '2025-06-18', capabilities: { tools: {} } };
  for (const [sent, passed] of [
    [{ ...base, instructions: null, serverInfo: { name: 'a', version: null } }, { name: 'a' }],
    [{ ...base, serverInfo: null }, {}],
    [{ ...base, serverInfo: { name: 'a', title: null, icons: 'no' } }, { name: 'a' }],
    [{ ...base, capabilities: { tools: null, prompts: null }, serverInfo: { version: 2 } }, {}],
  ] as const) {
    ask(1, 'initialize');
    const serverInfo = { name: '', version: '', ...passed };
    assert.equal(read(answer(1, sent)), [answer(1, { ...base, serverInfo })]);
  }
});

test('a batch and a byte order mark are read, and what is no message is left out', () => {
  const { ask, read } = gateAt();
  ask(1);
  ask(2);
  const batch = [answer(1), { method: 'n' }, 5, null, 'text', [answer(2)], answer(2)];
  assert.equal(read(batch), [answer(1), { jsonrpc: '2.0', method: 'n' }, answer(2)]);
  ask(3);
  assert.equal(read(`\ufeff${JSON.stringify(answer(3))}`), [answer(3)]);
  assert.is(read('{"jsonrpc":'), null);
  assert.equal(read('[]'), []);
});

test('bytes that are no UTF-8 do not hurt, and no object gets another prototype', () => {
  const { gate, ask, read } = gateAt();
  ask(1);
  const head = Buffer.from('{"jsonrpc":"2.0","id":1,"result":{"content":"');
  const bytes = Buffer.concat([head, Buffer.from([0xff, 0xc0, 0x80]), Buffer.from('"}}')]);
  assert.equal(gate.read(bytes), [answer(1, { content: '\ufffd\ufffd\ufffd' })]);
  ask(2);
  const [message] = read('{"id":2,"result":{"__proto__":{"isError":true}}}') ?? [];
  const { result } = message as { result: Record<string, unknown> };
  assert.equal([result.isError, Object.keys(result)], [undefined, ['__proto__']]);
  assert.is(({} as Record<string, unknown>).isError, undefined);
});

test('a message has bounds of bytes, values, numbers and levels, judged before it is parsed', () => {
  const { levels, values, numbers } = jsonBudgets.tool_message;
  const { ask, read } = gateAt({ mcp_message_bytes: 2_000_000 });
  ask(1);
  const list = (item: string, count: number) => `[${Array(count).fill(item).join()}]`;
  const of = (content: string) => `{"id":1,"result":{"content":${content}}`;
  for (const [text, what] of [
    [list('{}', values), `${values} values`],
    [list('""', values), `${values} values`],
    [list('1', numbers + 2), `${numbers} numbers`],
    ['['.repeat(levels), `${levels} levels`],
    [`"${'x'.repeat(2_000_000)}"`, '2000000 bytes'],
  ] as const)
    assert.is(
      excess(() => read(of(text))),
      `a message has more than ${what}`,
    );
  assert.is(read(`${of(list('1', numbers - 10))}}`)?.length, 1);
});

test('what no one asked for has a bound, and comes back with time', () => {
  const { mcp_notices } = defaultLimits;
  const { clock, ask, read } = gateAt();
  const notices = (count: number) => Array(count).fill({ method: 'notifications/progress' });
  assert.is(read(notices(mcp_notices - 2))?.length, mcp_notices - 2);
  read(answer(77));
  read(5);
  const over = `it sent more than ${mcp_notices} messages at once that no one asked for`;
  assert.is(
    excess(() => read(notices(1))),
    over,
  );
  clock.now += 10;
  assert.is(read(notices(10))?.length, 10);
  assert.is(
    excess(() => read(notices(1))),
    over,
  );
  ask(1);
  assert.equal(read(answer(1)), [answer(1)], 'an answer is none of them');
});

test('requests of a server have a bound of their own', () => {
  const { mcp_requests } = defaultLimits;
  const { clock, read } = gateAt();
  const request = { id: 'a', method: 'sampling/createMessage' };
  assert.is(read(Array(mcp_requests).fill(request))?.length, mcp_requests);
  const over = `it asked svc for more than ${mcp_requests} things at once`;
  assert.is(
    excess(() => read(request)),
    over,
  );
  clock.now += 250;
  assert.is(read(request)?.length, 1);
  assert.is(
    excess(() => read({ id: 1, method: 'ping' })),
    over,
  );
});

test('bytes between two answers have a bound, and only an answer that is waited for ends it', () => {
  const { gate, ask, read } = gateAt({ mcp_stream_bytes: 100, mcp_message_bytes: 60 });
  gate.count(60, 60);
  read(answer(8));
  gate.count(40);
  const over = 'it sends without an end: more than 100 bytes, no answer';
  assert.is(
    excess(() => gate.count(1)),
    over,
  );
  ask(1);
  read(answer(1));
  gate.count(100);
  assert.is(
    excess(() => gate.count(1)),
    over,
  );
  ask(2);
  read(answer(2));
  assert.is(
    excess(() => gate.count(1, 61)),
    'a message has more than 60 bytes',
  );
});

test.run();
