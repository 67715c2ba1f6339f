import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { accepted, codeOf, event, type Place, placed, run } from './samples.ts';

/** A damaged page names itself as damage, and costs the runs on it. */

const RUNS = 100;

/** Finished runs with the word `needle`, and a text that fills pages. */
async function filled(place: Place): Promise<void> {
  const store = place.store();
  await store.open();
  const record = (index: number) => ({ prompt: `needle ${index}`, output: 'text '.repeat(60) });
  const runs = Array.from({ length: RUNS }, (_, index) =>
    run(`run_${index}`, {
      finished: true,
      state: 'completed',
      seq: index + 1,
      conversation: 'run_0',
      record: record(index),
    }),
  );
  await store.append(accepted(1, runs));
  await store.append({ events: [event(RUNS + 1, 'daemon:boot_1', 1)], runs: [] });
  await store.searchRuns({ terms: ['needle'], limit: 1 });
  await store.close();
}

/** Overwrites a leaf of a table or an index in the middle of its tree. */
function damage({ database }: Place, name: string): void {
  const db = new Database(database, { readonly: true });
  const leaves = db
    .prepare<[string], number>(
      "select pageno from dbstat where name = ? and pagetype = 'leaf' order by path",
    )
    .pluck()
    .all(name);
  const size = Number(db.pragma('page_size', { simple: true }));
  db.close();
  const page = leaves[Math.floor(leaves.length / 2)];
  assert.ok(page !== undefined && leaves.length > 2, `${name} has ${leaves.length} leaves`);
  const bytes = readFileSync(database);
  bytes.fill(0, (page - 1) * size, page * size);
  writeFileSync(database, bytes);
}

test(
  'a damaged page costs its runs, and no list, page of a list or search',
  placed(async (place) => {
    await filled(place);
    damage(place, 'runs');
    // The file cannot be written again: a folder is in the place of the journal.
    mkdirSync(`${place.database}.mended-journal`);
    const store = place.store();
    await store.open();
    const seen = { read: new Set<string>(), damaged: new Set<string>() };
    for (let before: string | undefined, page = 0; page < 20; page += 1) {
      const rows = await store.listRuns({ limit: 7, ...(before === undefined ? {} : { before }) });
      if (rows.length === 0) break;
      for (const row of rows) seen['damage' in row ? 'damaged' : 'read'].add(row.run_id);
      before = rows.at(-1)?.run_id;
    }
    assert.is(seen.read.size + seen.damaged.size, RUNS);
    assert.ok(
      seen.damaged.size > 0 && seen.damaged.size < RUNS / 4,
      `${seen.damaged.size} damaged`,
    );
    const all = await store.listRuns({ limit: RUNS, state: 'completed', provider: 'local' });
    assert.is(all.length, RUNS);
    assert.match(JSON.stringify(all.filter((row) => 'damage' in row)), 'damaged page');
    const found = await store.searchRuns({ terms: ['needle'], limit: RUNS });
    assert.is(found.length, RUNS);
    assert.is(found.filter((row) => 'damage' in row).length, seen.damaged.size);
    const [damaged] = seen.damaged;
    assert.is(await codeOf(store.getRun(damaged ?? '')), 'store_corrupt');
    await store.close();
  }),
);

test(
  'a write that meets a damaged page says that the log is damaged',
  placed(async (place) => {
    await filled(place);
    damage(place, 'events');
    const store = place.store();
    const codes: (string | null)[] = [await codeOf(store.open())];
    // The last leaves are whole, so a write meets the damage where it has to look back.
    for (let index = 0; index < RUNS && codes.at(-1) === null; index += 10) {
      const again = event(RUNS + 2 + index, `run_${index}`, 2);
      codes.push(await codeOf(store.append({ events: [again], runs: [] })));
    }
    assert.is(codes.at(-1), 'store_corrupt', codes.join(' '));
    await store.close().catch(() => {});
  }),
);

test.run();
