import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import Database from 'better-sqlite3';
import type { StoredEvent } from '../../src/kernel/store/port.ts';
import { event, makePlace } from '../kernel/store/samples.ts';
import { Report } from './lib/report.ts';
import { quantile } from './lib/statistics.ts';
import { takeTurns, timed } from './lib/turns.ts';

/**
 * Durable events a second: `npm run bench store`. The floors have the same bytes: a file with
 * fdatasync, and a bare SQLite table in this thread.
 */

const BATCHES = [1, 10, 100, 1000];
const ROUNDS = 7;
const TURN_MS = 300;
const FLOOR = 'write and fdatasync';
const text = 'x'.repeat(800);
const report = new Report('store');

/** Events of about one kilobyte, in eight streams. */
function batch(first: number, count: number): StoredEvent[] {
  return Array.from({ length: count }, (_, index) => {
    const at = first + index - 1;
    return event(at + 1, `run_${at % 8}`, Math.floor(at / 8) + 1, {
      type: 'run.output_appended',
      data: { attempt: 1, text, token_ids: [1, 2, 3, 4] },
    });
  });
}

/** Commits one after the other for a while. Returns events a second. */
async function takeTurn(
  count: number,
  commit: () => unknown,
  commits_ms: number[],
): Promise<number> {
  const started = performance.now();
  let [now, commits] = [started, 0];
  while (now - started < TURN_MS) {
    await commit();
    commits_ms.push(performance.now() - now);
    now = performance.now();
    commits += 1;
  }
  return (commits * count * 1000) / (now - started);
}

const place = makePlace();
const store = place.store();
await store.open();
const file = openSync(`${place.folder}/bare`, 'a');
const sqlite = new Database(`${place.folder}/bare.db`);
sqlite.pragma('journal_mode = WAL');
sqlite.pragma('synchronous = FULL');
sqlite.exec('create table events (seq integer primary key, data text not null)');
const insert = sqlite.prepare('insert into events (data) values (?)');
const insertAll = sqlite.transaction((lines: string[]) => {
  for (const line of lines) insert.run(line);
});
let seq = 0;
const lines = (count: number) => batch(1, count).map((one) => `${JSON.stringify(one)}\n`);
const commits: Record<string, (count: number) => unknown> = {
  [FLOOR]: (count) => {
    writeSync(file, lines(count).join(''));
    fdatasyncSync(file);
  },
  'bare SQLite': (count) => insertAll(lines(count)),
  svc: async (count) => {
    await store.append({ events: batch(seq + 1, count), runs: [] });
    seq += count;
  },
};
for (const count of BATCHES) {
  const times = Object.fromEntries(Object.keys(commits).map((way) => [way, [] as number[]]));
  await takeTurns(report, {
    what: `${count} events a commit`,
    unit: 'events/s',
    rounds: ROUNDS,
    floor: FLOOR,
    ways: Object.fromEntries(
      Object.entries(commits).map(([way, commit]) => [
        way,
        () => takeTurn(count, () => commit(count), times[way] ?? []),
      ]),
    ),
  });
  for (const [way, list] of Object.entries(times))
    report.add({
      what: `${count} events a commit, p99 of a commit`,
      unit: 'ms',
      way,
      values: [quantile(list, 0.99)],
      floor: FLOOR,
    });
}
let checked = 0;
const check_ms = await timed(async () => {
  const { events, ok } = await store.verify();
  if (!ok) throw new Error('the log is not whole');
  checked = events;
});
report.add({ what: `check of all ${checked} events`, unit: 'ms', way: 'svc', values: [check_ms] });
await store.close();
const again = place.store();
const open_ms = await timed(() => again.open());
report.add({ what: 'open of that log', unit: 'ms', way: 'svc', values: [open_ms] });
await again.close();
sqlite.close();
closeSync(file);
place.remove();
report.print();
