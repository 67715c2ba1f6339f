import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createLineFormat } from '../../src/logs/format-line.ts';

const HOSTILE = '\r\u001b[2J\u009b\u202e\u2028\u0007';

const line = (time: string, boot_id: string, msg: string, more: object = {}) =>
  JSON.stringify({ level: 'info', time, boot_id, msg, ...more });
const format = (screen: boolean) =>
  createLineFormat({ colour: false, columns: screen ? () => 1000 : null });

test('on a screen a separator says the new day and the new start, and lines have no date', () => {
  const form = format(true);
  const noon = (day: number) => new Date(2026, 0, day, 12).toISOString();
  const text = [
    line(noon(2), 'boot_1', 'one'),
    line(noon(2), 'boot_1', 'two'),
    line(noon(3), 'boot_1', 'three'),
    line(noon(3), 'boot_2', 'four'),
    // A daemon that found another one running wrote a line in between.
    line(noon(3), 'boot_1', 'five'),
    line(noon(4), 'boot_3', 'six'),
  ].map(form);
  assert.equal(text, [
    '---- 2026-01-02 ----\n12:00:00.000 INFO  one',
    '12:00:00.000 INFO  two',
    '---- 2026-01-03 ----\n12:00:00.000 INFO  three',
    '---- a new start ----\n12:00:00.000 INFO  four',
    '12:00:00.000 INFO  five',
    '---- 2026-01-04, a new start ----\n12:00:00.000 INFO  six',
  ]);
});

test('on a screen a long line is broken between words, below its message', () => {
  const form = createLineFormat({ colour: false, columns: () => 44 });
  const at = new Date(2026, 0, 2, 12).toISOString();
  const text = form(line(at, 'boot_1', 'the provider is away', { reason: 'nobody answers' }));
  assert.equal(text.split('\n').slice(1), [
    '12:00:00.000 INFO  the provider is away',
    '                   reason=nobody answers',
  ]);
});

test('elsewhere each line has its date and no separator, so that a filter keeps it', () => {
  const form = format(false);
  const at = new Date(2026, 0, 2, 3, 4, 5, 678).toISOString();
  assert.is(form(line(at, 'boot_1', 'one')), '2026-01-02 03:04:05.678 INFO  one');
  assert.is(form(line(at, 'boot_2', 'two')), '2026-01-02 03:04:05.678 INFO  two');
});

test('a line says nothing twice: no empty field, and no id or error that the message has', () => {
  const form = format(false);
  const err = { message: 'it broke', stack: 'Error: it broke\n at x' };
  const shown = (msg: string, more: object) => form(line('x', 'b', msg, more)).slice(19);
  assert.is(
    shown('run_1 failed: it broke', { run_id: 'run_1', err, code: null }),
    'run_1 failed: it broke',
  );
  assert.is(shown('bad', { run_id: 'run_1', err, n: 1 }), 'bad run_id=run_1 err="it broke" n=1');
  assert.is(shown('no', { refused: { unauthorised: 3 } }), 'no refused={unauthorised:3}');
});

test('a line is one line at any depth, whatever was logged', () => {
  for (const screen of [true, false]) {
    const text = format(screen)(
      JSON.stringify({
        level: 'info',
        msg: `x\n12:00 ERROR forged${HOSTILE}`,
        deep: { list: [HOSTILE, 1] },
        err: { message: HOSTILE, stack: 'm\n at x' },
        [HOSTILE]: HOSTILE,
      }),
    );
    assert.not.match(text, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
    assert.not.match(text, ' at x');
  }
  assert.is(format(true)('no\rlog line'), 'no\ufffdlog line');
});

test.run();
