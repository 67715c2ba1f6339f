import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type Message,
  promptOf,
  shortMessages,
  systemOf,
} from '../../src/contract/messages/parts.ts';
import { keepsContent, stripper } from '../../src/kernel/content.ts';
import type { Commit } from '../../src/kernel/store/port.ts';
import { compilePattern } from '../../src/pattern.ts';
import { event, run } from './store/samples.ts';

const KEEP = { prompts: 'keep', outputs: 'keep', redact: [] } as const;

function sample(): Commit {
  const request = {
    provider: 'p',
    model: 'm',
    messages: shortMessages('my key is sk-12345678', 'be brief, sk-87654321'),
    tools: [{ name: 'find', description: 'finds sk-12345678', parameters: {} }],
  };
  const error = {
    code: 'provider_failed',
    message: 'what is sk-12345678?',
    retryable: false,
    hint: 'Not sk-12345678.',
  };
  return {
    events: [
      event(1, 'run_1', 1, {
        type: 'run.accepted',
        data: { run_id: 'run_1', request, idempotency_key: 'k' },
      }),
      event(2, 'run_1', 2, {
        type: 'run.output_appended',
        data: { attempt: 1, text: 'it is sk-123', token_ids: [1, 2] },
      }),
      event(3, 'run_1', 3, {
        type: 'run.output_appended',
        data: { attempt: 1, text: '45678', token_ids: [3] },
      }),
      event(4, 'run_1', 4, { type: 'run.failed', data: { attempt: 1, error } }),
      event(5, 'daemon:b', 1, { type: 'daemon.run_settled', data: { run_id: 'run_1' } }),
    ],
    runs: [
      run('run_0'),
      run('run_1', {
        finished: true,
        record: {
          id: 'run_1',
          prompt: promptOf(request),
          system: systemOf(request),
          metadata: { owner: 'sk-12345678' },
          output: 'it is sk-12345678',
          error,
          seq: 4,
        },
      }),
    ],
  };
}

test('content that is kept is stored as it is', () => {
  const commit = sample();
  assert.ok(keepsContent(KEEP));
  assert.is(stripper(KEEP)(commit), commit);
});

test('an omitted prompt is in no event and no record, and the run shows that it is not kept', () => {
  const { events, runs } = stripper({ ...KEEP, prompts: 'omit' })(sample());
  const [accepted, first] = events;
  assert.equal(accepted?.data.request, { provider: 'p', model: 'm', messages: [] });
  assert.is(accepted?.data.content, 'omitted');
  assert.is(accepted?.data.idempotency_key, 'k');
  assert.is(first?.data.text, 'it is sk-123');
  assert.equal(
    [runs[1]?.record?.prompt, runs[1]?.record?.system, runs[1]?.record?.output],
    ['', null, 'it is sk-12345678'],
  );
  assert.not('metadata' in (runs[1]?.record ?? {}), 'labels are the words of the client');
});

test('an omitted answer keeps its number of characters and none of its tokens', () => {
  const { events, runs } = stripper({ ...KEEP, outputs: 'omit' })(sample());
  assert.equal(events[1]?.data, { attempt: 1, text: '', token_ids: [], chars: 12 });
  assert.equal(events[2]?.data, { attempt: 1, text: '', token_ids: [], chars: 5 });
  assert.is(runs[1]?.record?.output, '');
  assert.is(runs[1]?.record?.prompt, 'my key is sk-12345678');
});

test('the store never holds a match of a pattern, even across two pieces of an answer', () => {
  const stored = stripper({ ...KEEP, redact: ['sk-[0-9]{8}', 'nothing'] })(sample());
  const text = JSON.stringify(stored);
  for (const secret of ['sk-1', '12345678', '45678', '87654321'])
    assert.not.ok(text.includes(secret), secret);
  assert.is(stored.runs[1]?.record?.output, 'it is [redacted]');
  assert.match(JSON.stringify(stored.events[3]?.data.error), 'what is [redacted]?');
  assert.match(JSON.stringify(stored.events[3]?.data.error), 'Not [redacted].');
  assert.match(JSON.stringify(stored.events[0]?.data.request), 'be brief, [redacted]');
});

test('what is opaque is stored only with all content', () => {
  const { events, runs } = sample();
  const opaque = { form: 'reasoning_details', data: '[{"text":"sk-12345678"}]' };
  const part = { type: 'reasoning', text: 'Hm.', opaque };
  const [accepted, output] = events;
  const request = { ...(accepted?.data.request as object), messages: [{ content: [part] }] };
  const commit = {
    events: [
      { ...accepted, data: { ...accepted?.data, request } },
      { ...output, data: { ...output?.data, kind: 'reasoning', opaque } },
    ],
    runs: runs
      .slice(1)
      .map((row) => ({
        ...row,
        record: { ...row.record, messages: request.messages, output_parts: [part], turns: [] },
      })),
  } as Commit;
  const kept = (settings: object) => {
    const stored = stripper({ ...KEEP, ...settings })(commit);
    return JSON.stringify(stored).split('reasoning_details').length - 1;
  };
  assert.equal(
    [{ prompts: 'omit' }, { outputs: 'omit' }, { prompts: 'omit', outputs: 'omit' }].map(kept),
    [2, 2, 0],
  );
  assert.is(kept({ redact: ['zzz'] }), 0);
});

test('files of a result are stored only with all content', () => {
  const { events, runs } = sample();
  const [first, ...rest] = events;
  assert.ok(first !== undefined);
  const media = [{ type: 'image', media_type: 'image/png', data: 'c2VjcmV0' }];
  const data = { call: 1, text: 'secret', is_error: false, media };
  const commit: Commit = { events: [{ ...first, type: 'run.tool_finished', data }, ...rest], runs };
  assert.equal(stripper(KEEP)(commit).events[0]?.data, data);
  for (const settings of [
    { ...KEEP, outputs: 'omit' as const },
    { ...KEEP, redact: ['zzz'] },
  ])
    assert.equal(stripper(settings)(commit).events[0]?.data, {
      call: 1,
      text: '',
      is_error: false,
    });
});

test('the copy in memory does not change', () => {
  const commit = sample();
  const before = JSON.stringify(commit);
  stripper({ prompts: 'omit', outputs: 'omit', redact: ['.'] })(commit);
  assert.is(JSON.stringify(commit), before);
});

test('events and rows without content are the same objects', () => {
  const commit = sample();
  const stored = stripper({ prompts: 'omit', outputs: 'omit', redact: [] })(commit);
  assert.is(stored.events[4], commit.events[4]);
  assert.is(stored.runs[0], commit.runs[0]);
});

test('where a client was is stored only with all content', () => {
  const { events, runs } = sample();
  const [first, ...rest] = events;
  const [row, ...others] = runs;
  assert.ok(first !== undefined && row !== undefined);
  const commit: Commit = {
    events: [{ ...first, data: { ...first.data, origin: '/home/me/x' } }, ...rest],
    runs: [{ ...row, origin: '/home/me/x', record: { origin: '/home/me/x' } }, ...others],
  };
  assert.match(JSON.stringify(stripper(KEEP)(commit)), '/home/me/x');
  for (const settings of [
    { ...KEEP, prompts: 'omit' as const },
    { ...KEEP, redact: ['zzz'] },
  ])
    assert.not.match(JSON.stringify(stripper(settings)(commit)), '/home/me/x');
});

test('a text too long to search is left out whole', () => {
  const commit = sample();
  const requestOf = ({ events: [first] }: Commit) => first?.data.request as { messages: Message[] };
  requestOf(commit).messages = shortMessages(`${'x'.repeat(300_000)} sk-12345678`, null);
  const stored = stripper({ ...KEEP, redact: ['sk-[0-9]+'] })(commit);
  assert.match(promptOf(requestOf(stored)), 'left out');
});

test('a pattern that is slow on a backtracking engine ends at once, and one that needs backtracking is refused', () => {
  assert.is('a'.repeat(100_000).replace(compilePattern('(a+)+b'), ''), 'a'.repeat(100_000));
  assert.is('x sk-aB_9 y'.replace(compilePattern('\\bsk-[\\w-]{3,}'), '#'), 'x # y');
  for (const wrong of ['(a)\\1', '(?=a)b', '(?<!a)b', 'a{17}', '(', '[', '*'])
    assert.throws(
      () => compilePattern(wrong),
      (error: Error) => error instanceof SyntaxError,
      wrong,
    );
});

test.run();
