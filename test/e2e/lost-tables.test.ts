import { readFileSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';

const test = suite<{ home: Home }>('tables that follow from the events, and are lost');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(({ home }) => home.close());

/** Overwrites each page of these tables. */
function lose({ paths }: Home, names: readonly string[]): void {
  const db = new Database(paths.database, { readonly: true });
  const find = db.prepare<[string], number>('select pageno from dbstat where name = ?').pluck();
  const pages = names.flatMap((name) => find.all(name));
  const size = Number(db.pragma('page_size', { simple: true }));
  db.close();
  assert.ok(pages.length >= names.length, pages.join());
  const bytes = readFileSync(paths.database);
  for (const page of pages) bytes.fill(0, (page - 1) * size, page * size);
  writeFileSync(paths.database, bytes);
}

test('the next start makes them again: runs, their list, the last of a folder and the usage', async ({
  home,
}) => {
  await home.svc(['start']);
  for (const prompt of ['hi', 'How do I see the logs?']) await home.svc(['run', prompt]);
  const survey = async () =>
    Promise.all(
      [
        ['runs', 'list', '--json'],
        ['usage', '--json'],
        ['runs', 'show', 'last', '--json'],
      ].map(async (args) => {
        const { code, stdout, stderr } = await home.svc(args);
        assert.is(code, 0, stderr);
        return JSON.parse(stdout);
      }),
    );
  const before = await survey();
  assert.is(before[1].total.runs, 2);
  await home.svc(['stop']);
  lose(home, ['runs', 'run_digests', 'run_places', 'usage', 'cloud_runs', 'runs_newest']);
  const start = await home.svc(['start']);
  assert.equal([start.code, start.stderr], [0, '']);
  assert.equal(await survey(), before);
  assert.match((await home.svc(['logs'])).stdout, 'a damaged part of the event log was made again');
  assert.is((await home.svc(['run', '-c', 'and then?'])).code, 0);
  assert.is((await home.svc(['stop'])).code, 0);
  assert.match((await home.svc(['doctor'])).stdout, 'chain and database are intact');
});

test.run();
