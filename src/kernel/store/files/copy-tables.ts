import { closeSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { TEXTS_FORMAT } from '../../../../machines/events.ts';
import { syncFolderSync } from '../../../home/disk.ts';
import { isDamage } from '../failure.ts';
import { PLACES } from '../places.ts';
import { type Key, type Span, saveRecount } from '../recount.ts';
import { pragma, schemaOf } from '../schema.ts';
import { recountTexts } from '../sqlite/texts-table.ts';
import { CLOUD_RUNS } from '../usage.ts';

/**
 * Writes the database again, row by row, with new indexes, and puts it in the place of the old one.
 * For a file with a damaged page: SQLite can build an index again only where it can read the old
 * one. Of a table that follows from the events, the rows that can be read are kept. The others are
 * made again: here, or by who reads the events. False: another table is damaged too, or there is no
 * space. Then nothing has changed.
 *
 * The index of words is left out, since the next open makes it. No other connection of this process
 * may have the file open: its lock would be lost.
 */
export function copyTables(database: string): boolean {
  const copy = `${database}.mended`;
  try {
    rmSync(copy, { force: true, recursive: true });
    copyInto(copy, database);
    for (const suffix of ['-wal', '-shm']) rmSync(database + suffix, { force: true });
    renameSync(copy, database);
    syncFolderSync(dirname(database));
    return true;
  } catch {
    for (const suffix of ['', '-journal']) rmSync(copy + suffix, { force: true, recursive: true });
    return false;
  }
}

/** A row without a digest is damaged, so who meets it folds the run. */
const LOST_RUNS = `
insert or ignore into runs (run_id, accepted_seq, finished, state, provider, seq, data)
  select stream, seq, 0, '?', '?', seq, '{}' from events
  where version = 1 and type = 'run.accepted' and stream not in (select run_id from runs)`;

/**
 * The tables that follow from the events, with what makes lost rows again. Null: the mender of rows
 * and the recount of usage do, which fold runs.
 */
const DERIVED: Readonly<Record<string, string | null>> = {
  runs: LOST_RUNS,
  run_digests: null,
  run_places: PLACES,
  cloud_runs: CLOUD_RUNS,
  usage: null,
  cache_usage: null,
  embedding_usage: null,
  text_users: null,
};

function copyInto(copy: string, database: string): void {
  const db = new Database(database);
  try {
    db.pragma('locking_mode = exclusive');
    db.exec('begin exclusive; commit');
    db.pragma('wal_checkpoint(truncate)');
    closeSync(openSync(copy, 'wx', 0o600));
    const parts = partsOf(db);
    const made = new Database(copy);
    try {
      for (const name of ['page_size', 'auto_vacuum']) setAs(db, made, name);
      made.exec('begin');
      for (const { sql } of parts.filter(isTable)) made.exec(sql);
      forgetIndexes(db);
      const lost: Record<string, Span> = {};
      for (const { name } of parts.filter(isTable)) {
        const span = copyRows(db, made, name);
        if (span !== null) lost[name] = span;
      }
      makeAgain(made, lost);
      for (const { sql } of parts.filter((part) => !isTable(part))) made.exec(sql);
      for (const name of ['application_id', 'user_version']) setAs(db, made, name);
      made.exec('commit');
    } finally {
      made.close();
    }
  } finally {
    db.close();
  }
}

function makeAgain(made: Database.Database, lost: Readonly<Record<string, Span>>): void {
  const names = Object.keys(lost);
  if (names.length === 0) return;
  for (const name of names) made.exec(DERIVED[name] ?? '');
  recountTexts(made);
  // The next check begins with the first event, and finds the rows that are missing.
  made.exec(`delete from meta where name = 'verified'`);
  const { usage, cache_usage, embedding_usage } = lost;
  if (usage === undefined && cache_usage === undefined && embedding_usage === undefined) return;
  const to_seq = made.prepare<[], number>('select coalesce(max(seq), 0) from events').pluck().get();
  saveRecount(made, { usage, cache_usage, embedding_usage, after: 0, to_seq: to_seq ?? 0 });
}

/** SQLite reads a table by an index that has all its columns, whatever the query says. */
function forgetIndexes(db: Database.Database): void {
  db.unsafeMode(true);
  db.exec(`begin; pragma writable_schema = on;
    delete from sqlite_schema where type = 'index' and sql is not null;
    pragma writable_schema = reset;`);
}

/** Copies the rows from both ends of a table. Returns where some are lost; null: none is. */
function copyRows(from: Database.Database, to: Database.Database, name: string): Span | null {
  const isDerived = Object.hasOwn(DERIVED, name) || (name === 'texts' && !mayHaveTexts(from));
  const keys = keyOf(from, name);
  const found: [Key | null, Key | null] = [null, null];
  for (const [at, order] of [
    [0, 'asc'],
    [1, 'desc'],
  ] as const) {
    const sorted = keys.map((key) => `${key} ${order}`).join(', ');
    const rows = from
      .prepare<[], unknown[]>(`select ${keys}, * from "${name}" not indexed order by ${sorted}`)
      .raw();
    const places = rows.columns().slice(keys.length);
    const insert = to.prepare<unknown[]>(`insert into "${name}" values (${places.map(() => '?')})`);
    try {
      for (const row of rows.safeIntegers().iterate()) {
        insert.run(...row.slice(keys.length));
        found[at] = row
          .slice(0, keys.length)
          .map((key) => (typeof key === 'bigint' ? Number(key) : key));
      }
      if (at === 0) return null;
    } catch (error) {
      if (!isDerived || !isLost(error)) throw error;
    }
  }
  return found;
}

/** A log of an earlier format has no reference. */
function mayHaveTexts(db: Database.Database): boolean {
  return schemaOf(Number(pragma(db, 'user_version'))) >= TEXTS_FORMAT;
}

/** A damaged page, or a row of one that its table does not take. */
function isLost(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return isDamage(error) || String(code).startsWith('SQLITE_CONSTRAINT');
}

/** The columns in whose order the rows are stored. */
function keyOf(db: Database.Database, name: string): string[] {
  const columns = db.prepare<[string], { name: string; pk: number }>(
    'select name, pk from pragma_table_info(?) where pk > 0 order by pk',
  );
  const hasRowid = db
    .prepare<[string], number>('select wr = 0 from pragma_table_list where name = ?')
    .pluck()
    .get(name);
  return hasRowid === 1 ? ['rowid'] : columns.all(name).map((column) => column.name);
}

interface Part {
  type: 'table' | 'index' | 'trigger';
  name: string;
  sql: string;
}

function partsOf(db: Database.Database): Part[] {
  const parts = db.prepare<[], Part>(
    "select type, name, sql from sqlite_schema where sql is not null and name not like 'sqlite_%'",
  );
  return parts.all().filter(({ name, sql }) => !/\brun_words/.test(`${name} ${sql}`));
}

function isTable({ type }: Part): boolean {
  return type === 'table';
}

function setAs(from: Database.Database, to: Database.Database, name: string): void {
  to.pragma(`${name} = ${Number(pragma(from, name))}`);
}
