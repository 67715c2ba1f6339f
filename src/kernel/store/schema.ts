import { randomInt } from 'node:crypto';
import type Database from 'better-sqlite3';
import { type ColumnTypes, columnsText, EVENT_COLUMNS, runColumns } from './columns.ts';
import { addDigestFunctions, RUN_FIELDS } from './run-digest.ts';

/** Marks the file as an event log of svc, in its header: the letters `svce`. */
export const APPLICATION_ID = 0x73766365;
/**
 * The format of the log after an open: that of its tables. The first event of a newer kind raises
 * it, up to `LOG_FORMAT`. A newer format is refused.
 */
export const SCHEMA = 3;
/**
 * The header's `user_version` has the format of the log in its low byte.
 * Above it is the generation, which the first commits of each WAL raise by one. So a foreign WAL
 * is noticed.
 */
const SCHEMA_BITS = 8;
const GENERATIONS = 2 ** 22;
/** The name of a log in a copy that has none. */
const NO_NAME = 'none';

/** Milliseconds are `real`, so that any JavaScript number survives. */
export const TYPES: ColumnTypes = {
  id: 'text',
  name: 'text',
  text: 'text',
  json: 'text',
  flag: 'integer',
  whole: 'integer',
  number: 'real',
};

/**
 * Streams are read by the unique index. `boots` finds the last boot, and `starts` the other first
 * events, without the large rows.
 */
const EVENTS = `
create table events (
  ${columnsText(TYPES, 'seq', EVENT_COLUMNS)},
  hash blob not null,
  unique (stream, version)
) strict;
create index boots on events (seq) where type = 'daemon.boot_started';`;

/**
 * A gap is a part of the log that was removed on purpose. The chain continues from its last hash.
 */
const GAPS = `
create index starts on events (seq) where version = 1 and type <> 'run.accepted';
create table gaps (
  first_seq integer primary key,
  last_seq integer not null,
  last_hash blob not null
) strict;`;

/**
 * Runs are in log order, since a clock can be set back. `ended_at` is the time of their last
 * event.
 */
const RUNS = `
create table runs (
  ${columnsText(TYPES, 'run_id', runColumns(RUN_FIELDS))},
  data text not null
) strict;`;

const RUNS_INDEXES = `
create unique index runs_key on runs (idempotency_key) where idempotency_key is not null;
create index runs_newest on runs (accepted_seq, state, provider);
create index runs_unfinished on runs (accepted_seq) where finished = 0;
create index runs_finished on runs (accepted_seq, seq) where finished = 1;
create index runs_ended on runs (ended_at) where finished = 1;`;

/**
 * `meta` names this log. `run_digests` has two hashes of each row of `runs`: of its fields and
 * its data.
 * It is a table apart, so that an upgrade rewrites no row.
 */
const PROOFS = `
create table meta (name text primary key, value text not null) strict, without rowid;
create table run_digests (run_id text primary key, fields blob not null, data blob not null) strict, without rowid;
create index accepted on events (seq, stream) where version = 1 and type = 'run.accepted';
create trigger run_removed after delete on runs begin delete from run_digests where run_id = old.run_id; end;`;

/**
 * If two old runs have the same key, the first keeps it. Values that a damaged log lacks are
 * estimated.
 */
const FROM_1 = `
alter table runs rename to old_runs;
${RUNS}
insert into runs
  select run_id, accepted_seq, case when row_number() over (partition by idempotency_key order by accepted_seq) = 1 then idempotency_key end,
    finished, case when finished then coalesce((select at from events where events.seq = found.seq), created_at) end, state, provider, seq, data
  from (
    select *, coalesce((select seq from events where stream = run_id and version = 1), seq) as accepted_seq,
      case when json_valid(data) then json_extract(data, '$.idempotency_key') end as idempotency_key
    from old_runs
  ) as found;
drop table old_runs;
${RUNS_INDEXES}
${GAPS}`;

/** The upgrade trusts the rows: nothing proves their past. */
const FROM_2 = `
${PROOFS}
insert into run_digests
  select run_id, fields_digest(${RUN_FIELDS.join(', ')}), data_digest(run_id, data) from runs;`;

/**
 * Creates the tables of an empty database in one transaction, before WAL mode: so the header is
 * never only in the WAL.
 * `name` is called under the lock, and returns the name of the log.
 */
export function createTables(db: Database.Database, name: () => string): void {
  db.exec('begin exclusive');
  if (pragma(db, 'application_id') === 0) {
    const log_id = name();
    db.exec(
      `${EVENTS} ${RUNS} ${RUNS_INDEXES} ${GAPS} ${PROOFS} ` +
        `pragma application_id = ${APPLICATION_ID};`,
    );
    setName(db, log_id);
  }
  db.exec('commit');
  if (
    pragma(db, 'auto_vacuum') === 0 &&
    db.prepare('select 1 from events limit 1').get() === undefined
  )
    makeShrinkable(db);
}

/**
 * Allows the file to shrink when history is removed. Only an empty database is rebuilt for that.
 */
function makeShrinkable(db: Database.Database): void {
  db.pragma('auto_vacuum = incremental');
  db.exec('vacuum');
}

/** Upgrades older tables in one transaction. Events stay as they are. A copy gets no name. */
export function upgradeTables(db: Database.Database, name: () => string | null): void {
  const version = schemaOf(Number(pragma(db, 'user_version')));
  if (version >= SCHEMA) return;
  addDigestFunctions(db);
  const upgrade = db.transaction(() => {
    if (version < 2) db.exec(FROM_1);
    db.exec(FROM_2);
    setName(db, name());
  });
  upgrade.exclusive();
  // The upgrade must not be only in the WAL.
  if (pragma(db, 'journal_mode') === 'wal') db.pragma('wal_checkpoint(truncate)');
}

/** The random name of this log, which its high-water mark has too; null in older versions. */
export function logName(db: Database.Database): string | null {
  if (schemaOf(Number(pragma(db, 'user_version'))) < 3) return null;
  const name =
    db.prepare<[], string>(`select value from meta where name = 'log_id'`).pluck().get() ?? '';
  return name === NO_NAME ? null : name;
}

/** The format of the log, from the header's `user_version`. */
export function schemaOf(user_version: number): number {
  return user_version & (2 ** SCHEMA_BITS - 1);
}

/** How many generations the WAL is ahead of its file. */
export function generationsAhead(in_wal: number, in_file: number): number {
  return ((in_wal >>> SCHEMA_BITS) - (in_file >>> SCHEMA_BITS) + GENERATIONS) % GENERATIONS;
}

/** The `user_version` of the next generation. */
export function nextGeneration(user_version: number): number {
  const generation = ((user_version >>> SCHEMA_BITS) + 1) % GENERATIONS;
  return toUserVersion(generation, schemaOf(user_version));
}

function toUserVersion(generation: number, format: number): number {
  return generation * 2 ** SCHEMA_BITS + format;
}

/** Gives the log a newer format, in the transaction of the first event that needs it. */
export function raiseFormat(db: Database.Database, format: number): void {
  const version = Number(pragma(db, 'user_version'));
  if (schemaOf(version) < format)
    db.pragma(`user_version = ${toUserVersion(version >>> SCHEMA_BITS, format)}`);
}

function setName(db: Database.Database, log_id: string | null): void {
  db.prepare(
    `insert or replace into meta (name, value) values ('log_id', coalesce(?, '${NO_NAME}'))`,
  ).run(log_id);
  db.pragma(`user_version = ${toUserVersion(randomInt(GENERATIONS), SCHEMA)}`);
}

export function pragma(db: Database.Database, name: string): unknown {
  return db.pragma(name, { simple: true });
}
