import type Database from 'better-sqlite3';

/** Says in the header of the file that it is an event log of svc: the letters `svce`. */
export const APPLICATION_ID = 0x73766365;
/** Raised when the tables change. A newer one than ours is not touched. */
export const SCHEMA = 1;

/**
 * Numbers of milliseconds are `real`, so that any number of the language comes back as it was. The unique index is also the way to read
 * a stream; `boots` finds the last boot, and `runs_newest` a page of history, without a look at the large rows.
 */
const TABLES = `
create table events (
  seq integer primary key,
  stream text not null,
  version integer not null,
  type text not null,
  schema integer not null,
  at real not null,
  boot_id text not null,
  data text not null,
  hash blob not null,
  unique (stream, version)
) strict;
create index boots on events (seq) where type = 'daemon.boot_started';

create table runs (
  run_id text primary key,
  created_at real not null,
  finished integer not null,
  state text not null,
  provider text not null,
  seq integer not null,
  data text not null
) strict;
create index runs_newest on runs (created_at, run_id, state, provider);
create index runs_unfinished on runs (created_at, run_id) where finished = 0;
`;

/** Makes the tables of an empty database, all or nothing, before it is in WAL mode: the header is then never only in the WAL. */
export function createTables(db: Database.Database): void {
  db.exec('begin exclusive');
  if (pragma(db, 'application_id') === 0) db.exec(`${TABLES} pragma application_id = ${APPLICATION_ID}; pragma user_version = ${SCHEMA};`);
  db.exec('commit');
}

export function pragma(db: Database.Database, name: string): unknown {
  return db.pragma(name, { simple: true });
}
