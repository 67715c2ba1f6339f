import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type ResponseEvent,
  ResponseEvents,
} from '../../../src/dialects/openai/responses/events.ts';
import type { ResponseRequest } from '../../../src/dialects/openai/responses/object.ts';
import type { RunLogEvent } from '../../../src/dialects/served-calls.ts';

const KEY = '01J0000000000000000000000A';
const asked = (fields: ResponseRequest['fields'] = {}): ResponseRequest => ({
  run_id: `run_${KEY}`,
  part: 0,
  created_at: 1_700_000_000_000,
  request: {
    provider: 'local',
    model: 'm',
    cloud: false,
    messages: [],
    max_tokens: null,
    temperature: null,
    seed: 1,
    seed_asked: false,
  },
  fields,
  metadata: null,
});

const happened = (type: string, data: Record<string, unknown> = {}): RunLogEvent => ({
  type,
  at: 1_700_000_001_000,
  data,
});
const said = (text: string, more: Record<string, unknown> = {}) =>
  happened('run.output_appended', { attempt: 1, text, token_ids: [], ...more });
const usage = { input_tokens: 1, output_tokens: 2 };
const completed = (finish_reason = 'stop') =>
  happened('run.completed', { attempt: 1, finish_reason, usage });
const BEGIN = [happened('run.accepted'), happened('run.started', { attempt: 1 })];

function fold(events: readonly RunLogEvent[], of = asked()): ResponseEvent[] {
  const response = new ResponseEvents(of);
  return events.flatMap((event) => response.after(event));
}
const types = (events: readonly ResponseEvent[]) =>
  events.map(({ type }) => type.replace('response.', ''));

test('the events of a text come in the order of OpenAI, numbered from zero', () => {
  const events = fold([...BEGIN, said('Hel'), said('lo'), completed()]);
  assert.equal(types(events), [
    'created',
    'in_progress',
    'output_item.added',
    'content_part.added',
    'output_text.delta',
    'output_text.delta',
    'output_text.done',
    'content_part.done',
    'output_item.done',
    'completed',
  ]);
  assert.equal(
    events.map(({ sequence_number }) => sequence_number),
    events.map((_, index) => index),
  );
  const { response } = events.at(-1) as unknown as { response: Record<string, unknown> };
  assert.equal(response.output, [
    {
      type: 'message',
      id: `msg_${KEY}_0`,
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Hello', annotations: [], logprobs: [] }],
    },
  ]);
  assert.is(response.completed_at, 1_700_000_001);
});

test('a stream that is cut anywhere goes on with the same numbers', () => {
  const call = { kind: 'tool_call', call: { id: 'a', name: 'f' } };
  const other = { kind: 'tool_call', call: { id: 'b', name: 'g' } };
  const log = [
    ...BEGIN,
    said('Hm', { kind: 'reasoning' }),
    said(''),
    said('so ', {}),
    said('it is'),
    happened('run.suspended', { attempt: 1 }),
    happened('run.recovered', { downtime_ms: 1 }),
    happened('run.started', { attempt: 2, resumes: true }),
    said('{', call),
    said('[', other),
    said('}', call),
    said(']', other),
    said('no', { kind: 'refusal' }),
    completed('tool_calls'),
  ];
  const whole = fold(log);
  for (let cut = 1; cut <= log.length; cut += 1)
    assert.equal(fold(log.slice(0, cut)), whole.slice(0, fold(log.slice(0, cut)).length));
  const deltas = new Map<number, string>();
  for (const { output_index, delta } of whole as unknown as {
    output_index: number;
    delta?: string;
  }[])
    if (delta !== undefined) deltas.set(output_index, (deltas.get(output_index) ?? '') + delta);
  assert.equal(
    [...deltas],
    [
      [0, 'Hm'],
      [1, 'so it is'],
      [2, '{}'],
      [3, '[]'],
      [4, 'no'],
    ],
  );
  const opened = whole.filter(({ type }) => type === 'response.output_item.added');
  const closed = whole.filter(({ type }) => type === 'response.output_item.done');
  assert.is(opened.length, 5);
  assert.is(closed.length, 5);
});

test('each end has its event and its status', () => {
  const endOf = (...events: RunLogEvent[]) => {
    const last = fold([...BEGIN, said('a'), ...events]).at(-1);
    const { response, type } = last as unknown as Record<string, Record<string, unknown>>;
    return [type, response?.status, response?.incomplete_details, response?.error];
  };
  const error = { code: 'engine_failed', message: 'It died.', retryable: true };
  const shown = { type: 'server_error', param: null };
  const { retryable: _, ...rest } = error;
  assert.equal(endOf(completed('length')), [
    'response.incomplete',
    'incomplete',
    { reason: 'max_output_tokens' },
    null,
  ]);
  assert.equal(endOf(completed('content_filter'))[2], { reason: 'content_filter' });
  assert.equal(endOf(happened('run.failed', { error })), [
    'response.failed',
    'failed',
    null,
    { ...rest, ...shown },
  ]);
  assert.equal(endOf(happened('run.interrupted', { error }))[1], 'failed');
  const [type, status, , failure] = endOf(happened('run.cancelled', { forced: false }));
  assert.equal([type, status], ['response.failed', 'cancelled']);
  assert.is((failure as { code: string }).code, 'run_cancelled');
  const late = endOf(
    happened('run.deadline_passed', { deadline: 'idle' }),
    happened('run.timed_out', { forced: false }),
  );
  assert.is((late[3] as { code: string }).code, 'run_timed_out');
});

test('a response in the background is queued before it starts', () => {
  const response = new ResponseEvents(asked({ background: true }));
  assert.equal(types(response.after(happened('run.accepted'))), ['created', 'queued']);
  assert.is(response.response().status, 'queued');
  assert.equal(types(response.after(happened('run.started', { attempt: 1 }))), ['in_progress']);
  response.after(said('so far'));
  const { output, status } = response.response() as { output: unknown[]; status: string };
  assert.is(status, 'in_progress');
  assert.equal(output.length, 1);
  assert.match(JSON.stringify(output), 'so far');
});

test('a run with approvals is several responses, each the same from any cut', () => {
  const call = (id: string) => ({ kind: 'tool_call', call: { id, name: 'f__t', server: 'f' } });
  const one = (type: string, number: number, more: object = {}) =>
    happened(`run.tool_${type}`, { call: number, ...more });
  const wish = (number: number, approval: string) =>
    one('requested', number, { server: 'f', tool: 't', arguments: '{}', approval });
  const carriedOut = (number: number) => [
    one('started', number, { time_limit_at: 0 }),
    one('finished', number, { text: 'ok', is_error: false }),
  ];
  const log = [
    ...BEGIN,
    said('I look.'),
    said('{', call('a')),
    said('{}', call('b')),
    said('}', call('a')),
    happened('run.turn_completed', { attempt: 1, usage }),
    wish(1, 'ask'),
    wish(2, 'allow'),
    one('allowed', 2, { by: 'policy' }),
    ...carriedOut(2),
    happened('run.recovered', { downtime_ms: 5 }),
    one('allowed', 1, { by: 'me' }),
    ...carriedOut(1),
    happened('run.started', { attempt: 2, turn: 1 }),
    said('Once more.'),
    said('{}', call('c')),
    happened('run.turn_completed', { attempt: 2, usage }),
    wish(3, 'ask'),
    one('denied', 3, { by: 'me', reason: 'No.' }),
    happened('run.started', { attempt: 3, turn: 2 }),
    said('Done.'),
    happened('run.completed', {
      attempt: 3,
      finish_reason: 'stop',
      usage: { input_tokens: 3, output_tokens: 6 },
    }),
  ];
  const wanted = [
    ['message', 'mcp_call', 'mcp_approval_request'],
    ['mcp_call', 'message', 'mcp_approval_request'],
    ['mcp_call', 'message'],
  ];
  const ids = new Set<unknown>();
  for (const [part, itemTypes] of wanted.entries()) {
    const of = { ...asked(), part };
    const whole = fold(log, of);
    assert.equal(
      whole.map(({ sequence_number }) => sequence_number),
      whole.map((_, index) => index),
    );
    const { response } = whole.at(-1) as unknown as {
      response: { id: string; output: { type: string; id: string }[]; usage: object };
    };
    assert.equal(
      response.output.map(({ type }) => type),
      itemTypes,
    );
    assert.is(response.id, `resp_${KEY}${part === 0 ? '' : `_${part}`}`);
    assert.equal((response.usage as { total_tokens: number }).total_tokens, 3);
    for (const { id } of response.output) ids.add(id);
    for (let cut = 1; cut <= log.length; cut += 1) {
      const events = fold(log.slice(0, cut), of);
      assert.equal(events, whole.slice(0, events.length));
    }
  }
  assert.is(ids.size, 8, 'each item has its id');
  assert.equal(fold(log, { ...asked(), part: 3 }), [], 'there is no fourth response');
});

test.run();
