import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Reports } from '../../src/tools/reports.ts';
import { bootToolServers, scripted } from '../helpers/tool-servers.ts';

/** What one call hears of these. */
function heard(progress: readonly unknown[], messages: readonly unknown[] = []): string[] {
  const texts: string[] = [];
  const reports = new Reports();
  reports.begin('a', (text) => texts.push(text));
  for (const each of progress) reports.takeProgress(each);
  for (const each of messages) reports.takeMessage(each);
  return texts;
}

test('progress is a line with its numbers', () => {
  assert.equal(
    heard([
      { progressToken: 'a', progress: 3, total: 10, message: 'reading b.txt' },
      { progressToken: 'a', progress: 0.5 },
      { progressToken: 'a', progress: 1, total: 'ten' },
      { progressToken: 'a', progress: Number.NaN, message: 'on' },
      { progressToken: 'a', message: 7 },
      { progressToken: 'a' },
      { progressToken: 'b', progress: 5 },
      { progress: 6 },
      null,
    ]),
    ['3 of 10: reading b.txt', '0.5', '1', 'on', '7'],
  );
});

test('a message of the log is a line, with its level if that is one of trouble', () => {
  assert.equal(
    heard(
      [],
      [
        { level: 'info', data: 'begun' },
        { level: 'warning', logger: 'db', data: { rows: 3 } },
        { level: 'debug', data: 'noise' },
        { level: 'notice', data: '' },
        { level: 'error' },
        null,
      ],
    ),
    ['begun', 'warning: {"rows":3}'],
  );
});

test('a line has no commands for a terminal, and a bound', () => {
  const [line = ''] = heard([
    { progressToken: 'a', message: `\u001b[2Ja\nb\u202e${'x'.repeat(10_000)}` },
  ]);
  assert.is(line, `\u{fffd}[2Ja b\u{fffd}${'x'.repeat(292)}`);
});

test('a message that may be of another call is of none', () => {
  const texts: string[] = [];
  const reports = new Reports();
  const endFirst = reports.begin('a', (text) => texts.push(`1 ${text}`));
  const endSecond = reports.begin('b', (text) => texts.push(`2 ${text}`));
  reports.takeMessage({ level: 'info', data: 'of one' });
  reports.takeProgress({ progressToken: 'b', progress: 1 });
  endSecond();
  reports.takeMessage({ level: 'info', data: 'of the first' });
  endFirst();
  reports.takeMessage({ level: 'info', data: 'of none' });
  assert.equal(texts, ['2 1', '1 of the first']);
});

test('a call hears what its server says, and not of a token that is not its own', async () => {
  const harness = await bootToolServers({ x: scripted(['says']) });
  const progress = (params: object) => ({ method: 'notifications/progress', params });
  const notifications = [
    progress({ progress: 1, total: 2, message: null }),
    progress({ progress: 9, progressToken: 'another' }),
    { method: 'notifications/message', params: { level: 'loud', data: 'almost' } },
    progress({ progress: 2, total: 2, message: 'done' }),
  ];
  const texts: string[] = [];
  const { text } = await harness.servers.call(
    'x',
    'report',
    { notifications },
    {
      id: 'call_1',
      signal: AbortSignal.timeout(60_000),
      timeout_ms: 30_000,
      report: (said) => texts.push(said),
    },
  );
  await harness.leave();
  assert.is(text, 'reported');
  assert.equal(texts, ['1 of 2', 'loud: almost', '2 of 2: done']);
});

test.run();
