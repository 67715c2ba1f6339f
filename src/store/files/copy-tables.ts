import { closeSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { syncFolderSync } from '../../home/disk.ts';
import { pragma } from '../schema.ts';

/**
 * Writes the database again, row by row, with new indexes, and puts it in the place of the old one.
 * For a file with a damaged page: SQLite can build an index again only where it can read the old
 * one. False: a table is damaged too, or there is no space. Then nothing has changed.
 *
 * The index of words is left out, since the next open makes it. No other connection of this process
 * may have the file open: its lock would be lost.
 */
export function copyTables(database: string): boolean {
  const copy = `${database}.mended`;
  try {
    rmSync(copy, { force: true });
    copyInto(copy, database);
    for (const suffix of ['-wal', '-shm']) rmSync(database + suffix, { force: true });
    renameSync(copy, database);
    syncFolderSync(dirname(database));
    return true;
  } catch {
    for (const suffix of ['', '-journal']) rmSync(copy + suffix, { force: true });
    return false;
  }
}

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
      for (const { name } of parts.filter(isTable)) copyRows(db, made, name);
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

/** SQLite reads a table by an index that has all its columns, whatever the query says. */
function forgetIndexes(db: Database.Database): void {
  db.unsafeMode(true);
  db.exec(`begin; pragma writable_schema = on;
    delete from sqlite_schema where type = 'index' and sql is not null;
    pragma writable_schema = reset;`);
}

function copyRows(from: Database.Database, to: Database.Database, name: string): void {
  const rows = from.prepare<[], unknown[]>(`select * from "${name}" not indexed`).raw();
  const places = rows.columns().map(() => '?');
  const insert = to.prepare<unknown[]>(`insert into "${name}" values (${places})`);
  for (const row of rows.safeIntegers().iterate()) insert.run(...row);
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
