import type { ClientBase } from 'pg';
import { LOG_FORMAT } from '../../../machines/events.ts';
import { SvcError } from '../../errors.ts';
import {
  columnOf,
  columnsText,
  EVENT_COLUMNS,
  RUN_NAMES,
  runColumns,
} from '../../kernel/store/columns.ts';
import { codeOf } from '../../kernel/store/failure.ts';
import { LATER } from '../../kernel/store/usage.ts';
import { typeOf } from '../../kernel/store/usage-sums.ts';
import { TYPES } from './columns.ts';
import { HAS_TEXTS, TEXTS } from './texts.ts';
import { USED_BY_EMBEDDINGS, USED_BY_RUNS } from './usage.ts';

/**
 * The format of the log after a migration: that of its tables. The first event of a newer kind
 * raises it, up to `LOG_FORMAT`. A newer format is refused.
 */
export const SCHEMA = 3;
/** Older versions of PostgreSQL are refused: `NNmmmm`. */
export const SERVER_VERSION_MIN = 130_000;
/** The lock of migrations: the letters `svce`. */
const MIGRATION_LOCK = 0x73766365;
/**
 * In place of the format while a log is imported, and after an import that was cut off. No version
 * reads such a log.
 */
export const IMPORTING = 1_000_000;

/** Columns of runs by the version of the tables that has them first. */
const columnsSince = (since: number | undefined) =>
  RUN_NAMES.filter((name) => columnOf(name).since === since);

/** Ids are read in the order of SQLite. */
const CREATED = { ...TYPES, id: 'text collate "C"' };

/**
 * The log and what follows from it.
 *
 * `svc_log` has one row. Each commit locks it and raises `last_seq`. So positions have the order of
 * the commits, and no hole is filled later.
 * Texts of JSON are `text`: `jsonb` has no NUL character. Milliseconds are `float8`, as numbers of
 * JavaScript.
 */
const LOG = `
create table svc_log (
  id integer primary key check (id = 1),
  last_seq bigint not null,
  removed bigint not null,
  bytes bigint not null
);
insert into svc_log values (1, 0, 0, 0);
create table svc_events (
  ${columnsText(CREATED, 'seq', EVENT_COLUMNS)},
  digest bytea not null,
  constraint svc_events_version unique (stream, version)
);
create index svc_events_boots on svc_events (seq) where type = 'daemon.boot_started';
create index svc_events_starts on svc_events (seq) where version = 1 and type <> 'run.accepted';
create index svc_events_accepted on svc_events (seq) where version = 1 and type = 'run.accepted';`;

/**
 * `node_id` is the node that has an unfinished run; null: any node may claim it. `waits`: it was
 * released before it started. `bytes`: what a finished run has in the log, null until it is
 * measured.
 */
const RUNS = `
create table svc_runs (
  ${columnsText(CREATED, 'run_id', runColumns(columnsSince(undefined)))},
  data text not null,
  digest bytea not null,
  bytes bigint,
  node_id text,
  waits boolean not null
);
create unique index svc_runs_key on svc_runs (idempotency_key) where idempotency_key is not null;
create index svc_runs_newest on svc_runs (accepted_seq, state, provider);
create index svc_runs_unfinished on svc_runs (accepted_seq) where not finished;
create index svc_runs_claimable on svc_runs (accepted_seq) where not finished and node_id is null;
create index svc_runs_owned on svc_runs (node_id, accepted_seq) where not finished;
create index svc_runs_ended on svc_runs (ended_at) where finished;
create index svc_runs_conversation on svc_runs (conversation, accepted_seq) where conversation is not null;
create index svc_runs_origin on svc_runs (origin, accepted_seq) where origin is not null;
create index svc_runs_cloud on svc_runs (accepted_seq) where cloud;
create table svc_words (
  accepted_seq bigint primary key,
  run_id text collate "C" not null unique,
  prompt tsvector not null,
  answer tsvector not null
);
create index svc_words_found on svc_words using gin (prompt, answer);`;

const USAGE = `
create table svc_usage (
  hour bigint not null,
  provider text not null,
  model text not null,
  client text not null,
  cloud boolean not null,
  runs bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  estimated bigint not null,
  primary key (hour, provider, model, client, cloud)
);
create table svc_embedding_usage (
  hour bigint not null,
  provider text not null,
  model text not null,
  client text not null,
  requests bigint not null,
  input_tokens bigint not null,
  estimated bigint not null,
  primary key (hour, provider, model, client)
);`;

/**
 * All times of leases are those of the database. `late_at`: when the lease was last found ended,
 * and renewed. `gone`: `left` or `lost`; null while the node has a lease.
 */
const NODES = `
create table svc_nodes (
  node_id text primary key,
  epoch bigint not null,
  until timestamptz not null,
  since timestamptz not null,
  late_at timestamptz,
  gone text,
  version text not null,
  host text not null,
  boot_id text not null,
  capacity integer not null,
  active integer not null,
  draining boolean not null,
  addresses text not null
);
create table svc_boots (
  boot_id text primary key,
  node_id text not null,
  epoch bigint not null,
  seen_at timestamptz not null
);
create table svc_keys (
  key text primary key,
  run_id text not null,
  node_id text not null,
  epoch bigint not null
);
create table svc_asks (
  run_id text not null,
  ask text not null,
  by text not null,
  at timestamptz not null,
  primary key (run_id, ask)
);`;

/** `due_at`: when a queued run ends, if no node has started it by then. */
const DUE = `
alter table svc_runs add column ${columnsText(CREATED, 'run_id', runColumns(columnsSince(2)))};
create index svc_runs_due on svc_runs (due_at) where not finished and node_id is null and waits;`;

/** `file`: the model file for which a run that was cut off is kept, until `file_until`. */
const KEPT = `
alter table svc_runs add column file text, add column file_until timestamptz;
create index svc_runs_kept on svc_runs (provider, model, file)
  where not finished and node_id is null and file is not null;`;

/**
 * Older versions write their own columns by name, so these need no version of the tables. A fleet
 * may have nodes of both.
 */
const ADDED = [USED_BY_RUNS, USED_BY_EMBEDDINGS].map(({ table, sums }) => {
  const columns = sums
    .filter((name) => LATER.includes(name as never))
    .map((name) => `add column if not exists ${name} ${TYPES[typeOf(name)]} not null default 0`);
  return `alter table ${table} ${columns.join(', ')}`;
});
/** The column that was added last. */
const LACKS_ADDED = `
select not exists (select from pg_attribute
  where attrelid = 'svc_usage'::regclass and attname = '${LATER.at(-1)}') as lacks`;

/** The code of a statement that took too long. */
const TIMEOUT = '57014';

/** The migration from each version to the next one. */
export const MIGRATIONS: readonly string[] = [LOG + RUNS + USAGE + NODES, DUE, KEPT];

/** The version of the tables; 0: there are no tables. */
export async function schemaVersion(client: ClientBase): Promise<number> {
  const [there] = (
    await client.query<{ there: boolean }>(`select to_regclass('svc_meta') is not null as there`)
  ).rows;
  if (there?.there !== true) return 0;
  const { rows } = await client.query<{ value: string }>(
    `select value from svc_meta where name = 'schema'`,
  );
  return Number(rows[0]?.value ?? 0);
}

/**
 * Creates or upgrades the tables, in the transaction of the caller. The lock makes daemons that
 * start together follow each other. Throws store_foreign.
 */
export async function migrate(client: ClientBase, name: string, log_id: string): Promise<void> {
  // Only other migrations wait for this one, and a start may be slow.
  await client.query('set local idle_in_transaction_session_timeout = 60000');
  await lockMigrations(client, name, 'xact_lock');
  const version = await schemaVersion(client);
  if (version > LOG_FORMAT) throw tooNewError(name, version);
  if (version >= SCHEMA) return addLater(client);
  if (version === 0)
    await client.query('create table svc_meta (name text primary key, value text not null)');
  for (const migration of MIGRATIONS.slice(version)) await client.query(migration);
  await client.query(
    `insert into svc_meta values ('schema', $1), ('log_id', $2)
     on conflict (name) do update set value = excluded.value where svc_meta.name = 'schema'`,
    [String(SCHEMA), log_id],
  );
  await addLater(client);
}

/**
 * Keeps other migrations away: until the transaction ends, or the session. Each daemon that starts
 * makes one.
 */
export async function lockMigrations(
  client: ClientBase,
  name: string,
  lock: 'xact_lock' | 'lock',
): Promise<void> {
  await client.query(`select pg_advisory_${lock}($1)`, [MIGRATION_LOCK]).catch((cause) => {
    throw codeOf(cause) === TIMEOUT ? importingError(name, cause) : cause;
  });
}

/** Gives the log a newer format, before the first event that needs it. */
export const RAISE_FORMAT = `update svc_meta set value = $1 where name = 'schema' and value::integer < $1::integer`;

/**
 * Whether a node may write references to texts: the log has some, or no living node is of another
 * version, which may not know them.
 */
export const MAY_REFER = `
select exists (select from svc_meta where name = 'schema' and value::integer >= $2::integer)
  or not exists (select from svc_nodes where gone is null and until > clock_timestamp()
    and version <> (select version from svc_nodes where node_id = $1)) as may`;

/** What `kindOf` a state means. Its index has the same text. */
export const KINDS = {
  unfinished: 'not finished',
  amiss: `finished and state <> 'completed'`,
} as const;

/** Changes that need no version of the tables. */
async function addLater(client: ClientBase): Promise<void> {
  await addIndex(client, 'svc_events_askers', `svc_events (${ASKED_BY}, seq) where ${FIRST}`);
  await addIndex(client, 'svc_runs_amiss', `svc_runs (state, accepted_seq) where ${KINDS.amiss}`);
  const [found] = (await client.query<{ lacks: boolean }>(LACKS_ADDED)).rows;
  if (found?.lacks === true) await client.query(ADDED.join(';\n'));
  const [texts] = (await client.query<{ there: boolean }>(HAS_TEXTS)).rows;
  if (texts?.there !== true) await client.query(TEXTS);
}

/** The lock is kept for long only by an import. */
function importingError(name: string, cause: unknown): SvcError {
  return new SvcError('store_stalled', `A log is being imported into the database ${name}.`, {
    cause,
    hint: 'Start the daemon when svc import has ended.',
  });
}

export function tooNewError(name: string, version: number): SvcError {
  if (version === IMPORTING)
    return new SvcError(
      'store_foreign',
      `A log is being imported into the database ${name}, or that was cut off.`,
      {
        hint: 'Wait until svc import has ended. If it was cut off, run it again: it begins from the start.',
      },
    );
  return new SvcError(
    'store_foreign',
    `A newer svc made the tables in the database ${name}: version ${version}, and this one knows ${LOG_FORMAT}.`,
    { hint: 'Install that version of svc on this machine too, or name another database in store.' },
  );
}

/**
 * Who asked the runs, as in `src/kernel/store/places.ts`. The escapes of JSON are taken out first:
 * no name of a token has one, and the database refuses some of them in any text.
 */
const ASKED_BY = `(replace(data, '\\u', '/u')::json ->> 'asked_by')`;
const FIRST = `version = 1 and type = 'run.accepted'`;

/**
 * Creates an index, unless it is there. An older version keeps it up to date, so the tables keep
 * their version.
 */
async function addIndex(client: ClientBase, name: string, on: string): Promise<void> {
  const { rows } = await client.query<{ there: boolean }>(
    'select to_regclass($1) is not null as there',
    [name],
  );
  if (rows[0]?.there === true) return;
  // A large log takes longer than a usual statement.
  await client.query('set local statement_timeout = 0');
  await client.query(`create index ${name} on ${on}`);
}

/** Where the runs of an asker begin. */
export const firstOfAsker = (place: string) =>
  `select seq from svc_events where ${FIRST} and ${ASKED_BY} = ${place}`;

export const ASKER = `select ${ASKED_BY} as asked_by from svc_events where stream = $1 and ${FIRST}`;

/** The newest run of an asker. */
export const LAST_OF_ASKER = `select stream as run_id from svc_events
  where ${FIRST} and ${ASKED_BY} is not distinct from $1::text order by seq desc limit 1`;

/** The newest run of an asker at an origin. */
export const LAST_OF_BOTH = `select run_id from svc_runs
  where origin = $2 and (${ASKER.replace('$1', 'run_id')}) is not distinct from $1::text
  order by accepted_seq desc limit 1`;
