import Database from 'better-sqlite3';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CONVERSATION_USAGE } from '../../../src/kernel/store/places.ts';
import type { RunQuery } from '../../../src/kernel/store/port.ts';
import { Reads } from '../../../src/kernel/store/sqlite/reads.ts';
import { accepted, placed, run } from './samples.ts';

/** The plan of each statement that a read of a list runs. */
function plansOf(database: string, query: Partial<RunQuery>): string {
  const statements: string[] = [];
  const db = new Database(database, {
    readonly: true,
    verbose: (text) => statements.push(String(text)),
  });
  new Reads(db, 1000).listRuns({ limit: 2, ...query });
  db.close();
  const plain = new Database(database, { readonly: true });
  const plans = statements
    .filter((text) => text.includes('from'))
    .flatMap((text) => plain.prepare(`explain query plan ${text}`).all());
  plain.close();
  return plans.map((row) => (row as { detail: string }).detail).join('\n');
}

test(
  'a list is read in the order of an index, so a page looks at no run that it does not show',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await store.append(
      accepted(1, [
        run('run_1', { cloud: true }),
        run('run_2', { conversation: 'run_1' }),
        run('run_3'),
      ]),
    );
    await store.close();
    const wanted: [Partial<RunQuery>, RegExp][] = [
      [{}, /runs_newest/],
      [{ conversation: 'run_1' }, /SEARCH p USING (COVERING )?INDEX run_turns/],
      [{ asked_by: 'cat' }, /SEARCH e USING (COVERING )?INDEX askers/],
      [{ cloud: true }, /c USING (COVERING )?INDEX cloud_newest/],
      [{ model: 'm' }, /runs_model/],
      [{ unfinished: true }, /runs_unfinished/],
      [{ state: 'failed' }, /SEARCH r USING INDEX runs_amiss \(state=\? AND accepted_seq<\?\)/],
      [{ state: 'queued' }, /runs_unfinished/],
      [{ state: 'completed' }, /runs_newest/],
      [{ state: 'failed', asked_by: 'cat' }, /SEARCH e USING (COVERING )?INDEX askers/],
      [{ latest: true }, /SEARCH later USING (COVERING )?INDEX run_turns/],
      [{ asked_by: 'cat', conversation: 'run_1' }, /SEARCH p USING (COVERING )?INDEX run_turns/],
    ];
    for (const [query, index] of wanted) {
      const plan = plansOf(place.database, { ...query, before: 'run_3' });
      assert.match(plan, index, `${JSON.stringify(query)}\n${plan}`);
      assert.not.match(plan, /TEMP B-TREE|LIST SUBQUERY/, JSON.stringify(query));
    }
  }),
);

test(
  'the sums of a conversation are read from an index alone, but for its first turn',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await store.close();
    const db = new Database(place.database, { readonly: true });
    const plan = db
      .prepare(`explain query plan ${CONVERSATION_USAGE}`)
      .all({ conversation: 'run_1' })
      .map((row) => (row as { detail: string }).detail)
      .join('\n');
    db.close();
    assert.match(plan, /SEARCH p USING (COVERING )?INDEX run_turns/);
    assert.match(plan, /SEARCH r USING COVERING INDEX run_tokens/, plan);
    assert.not.match(plan, /SCAN (p|r)\b/, plan);
  }),
);

test.run();
