import { appendFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type LogSource, openLogs } from '../../src/logs/files.ts';
import { parseSince } from '../../src/logs/filter.ts';
import { openTail, readTail, type TailQuery } from '../../src/logs/tail.ts';

const test = suite<{ folder: string }>('tail');

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-tail-'));
});

test.after.each(({ folder }) => {
  rmSync(folder, { recursive: true, force: true });
});

const START = Date.parse('2026-01-01T00:00:00.000Z');
const LEVELS = ['debug', 'info', 'warn', 'error'];

/** Line `n`: a minute after line `n - 1`, its level and run going round. */
function line(n: number, more: object = {}): string {
  return JSON.stringify({
    level: LEVELS[n % 4],
    time: new Date(START + n * 60_000).toISOString(),
    run_id: `run_${n % 10}`,
    n,
    msg: `line ${n}`,
    ...more,
  });
}

function lines(from: number, to: number): string {
  return Array.from({ length: to - from }, (_, index) => `${line(from + index)}\n`).join('');
}

function numbers(found: string[]): unknown[] {
  return found.map((text) => JSON.parse(text).n);
}

const tail = async (folder: string, query: TailQuery) => numbers(await readTail(folder, query));

/** A log of any size that exists only as it is read, and counts the bytes. */
function hugeLog(size: number): {
  open: () => LogSource[];
  count: { bytes: number; closed: number };
} {
  const count = { bytes: 0, closed: 0 };
  const body = Buffer.from(`${line(1)}\n`.padStart(200, ' '));
  const source: LogSource = {
    size,
    read: async (position, length) => {
      count.bytes += length;
      const first = position % body.length;
      const next = Buffer.concat([body.subarray(first), body.subarray(0, first)]);
      return Buffer.alloc(length, next);
    },
    close: () => {
      count.closed += 1;
    },
  };
  return { open: () => [source], count };
}

test('the last lines come oldest first, over as many files as it takes', async ({ folder }) => {
  writeFileSync(join(folder, 'svc.2.log'), lines(0, 10));
  writeFileSync(join(folder, 'svc.1.log'), lines(10, 20));
  writeFileSync(join(folder, 'svc.log'), lines(20, 25));
  assert.equal(await tail(folder, { lines: 3 }), [22, 23, 24]);
  assert.equal(await tail(folder, { lines: 8 }), [17, 18, 19, 20, 21, 22, 23, 24]);
  assert.is((await tail(folder, { lines: 1000 })).length, 25);
  assert.equal(await tail(folder, { lines: 0 }), []);
});

test('a missing or empty folder has no lines', async ({ folder }) => {
  assert.equal(await readTail(folder, { lines: 10 }), []);
  assert.equal(await readTail(join(folder, 'none'), { lines: 10 }), []);
});

test('every block size finds the same lines', async ({ folder }) => {
  for (const block_bytes of [1, 2, 3, 7, 64, 199, 4096]) {
    const long = line(10, { text: 'x'.repeat(block_bytes + 200) });
    writeFileSync(
      join(folder, 'svc.log'),
      `${line(0, { text: 'é…😀'.repeat(10) })}\n\n${lines(1, 10)}\n\n${long}\n`,
    );
    const whole = await readTail(folder, { lines: 100 });
    assert.is(whole.length, 11);
    const found = await readTail(folder, { lines: 100 }, { block_bytes });
    assert.equal(found, whole, String(block_bytes));
  }
});

test('the last 100 lines of a gigabyte cost as much as 100 lines', async () => {
  const { open, count } = hugeLog(1_000_000_000);
  const found = await readTail('', { lines: 100 }, { open });
  assert.is(found.length, 100);
  assert.ok(count.bytes <= 2 * 64 * 1024, `${count.bytes} bytes were read`);
  assert.is(count.closed, 1);
});

test('a long tail comes in groups of about a block, so its length costs no memory', async () => {
  const { open, count } = hugeLog(20_000_000);
  let [found, largest] = [0, 0];
  for await (const group of openTail('', { lines: 50_000 }, { open })) {
    found += group.length;
    largest = Math.max(largest, group.join('\n').length);
  }
  assert.is(found, 50_000);
  assert.ok(largest < 2 * 64 * 1024, `${largest} characters in one group`);
  assert.is(count.closed, 1);
});

test('a filter that matches nothing stops at its bound and says so', async () => {
  const { open, count } = hugeLog(1_000_000_000);
  const found = await readTail(
    '',
    { lines: 100, run: 'run_nowhere' },
    { open, search_bytes: 1_000_000 },
  );
  assert.is(found.length, 1);
  // One more byte: whether the last line is cut off.
  assert.is(JSON.parse(found[0] ?? '').searched_bytes, count.bytes - 1);
  assert.ok(count.bytes < 1_000_000 + 64 * 1024);
  assert.is(count.closed, 1);
});

test('a search that reaches the beginning does not say that it stopped', async () => {
  const { open } = hugeLog(100_000);
  assert.equal(
    await readTail('', { lines: 100, run: 'run_nowhere' }, { open, search_bytes: 100_000 }),
    [],
  );
});

test('lines are filtered by level, run and time', async ({ folder }) => {
  writeFileSync(join(folder, 'svc.log'), lines(0, 40));
  assert.equal(await tail(folder, { lines: 3, level: 'error' }), [31, 35, 39]);
  assert.equal(await tail(folder, { lines: 3, level: 'warn' }), [35, 38, 39]);
  assert.equal(await tail(folder, { lines: 3, run: 'run_7' }), [17, 27, 37]);
  assert.equal(await tail(folder, { lines: 100, since: START + 37 * 60_000 }), [37, 38, 39]);
  assert.equal(
    await tail(folder, { lines: 100, since: START + 30 * 60_000, level: 'error', run: 'run_5' }),
    [35],
  );
  assert.equal(await tail(folder, { lines: 5, run: 'run' }), []);
});

test('a search by time reads no further than that time', async () => {
  const { open, count } = hugeLog(1_000_000_000);
  assert.equal(await readTail('', { lines: 100, since: START + 120_000 }, { open }), []);
  // One more byte: whether the last line is cut off.
  assert.ok(count.bytes <= 64 * 1024 + 1);
});

test('a torn or foreign line is shown as unreadable, and hidden from the lines of a run; a cut end is no line', async ({
  folder,
}) => {
  writeFileSync(
    join(folder, 'svc.log'),
    `${line(1)}\nnot json run_1\n[1]\n\0\0\n${line(11)}\n${line(21).slice(0, 30)}`,
  );
  const found = (await readTail(folder, { lines: 10 })).map((text) => JSON.parse(text));
  assert.equal(
    found.map((fields) => fields.n ?? fields.raw),
    [1, 'not json run_1', '[1]', '\0\0', 11],
  );
  assert.ok(
    found.every((fields) => typeof fields.msg === 'string' && typeof fields.level === 'string'),
  );
  assert.equal(await tail(folder, { lines: 10, run: 'run_1' }), [1, 11]);
  assert.equal(await tail(folder, { lines: 1 }), [11]);
  writeFileSync(join(folder, 'svc.log'), line(1).slice(0, 30));
  assert.equal(await readTail(folder, { lines: 10 }), []);
});

test('lines logged and files rotated after the call change nothing', async ({ folder }) => {
  writeFileSync(join(folder, 'svc.1.log'), lines(0, 500));
  writeFileSync(join(folder, 'svc.log'), lines(500, 1000));
  const reading = readTail(folder, { lines: 10_000 }, { block_bytes: 128 });
  appendFileSync(join(folder, 'svc.log'), lines(1000, 1010));
  rmSync(join(folder, 'svc.1.log'));
  renameSync(join(folder, 'svc.log'), join(folder, 'svc.1.log'));
  writeFileSync(join(folder, 'svc.log'), lines(1010, 1020));
  assert.equal(
    numbers(await reading),
    Array.from({ length: 1000 }, (_, index) => index),
  );
});

test('a file that shrinks during a read ends the read without an error', async ({ folder }) => {
  writeFileSync(join(folder, 'svc.log'), lines(0, 1000));
  const reading = readTail(folder, { lines: 10_000 }, { block_bytes: 128 });
  writeFileSync(join(folder, 'svc.log'), '');
  assert.ok((await reading).length <= 1000);
});

test('other files of the folder are not read', async ({ folder }) => {
  for (const name of ['svc.log.bak', 'svc.x.log', 'svc.01.log', 'stderr.txt', 'asvc.log'])
    writeFileSync(join(folder, name), lines(0, 1));
  assert.equal(openLogs(folder), []);
});

test('a time or an age is parsed, anything else is refused', () => {
  const now = START;
  assert.is(parseSince('10m', now), now - 600_000);
  assert.is(parseSince('2h', now), now - 7_200_000);
  assert.is(parseSince('1d', now), now - 86_400_000);
  assert.is(parseSince('2026-01-01T00:00:00Z', now), now);
  assert.is(parseSince('2026-01-01 01:00:00+01:00', now), now);
  assert.is(parseSince('2026-01-01', now), now);
  for (const text of [
    '',
    '10',
    'm',
    '-5m',
    '10 m',
    'yesterday',
    '2026-13-01',
    '2026-01-01T99:00Z',
    '1e3m',
  ])
    assert.is(parseSince(text, now), null, text);
});

test.run();
