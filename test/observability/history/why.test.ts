import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { whyRun } from '../../../src/observability/history/why.ts';
import type { OutputPart } from '../../../src/ports/providers.ts';
import { makeHistory } from '../../helpers/history.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';

const { runtime, store, ids } = await makeHistory();
const withoutTime = (line: string) =>
  line
    .replace(/^(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3} /, '')
    .replace(/\d\d:\d\d:\d\d\.\d{3}/g, '<time>');
const explain = async (id: string) =>
  (await runtime.history.whyRun(id)).explanation.map(withoutTime);

test('each event of a run has the state that it led to', async () => {
  const { events, complete } = await runtime.history.whyRun(ids.completed);
  assert.ok(complete);
  assert.equal(
    [...new Set(events.map(({ state_path }) => state_path))],
    ['queued', 'starting', 'streaming', 'completed'],
  );
  assert.is(events.at(-1)?.type, 'run.completed');
});

test('the explanation has sentences for an answer', async () => {
  assert.match(
    (await explain(ids.completed)).join('\n'),
    /^it was accepted from somebody, for the provider local\nthe provider local was asked \(attempt 1\)\nthe provider local began answering \(attempt 1\): 13 characters in (one piece, at|\d pieces, the last at) <time>\nthe answer was complete \(stop; 1 tokens in, 1 tokens out\)$/,
  );
});

test('the explanation has sentences for a failure, a cancellation and a crash', async () => {
  assert.match(
    (await explain(ids.failed)).at(-1) ?? '',
    /^it failed: It does not like fail secretly \(provider_rejected\)$/,
  );
  assert.equal((await explain(ids.cancelled)).slice(-2), [
    'its cancellation was requested (by somebody)',
    'it was cancelled; its work has stopped',
  ]);
  const cut = (await explain(ids.cut)).join('\n');
  assert.match(cut, /it was found unfinished after .*: the daemon was down/);
  assert.match(cut, /\(attempt 2\)/);
});

test('every sentence begins with its time, the first one with its day', async () => {
  for (const id of Object.values(ids)) {
    const { explanation } = await runtime.history.whyRun(id);
    assert.match(explanation[0] ?? '', /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} /);
    for (const line of explanation.slice(1)) assert.match(line, /^\d\d:\d\d:\d\d\.\d{3} [a-z]/);
  }
});

test('a long answer keeps its first and last pieces, and counts the rest', async () => {
  const moves = Array.from({ length: 40 }, (_, index) => [
    output(`${index} `, index),
    () => turns(3),
  ]).flat();
  const long = await bootRuntime({ local: new ScriptedProvider('local', [...moves, finish()]) });
  const { id } = await long.runtime.runs.start({ prompt: 'count' }, 'test');
  await waitFor('it is over', () => !long.kernel.instances.has(id));
  const { events, explanation } = await long.runtime.history.whyRun(id);
  const pieces = (await long.store.readStream(id, 1, 1000)).filter(
    ({ type }) => type === 'run.output_appended',
  );
  assert.ok(pieces.length > 10);
  assert.equal(
    events.map(({ type, left_out }) => [type, left_out ?? 0]),
    [
      ['run.accepted', 0],
      ['run.started', 0],
      ['run.output_appended', 0],
      ['run.output_appended', pieces.length - 2],
      ['run.completed', 0],
    ],
  );
  assert.match(explanation.join('\n'), new RegExp(`110 characters in ${pieces.length} pieces`));
});

test('reasoning, tool calls and text have their own sentences, also when pieces of calls alternate', async () => {
  const piece = (kind: string, text: string, name?: string) =>
    ({
      ...output(text),
      kind,
      ...(name === undefined ? {} : { call: { id: name, name } }),
    }) as OutputPart;
  const moves = [
    piece('reasoning', 'Hm.'),
    output('I look.'),
    piece('tool_call', '{', 'look'),
    piece('tool_call', '{', 'wait'),
    piece('tool_call', '}', 'look'),
    piece('tool_call', '}', 'wait'),
  ].flatMap((part) => [part, () => turns(3)]);
  const local = new ScriptedProvider('local', [...moves, finish()]);
  const daemon = await bootRuntime({ local });
  const { id } = await daemon.runtime.runs.start({ prompt: 'x' }, 'test');
  await waitFor('the run has ended', () => !daemon.kernel.instances.has(id));
  const { explanation } = await daemon.runtime.history.whyRun(id);
  const sentences = explanation.map(withoutTime);
  assert.equal(sentences.slice(2, 5), [
    'the provider local reasoned (attempt 1): 3 characters in one piece, at <time>',
    'the provider local began answering (attempt 1): 7 characters in one piece, at <time>',
    'the provider local called the tools look, wait (attempt 1): 4 characters in 4 pieces, the last at <time>',
  ]);
});

test('an unknown run is refused; a run without its beginning is explained from the events that remain', async () => {
  const code = await runtime.history.whyRun('run_nobody').catch((error: SvcError) => error.code);
  assert.is(code, 'run_unknown');
  const cut = {
    readStream: async (stream: string, from: number, limit: number) =>
      store.readStream(stream, Math.max(3, from), limit),
  };
  const why = await whyRun(cut, ids.completed);
  assert.is(why?.complete, false);
  assert.ok(why?.events.every(({ state_path }) => state_path === ''));
});

test.run();
