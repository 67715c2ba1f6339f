import type Database from 'better-sqlite3';

/** Says in the header of the file that it is an event log of svc: the letters `svce`. */
export const APPLICATION_ID = 0x73766365;
/** Raised when the tables change. A newer one than ours is not touched. */
export const SCHEMA = 2;

/**
 * Numbers of milliseconds are `real`, so that any number of the language comes back as it was. The unique index is also the way to read
 * a stream; `boots` finds the last boot, and `starts` what else began, without a look at the large rows.
 */
const EVENTS = `
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
create index boots on events (seq) where type = 'daemon.boot_started';`;

/** A gap is a part of the log that was removed on purpose: the chain goes on from the hash of its last event. */
const GAPS = `
create index starts on events (seq) where version = 1 and type <> 'run.accepted';
create table gaps (
  first_seq integer primary key,
  last_seq integer not null,
  last_hash blob not null
) strict;`;

/** The order of runs is that of the log, since a clock can be set back. `ended_at` is the time of the last event of a finished run. */
const RUNS = `
create table runs (
  run_id text primary key,
  accepted_seq integer not null,
  idempotency_key text,
  finished integer not null,
  ended_at real,
  state text not null,
  provider text not null,
  seq integer not null,
  data text not null
) strict;`;

const RUNS_INDEXES = `
create unique index runs_key on runs (idempotency_key) where idempotency_key is not null;
create index runs_newest on runs (accepted_seq, state, provider);
create index runs_unfinished on runs (accepted_seq) where finished = 0;
create index runs_finished on runs (accepted_seq, seq) where finished = 1;
create index runs_ended on runs (ended_at) where finished = 1;`;

/** Where two old runs have the same key, the first keeps it. What a damaged log does not tell is replaced by what comes next to it. */
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
${GAPS}
pragma user_version = ${SCHEMA};`;

/** Makes the tables of an empty database, all or nothing, before it is in WAL mode: the header is then never only in the WAL. */
export function createTables(db: Database.Database): void {
  db.exec('begin exclusive');
  if (pragma(db, 'application_id') === 0)
    db.exec(`${EVENTS} ${RUNS} ${RUNS_INDEXES} ${GAPS} pragma application_id = ${APPLICATION_ID}; pragma user_version = ${SCHEMA};`);
  db.exec('commit');
  if (pragma(db, 'auto_vacuum') === 0 && db.prepare('select 1 from events limit 1').get() === undefined) makeShrinkable(db);
}

/** Lets the file become smaller when history is removed. Only an empty database is rebuilt for that; another one uses its space again. */
function makeShrinkable(db: Database.Database): void {
  db.pragma('auto_vacuum = incremental');
  db.exec('vacuum');
}

/** Brings the tables of an older version forward, all or nothing. The events stay as they are. */
export function upgradeTables(db: Database.Database): void {
  if (pragma(db, 'user_version') === 1) db.transaction(() => db.exec(FROM_1)).exclusive();
}

export function pragma(db: Database.Database, name: string): unknown {
  return db.pragma(name, { simple: true });
}
