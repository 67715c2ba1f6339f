import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type Fact,
  idle,
  type Progress,
  progressAfter,
  progressText,
} from '../../src/cli/run/progress.ts';
import { StatusLine } from '../../src/cli/run/status-line.ts';

const failed: Fact = {
  type: 'failed',
  provider: 'lab',
  message: 'Too many requests.',
  attempt: 1,
  attempts_max: 3,
  wait_ms: 2000,
};

/** The line after these facts, each at its time, and after that at the last time. */
function shown(facts: readonly (readonly [at: number, fact: Fact])[], at: number): string | null {
  const after = (progress: Progress, [now, fact]: readonly [number, Fact]) =>
    progressAfter(progress, fact, now);
  return progressText(facts.reduce(after, idle), at);
}
const accepted: Fact = { type: 'accepted', provider: 'lab' };

test('a wait is shown after 300 ms, and its seconds are counted', () => {
  const facts = [[1000, accepted]] as const;
  assert.is(shown([], 9999), null);
  assert.is(shown(facts, 1299), null);
  assert.is(shown(facts, 1300), 'Waiting for the first token of lab');
  assert.is(shown(facts, 4200), 'Waiting for the first token of lab · 3 s');
});

test('each kind of wait has its words', () => {
  const start = [[0, accepted]] as const;
  for (const [fact, text] of [
    [{ type: 'starting' }, 'Waiting for the daemon to be ready · 1 s'],
    [{ type: 'placed', position: 2 }, 'Waiting in the queue, place 2 · 1 s'],
    [{ type: 'started', provider: 'other' }, 'Waiting for the first token of other · 2 s'],
    [{ type: 'loading', model: 'm', part: 0 }, 'Loading m · 1 s'],
    [{ type: 'loading', model: 'm', part: 0.456 }, 'Loading m, 45 % · 1 s'],
    [{ type: 'reported', text: '3 of 10' }, 'The tool says: 3 of 10 · 1 s'],
    [{ type: 'collecting' }, 'Receiving the answer · 1 s'],
    [{ type: 'lost' }, 'The daemon is gone; waiting for it to come back. · 1 s'],
    [failed, 'Trying again in 1 s (2 of 3): lab: Too many requests'],
  ] as const)
    assert.is(shown([...start, [1000, fact]], 2000), text);
});

test('nothing is drawn over the question whether a tool may be called', () => {
  const asked = [
    [0, accepted],
    [1000, { type: 'calling' }],
  ] as const;
  assert.is(shown(asked, 9000), null);
  const back = [[2000, { type: 'lost' }] as const, [3000, { type: 'connected' }] as const];
  assert.is(shown([...asked, ...back], 9000), null);
  const next = [9000, { type: 'started', provider: 'lab' }] as const;
  assert.is(shown([...asked, next], 9500), 'Waiting for the first token of lab');
});

test('a step of the same kind does not begin the time again, and another kind does', () => {
  const facts = [
    [0, { type: 'placed', position: 3 }],
    [5000, { type: 'placed', position: 2 }],
  ] as const;
  assert.is(shown(facts, 6000), 'Waiting in the queue, place 2 · 6 s');
  assert.is(
    shown([...facts, [7000, { type: 'started', provider: 'lab' }]], 7100),
    'Waiting for the first token of lab',
  );
});

test('the wait for the next attempt is counted down, and ends with the attempt', () => {
  assert.is(shown([[0, failed]], 1500), 'Trying again in 1 s (2 of 3): lab: Too many requests');
  assert.is(shown([[0, failed]], 2500), 'Trying again (2 of 3): lab: Too many requests');
  const again = [
    [0, failed],
    [2000, { type: 'started', provider: 'lab' }],
  ] as const;
  assert.is(shown(again, 2100), 'Waiting for the first token of lab');
});

test('nothing is shown once text has come, except that the daemon is lost', () => {
  const answering = [
    [0, accepted],
    [10, { type: 'answering' }],
  ] as const;
  for (const fact of [failed, { type: 'placed', position: 1 }, accepted] as const)
    assert.is(shown([...answering, [20, fact]], 9999), null);
  const lost = [...answering, [20, { type: 'lost' }]] as const;
  assert.match(String(shown(lost, 400)), /daemon is gone/);
  assert.is(shown([...lost, [500, { type: 'connected' }]], 9999), null);
  assert.is(
    shown(
      [
        [0, accepted],
        [1, { type: 'ended' }],
      ],
      9999,
    ),
    null,
  );
});

test('after a reconnection the answer is still waited for', () => {
  const facts = [
    [0, accepted],
    [100, { type: 'lost' }],
    [400, { type: 'connected' }],
  ] as const;
  assert.is(shown(facts, 500), 'Waiting for the first token of lab');
});

/** A terminal with its own time. */
function screen(columns = 80) {
  let now = 0;
  const timers = new Set<{ ms: number; call: () => void; next: number }>();
  let line = '';
  const written: string[] = [];
  return {
    written,
    line: () => line,
    timers,
    pass(ms: number) {
      for (const end = now + ms; ; ) {
        const due = [...timers].filter(({ next }) => next <= end).sort((a, b) => a.next - b.next);
        const [first] = due;
        if (first === undefined) {
          now = end;
          return;
        }
        now = first.next;
        first.next += first.ms;
        first.call();
      }
    },
    now: () => now,
    every(ms: number, call: () => void) {
      const timer = { ms, call, next: now + ms };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    write(text: string) {
      written.push(text);
      line = text.slice(text.lastIndexOf('\r\u001b[K') + '\r\u001b[K'.length);
    },
    columns: () => columns,
    leaveText: () => written.push('(left)'),
  };
}

test('the line is rewritten in place, and erased before the answer', () => {
  const terminal = screen();
  const status = new StatusLine(terminal);
  status.add(accepted);
  assert.equal(terminal.written, []);
  terminal.pass(600);
  assert.is(terminal.line(), 'Waiting for the first token of lab');
  terminal.pass(600);
  assert.is(terminal.line(), 'Waiting for the first token of lab · 1 s');
  const before = terminal.written.length;
  terminal.pass(200);
  assert.is(terminal.written.length, before, 'the same text is not written again');
  status.add({ type: 'answering' });
  assert.is(terminal.written.at(-1), '\r\u001b[K');
  assert.is(terminal.timers.size, 0);
});

test('a short wait writes nothing at all', () => {
  const terminal = screen();
  const status = new StatusLine(terminal);
  status.add(accepted);
  terminal.pass(250);
  status.add({ type: 'answering' });
  terminal.pass(5000);
  assert.equal(terminal.written, []);
});

test('a text between erases the line, which returns below it', () => {
  const terminal = screen();
  const status = new StatusLine(terminal);
  status.add(accepted);
  terminal.pass(500);
  status.erase();
  assert.is(terminal.line(), '');
  terminal.pass(250);
  assert.is(terminal.line(), 'Waiting for the first token of lab');
});

test('a line is cut to the terminal, wide characters too, and cannot command it', () => {
  const terminal = screen(12);
  const status = new StatusLine(terminal);
  status.add({ type: 'loading', model: '模型\u001b[2J\n', part: 0 });
  terminal.pass(500);
  assert.is(terminal.line(), 'Loading 模');
  assert.not.match(terminal.written.join('').replaceAll('\r\u001b[K', ''), '\u001b');
});

test.run();
