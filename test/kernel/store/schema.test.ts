import Database from 'better-sqlite3';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createTables, schemaOf, upgradeTables } from '../../../src/kernel/store/schema.ts';

test('a new log has the tables of version 3, and is not upgraded', () => {
  const db = new Database(':memory:');
  createTables(db, () => 'log');
  const names = (sql: string) => db.prepare<[], string>(sql).pluck().all();
  const tables = names("select name from sqlite_schema where type = 'table' order by name");
  const columns = names("select name from pragma_table_info('events') order by cid");
  const version = () => Number(db.pragma('user_version', { simple: true }));
  assert.is(schemaOf(version()), 3);
  assert.equal(tables, ['events', 'gaps', 'meta', 'run_digests', 'runs']);
  assert.equal(columns, 'seq stream version type schema at boot_id data hash'.split(' '));
  const before = version();
  upgradeTables(db, () => 'another');
  assert.is(version(), before);
  db.close();
});

test.run();
