import Database from 'better-sqlite3';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { UsageTable } from '../../../src/kernel/store/usage.ts';
import {
  DAY_ROWS_MAX,
  HOUR_MS,
  HOUR_ROWS_MAX,
  HOURS_KEPT,
  NAME_CHARS_MAX,
} from '../../../src/kernel/store/usage-sums.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { accepted, event, type Place, placed, run, used } from './samples.ts';

/**
 * A program that may only ask names another model and client in each run. Its rows of usage have a
 * bound, and no run goes for them.
 */

/** An hour that begins a day. */
const FIRST = 24 * 20_000;
const KEEP_BYTES = 1_048_576;

test(
  'rows that a program makes with its names are bounded, and no young run goes for them',
  placed(async (place) => {
    const [days, hours] = [HOURS_KEPT / 24 + 2, 4];
    await withRun(place);
    const used = attack(place, { days, hours, names: HOUR_ROWS_MAX + 200 });
    assert.ok(used.bytes > KEEP_BYTES, 'the rows alone are larger than the bound of the history');
    const store = place.store();
    await store.open();
    const now = (FIRST + days * 24) * HOUR_MS;
    const query = { before_at: null, max_bytes: KEEP_BYTES, keep_boot: 'boot_2', limit: 50 };
    const young_at = now - defaultLimits.history_young_ms;
    let removed = 0;
    for (let more = true; more; ) {
      const step = await store.prune({ ...query, young_at, clock: { now, even_since: 0 } });
      removed += step.runs;
      more = step.more;
    }
    assert.is(removed, 0);
    const { sums } = await store.usage({ from_hour: 0, key: null });
    assert.is(
      sums.reduce((total, { runs }) => total + runs, 0),
      days * hours * (HOUR_ROWS_MAX + 200),
      'each is counted',
    );
    await store.close();
    const kept = (HOURS_KEPT / 24) * hours * (HOUR_ROWS_MAX + 1) + 2 * (DAY_ROWS_MAX + 1);
    const after = sizeOf(place);
    assert.ok(after.rows <= kept, `${after.rows} rows, and at most ${kept}`);
    assert.ok(after.rows > HOUR_ROWS_MAX, 'the recent hours keep their rows');
  }),
);

/** One finished run, which is young. */
async function withRun(place: Place): Promise<void> {
  const store = place.store();
  await store.open();
  await store.append(
    accepted(1, [run('run_1', { finished: true, state: 'completed', seq: 1, record: {} })]),
  );
  await store.append({
    events: [event(2, 'daemon:boot_2', 1, { boot_id: 'boot_2', at: (FIRST + 1000) * HOUR_MS })],
    runs: [],
  });
  await store.close();
}

/** Writes through the statements of the store. */
function attack(
  { database }: Place,
  { days, hours, names }: { days: number; hours: number; names: number },
): { bytes: number } {
  const db = new Database(database);
  const usage = new UsageTable(db);
  const one = db.transaction((hour: number) => {
    for (let index = 0; index < names; index += 1)
      usage.add(
        used({
          hour,
          input_tokens: 1,
          output_tokens: 1,
          cached_tokens: 0,
          cache_write_tokens: 0,
          cost: 1,
          model: `${hour} ${index} `.padEnd(NAME_CHARS_MAX, 'x'),
          client: `client ${index}`,
        }),
      );
  });
  for (let day = 0; day < days; day += 1)
    for (let hour = 0; hour < hours; hour += 1) one(FIRST + day * 24 + hour);
  db.close();
  return sizeOf({ database });
}

function sizeOf({ database }: Pick<Place, 'database'>): { rows: number; bytes: number } {
  const db = new Database(database, { readonly: true });
  const rows = db.prepare<[], number>('select count(*) from usage').pluck().get() ?? 0;
  const bytes =
    db
      .prepare<[], number>(`select sum(pgsize) from dbstat('main', 1) where name = 'usage'`)
      .pluck()
      .get() ?? 0;
  db.close();
  return { rows, bytes };
}

test.run();
