import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import type { PruneQuery, PruneReport } from '../../../src/kernel/store/port.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { Retention, type RetentionOptions } from '../../../src/runtime/disk/retention.ts';
import { manualClock } from '../../helpers/manual-clock.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';

const DAY_MS = 86_400_000;
const NOW = 100 * DAY_MS;

/** A retention over a store with scripted answers. Its kernel has only a clock and the events. */
function setUp(
  keep: RetentionOptions['keep'],
  answers: (PruneReport | Error)[],
  last_at: number | null = null,
) {
  const clock = manualClock(NOW);
  const asked: PruneQuery[] = [];
  const events: unknown[] = [];
  const logged: unknown[] = [];
  const kernel = {
    clock,
    durableSeq: 7,
    stalled: null,
    instances: { keys: () => ['daemon:b', 'engine:b:1', 'run_1'] },
    snapshot: () => ({ context: { last_boot: last_at === null ? null : { at: last_at } } }),
    tryAppend: async (_stream: string, event: unknown) => {
      events.push(event);
      return true;
    },
  } as unknown as Kernel;
  const store = {
    prune: async (query: PruneQuery) => {
      asked.push(query);
      const answer = answers.shift() ?? { runs: 0, events: 0, more: false };
      if (answer instanceof Error) throw answer;
      return answer;
    },
  };
  const warned: string[] = [];
  const log = {
    info: () => {},
    warn: (_: unknown, message: string) => warned.push(message),
    error: (fields: unknown) => logged.push(fields),
  } as unknown as RetentionOptions['log'];
  const retention = new Retention({
    kernel,
    store,
    daemon: 'daemon:b',
    boot_id: 'b',
    keep,
    limits: { ...defaultLimits, prune_every_ms: 60_000 },
    log,
  });
  /** Moves the clock in small steps until the wait ends. */
  const until = (what: string, done: () => boolean, step_ms = 10) =>
    waitFor(
      what,
      () => {
        clock.advance(step_ms);
        return done();
      },
      { every_ms: 1 },
    );
  return { clock, asked, events, logged, warned, retention, until };
}

test('a round continues while there is more and is one event; the next starts on time', async () => {
  const { asked, events, retention, until } = setUp({ keep_days: 30, keep_bytes: 5000 }, [
    { runs: 50, events: 200, more: true },
    { runs: 3, events: 12, more: false },
  ]);
  retention.start();
  await until('the event', () => events.length === 1);
  assert.equal(events, [{ type: 'daemon.history_pruned', runs: 53, events: 212 }]);
  assert.is(asked.length, 2);
  const [first] = asked;
  assert.equal([first?.max_bytes, first?.keep_boot], [5000, 'b']);
  assert.is(first?.before_at, NOW - 30 * DAY_MS);
  await until('the next round', () => asked.length === 3, 5000);
  assert.is(events.length, 1, 'a round that removed nothing is no event');
  await retention.close();
});

test('from the second round on the store hears which streams lived at the round before', async () => {
  const { asked, retention, until } = setUp({ keep_days: 30, keep_bytes: 5000 }, []);
  retention.start();
  await until('the first round', () => asked.length === 1);
  assert.is(asked[0]?.living, undefined);
  await until('the second round', () => asked.length === 2, 5000);
  assert.equal(asked[1]?.living, { streams: ['daemon:b', 'engine:b:1'], seq: 7 });
  await retention.close();
});

test('runs of a round that goes on are gone for the metrics, until its event says so', async () => {
  const { events, retention, until } = setUp({ keep_days: 30, keep_bytes: null }, [
    { runs: 50, events: 200, more: true },
    { runs: 3, events: 12, more: false },
  ]);
  assert.is(retention.unrecorded, 0);
  retention.start();
  // The clock does not move, so the second step does not begin.
  await turns();
  assert.equal([retention.unrecorded, events.length], [50, 0]);
  await until('the event', () => events.length === 1);
  await turns();
  assert.is(retention.unrecorded, 0);
  await retention.close();
});

test('a clock far ahead of the last boot is not trusted for an hour: rounds remove by size, not by age', async () => {
  const { asked, retention, until } = setUp(
    { keep_days: 30, keep_bytes: 5000 },
    [],
    NOW - 31 * DAY_MS,
  );
  retention.start();
  await until('the first round', () => asked.length === 1);
  assert.equal([asked[0]?.before_at, asked[0]?.max_bytes], [null, 5000]);
  await until('an hour has passed', () => asked.length === 62, 30_000);
  assert.is(asked[30]?.before_at, null);
  assert.type(asked.at(-1)?.before_at, 'number');
  await retention.close();
});

test('a clock that jumps while the daemon runs is not trusted; one that advanced while it was off is', async () => {
  const { asked, retention, clock, until } = setUp(
    { keep_days: 30, keep_bytes: null },
    [],
    NOW - DAY_MS / 2,
  );
  retention.start();
  await until('the first round', () => asked.length === 1);
  assert.is(asked[0]?.before_at, NOW - 30 * DAY_MS);
  clock.advance(365 * DAY_MS);
  await until('the next round', () => asked.length === 2, 30_000);
  assert.is(asked[1]?.before_at, null);
  await retention.close();
});

test('the store removes nothing when everything is kept for ever, and folds old sums', async () => {
  const { asked, retention, until } = setUp({ keep_days: null, keep_bytes: null }, []);
  retention.start();
  await until('the first round', () => asked.length === 1);
  await retention.close();
  const [query] = asked;
  assert.equal([query?.before_at, query?.max_bytes, query?.clock?.now], [null, null, NOW]);
});

test('a failed round is reported, its removals are an event, and the next round runs', async () => {
  const { asked, events, logged, retention, until } = setUp({ keep_days: 1, keep_bytes: null }, [
    { runs: 1, events: 4, more: true },
    new SvcError('store_failed'),
    new SvcError('store_full'),
  ]);
  retention.start();
  await until('the second round', () => asked.length >= 3, 5000);
  await until('the third round', () => asked.length >= 4, 5000);
  assert.equal(events, [{ type: 'daemon.history_pruned', runs: 1, events: 4 }]);
  assert.is(logged.length, 1, 'a full disk is told by others');
  await retention.close();
});

test('a close ends a round between two steps', async () => {
  const { asked, retention, until } = setUp(
    { keep_days: 1, keep_bytes: null },
    Array.from({ length: 100 }, () => ({ runs: 1, events: 4, more: true })),
  );
  retention.start();
  await until('some steps', () => asked.length >= 3);
  await retention.close();
  assert.ok(asked.length < 10);
});

test('the store gets the time since the last clock jump, and the limits for young and large runs', async () => {
  const { asked, retention, clock, until } = setUp({ keep_days: 30, keep_bytes: 5000 }, []);
  retention.start();
  await until('the first round', () => asked.length === 1);
  assert.equal(asked[0]?.clock, { now: NOW, even_since: NOW });
  assert.equal(
    [asked[0]?.young_at, asked[0]?.large_bytes],
    [NOW - defaultLimits.history_young_ms, defaultLimits.history_large_bytes],
  );
  await until('the second round', () => asked.length === 2, 5000);
  assert.is(asked[1]?.clock?.even_since, NOW);
  clock.advance(400 * DAY_MS);
  await until('the round after the leap', () => asked.length === 3, 5000);
  const leapt_at = asked[2]?.clock?.even_since ?? 0;
  assert.ok(leapt_at >= NOW + 400 * DAY_MS);
  await until('the next one', () => asked.length === 4, 5000);
  assert.is(asked[3]?.clock?.even_since, leapt_at);
  await retention.close();
});

test('a WAL that cannot be written back, and a log that stays too large, are reported once each time they begin', async () => {
  const fine = { runs: 0, events: 0, more: false };
  const stuck = { ...fine, trouble: 'disk I/O error' };
  const { asked, warned, retention, until } = setUp({ keep_days: 30, keep_bytes: 5000 }, [
    fine,
    stuck,
    stuck,
    fine,
    { ...stuck, over: true },
    fine,
  ]);
  const after = async (rounds: number) => {
    await until(`${rounds} rounds`, () => asked.length === rounds, 5000);
    await turns();
    return warned.length;
  };
  retention.start();
  assert.equal(
    [await after(1), await after(2), await after(3), await after(4), await after(5)],
    [0, 1, 1, 1, 3],
  );
  assert.match(retention.trouble ?? '', 'disk I/O error');
  assert.match(warned[0] ?? '', 'write-ahead log');
  assert.match(warned[2] ?? '', 'keep_bytes');
  await retention.close();
});

test.run();
