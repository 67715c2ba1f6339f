import { Writable } from 'node:stream';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Run } from '../../src/cli/run/follow.ts';
import { AnswerPrinter, createPrinting, endingOf, finish } from '../../src/cli/run/print-answer.ts';
import { openStdout } from '../../src/cli/terminal/print/stdout-stream.ts';
import { errors, SvcError } from '../../src/errors.ts';
import { turns } from '../helpers/turns.ts';

/** What a run prints on stdout, and its exit code. Without a process, and without a terminal. */

function printed() {
  const written: string[] = [];
  const stdout = {
    gone: new AbortController().signal,
    write: async (text: string) => void written.push(text),
    flush: async () => {},
  };
  return { stdout, printer: new AnswerPrinter(stdout), text: () => written.join('') };
}

const record = (changes: Partial<Run> = {}) =>
  ({
    id: 'run_1',
    state: 'completed',
    provider: 'lab',
    output: 'kept',
    finish_reason: 'stop',
    usage: { input_tokens: 1, output_tokens: 5 },
    error: null,
    recovery: 'resume',
    ...changes,
  }) as Run;

test('an answer is printed as it comes, with one line break at its end', async () => {
  const { printer, text } = printed();
  const steps = createPrinting(printer, false, new AbortController().signal);
  steps.onAccepted(record());
  await steps.onOutput?.('a\n\n');
  assert.is(text(), 'a');
  assert.is(steps.hasText, true);
  await steps.onOutput?.('b\n');
  await printer.end(steps.unprintedOf(record()), true);
  assert.is(text(), 'a\n\nb\n');
});

test('without output the record has the answer, and an empty answer is an empty line', async () => {
  for (const [output, complete, expected] of [
    ['kept', true, 'kept\n'],
    ['', true, '\n'],
    ['', false, ''],
  ] as const) {
    const { printer, text } = printed();
    const steps = createPrinting(printer, false, new AbortController().signal);
    assert.is(steps.hasText, false);
    await printer.end(steps.unprintedOf(record({ output })), complete);
    assert.is(text(), expected);
  }
});

test('an answer that may start again is printed at its end, without what was discarded', async () => {
  const { printer, text } = printed();
  const steps = createPrinting(printer, true, new AbortController().signal);
  steps.onAccepted(record({ recovery: 'restart' }));
  await steps.onOutput?.('first');
  steps.onDiscard?.();
  await steps.onOutput?.('second');
  assert.is(text(), '');
  assert.is(steps.unprintedOf(record()), 'second');
});

test('the cursor leaves the line of an answer once, and is not moved before its text', async () => {
  const { printer, text } = printed();
  const left = [printer.leaveLine()];
  await printer.append('one');
  left.push(printer.leaveLine(), printer.leaveLine());
  await printer.append('two');
  await printer.end('', true);
  left.push(printer.leaveLine());
  assert.equal(left, [false, true, false, false]);
  assert.is(text(), 'onetwo\n');
});

test('after Ctrl-C no more is printed', async () => {
  const { printer, text } = printed();
  const stop = new AbortController();
  const steps = createPrinting(printer, true, stop.signal);
  await steps.onOutput?.('before');
  stop.abort();
  await steps.onOutput?.('after');
  await steps.onToolEvent?.('run_1', 'run.turn_completed', {});
  assert.is(text(), 'before');
});

test('the next turn of the model begins a paragraph, and the first one does not', async () => {
  const { printer, text } = printed();
  const steps = createPrinting(printer, true, new AbortController().signal);
  await steps.onToolEvent?.('run_1', 'run.turn_completed', {});
  await steps.onOutput?.('Let me look.');
  await steps.onToolEvent?.('run_1', 'run.tool_called', {});
  await steps.onToolEvent?.('run_1', 'run.turn_completed', {});
  await steps.onOutput?.('It is 7.');
  assert.is(text(), 'Let me look.\n\nIt is 7.');
});

const JSON_FORMAT = { type: 'json', name: null, schema: null } as const;

test('each end has its exit code', () => {
  const length = { finish_reason: 'length' };
  for (const [changes, maxTokens, code] of [
    [{}, null, null],
    [{ finish_reason: 'content_filter' }, null, 'content_filtered'],
    [{ finish_reason: 'repetition' }, null, 'answer_cut'],
    [length, null, 'answer_cut'],
    [length, 5, null],
    [length, 6, null],
    [length, 7, 'answer_cut'],
    [length, undefined, null],
    [{ response_format: JSON_FORMAT, output: ' {"a":1}\n' }, null, null],
    [{ finish_reason: 'not_json', output: 'Sure!' }, null, 'answer_not_json'],
    [{ response_format: JSON_FORMAT, output: '' }, null, 'answer_empty'],
    [{ ...length, response_format: JSON_FORMAT, output: '{"a":' }, 5, 'answer_cut'],
    [{ ...length, response_format: JSON_FORMAT, output: '{"a":5}' }, 5, null],
    [{ finish_reason: 'tool_calls', response_format: JSON_FORMAT, output: 'I' }, null, null],
    [{ output: '' }, null, 'answer_empty'],
    [{ state: 'cancelled' }, null, 'run_cancelled'],
    [{ state: 'timed_out' }, null, 'run_timed_out'],
    [{ state: 'interrupted' }, null, 'run_interrupted'],
    [{ state: 'failed' }, null, 'provider_failed'],
  ] as [Partial<Run>, number | null | undefined, keyof typeof errors | null][]) {
    const exit = finish({
      record: record(changes),
      output: 'kept',
      json: false,
      stdout: printed().stdout,
      interrupted: false,
      hasText: false,
      maxTokens,
    });
    assert.is(exit, code === null ? 0 : errors[code].exit, JSON.stringify([changes, maxTokens]));
  }
});

test('that the text so far is kept is said once', () => {
  const text = 'The text so far is kept.';
  for (const message of ['The daemon stopped.', `The daemon stopped. ${text}`]) {
    const error = new SvcError('run_interrupted', message).body();
    const shown = endingOf(record({ state: 'interrupted', error }), {
      hasText: true,
      maxTokens: null,
    });
    assert.is(shown.error?.message, `The daemon stopped. ${text}`);
  }
});

test('a write waits for room on stdout, and a flush for all that was written', async () => {
  const pending: (() => void)[] = [];
  const target = new Writable({
    highWaterMark: 8,
    write: (_, __, done) => void pending.push(done),
  });
  const own = Object.getOwnPropertyDescriptor(process, 'stdout') ?? {};
  Object.defineProperty(process, 'stdout', { value: target, configurable: true });
  const stdout = openStdout();
  Object.defineProperty(process, 'stdout', own);
  const ended: string[] = [];
  const written = async () => {
    for (; pending.length > 0; await turns()) pending.shift()?.();
  };
  for (const [what, work] of [
    ['short', () => stdout.write('short')],
    ['flush', () => stdout.flush()],
    ['long', () => stdout.write('longer than 8 bytes')],
  ] as const) {
    void work().then(() => ended.push(what));
    await turns();
    assert.equal(ended.splice(0), what === 'short' ? ['short'] : [], what);
    if (what !== 'short') await written();
    assert.equal(ended.splice(0), what === 'short' ? [] : [what], what);
  }
  const waits = stdout.write('longer than 8 bytes');
  target.destroy(Object.assign(new Error('no space'), { code: 'ENOSPC' }));
  await waits;
  assert.ok(stdout.gone.aborted);
  const error = await stdout.flush().catch((thrown: SvcError) => thrown);
  assert.match(String(error), 'The output cannot be written (ENOSPC).');
});

test.run();
