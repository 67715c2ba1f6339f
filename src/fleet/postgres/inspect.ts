import { LOG_FORMAT } from '../../../machines/events.ts';
import { Connections, type DatabaseOptions } from './connections.ts';

/** The report of a database, for the doctor. */
export interface DatabaseFacts {
  /** The database in messages. */
  name: string;
  server: string;
  /** The version of the tables. Null: there are no tables. `known`: the version of this program. */
  tables: number | null;
  known: number;
  /** A copy of another database, which takes no commits. */
  is_standby: boolean;
  /** Rights that the user lacks, such as `insert on svc_events`. Then `tables` is unknown. */
  missing: string[];
  synchronous_commit: string;
  /** How far the clock of the database is ahead of this one. */
  clock_ms: number;
  encrypted: boolean;
  /** The largest lag of its replicas. Null: it has none, or the user may not see them. */
  lag_ms: number | null;
}

/** Asks a database. It changes nothing. Throws store_stalled, store_failed. */
export async function inspectDatabase(options: DatabaseOptions): Promise<DatabaseFacts> {
  const connections = await Connections.create(options);
  try {
    const askedAt = Date.now();
    const [server] = await connections.read<ServerRow>(SERVER);
    const answered = Date.now();
    if (server === undefined) throw connections.asError(new Error('it has no answer'));
    const { now, has_tables, ...facts } = server;
    const missing = await connections.read<{ lacking: string }>(
      has_tables ? LACKING : CANNOT_CREATE,
    );
    const [tables] =
      has_tables && missing.length === 0
        ? await connections.read<{ version: string }>(
            `select value as version from svc_meta where name = 'schema'`,
          )
        : [];
    return {
      ...facts,
      name: connections.name,
      tables: tables === undefined ? null : Number(tables.version),
      known: LOG_FORMAT,
      missing: missing.map(({ lacking }) => lacking),
      clock_ms: Math.round(now - (askedAt + answered) / 2),
    };
  } finally {
    await connections.end();
  }
}

type ServerRow = Pick<
  DatabaseFacts,
  'server' | 'is_standby' | 'synchronous_commit' | 'encrypted' | 'lag_ms'
> & { now: number; has_tables: boolean };

const SERVER = `
select current_setting('server_version') as server,
  current_setting('synchronous_commit') as synchronous_commit,
  (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
  to_regclass('svc_meta') is not null as has_tables, pg_is_in_recovery() as is_standby,
  coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as encrypted,
  (select (extract(epoch from max(replay_lag)) * 1000)::float8 from pg_stat_replication) as lag_ms`;

const LACKING = `
select need.act || ' on ' || tables.relname as lacking
from pg_class tables, unnest(array['select', 'insert', 'update', 'delete']) as need (act)
where tables.relnamespace = (select relnamespace from pg_class where oid = to_regclass('svc_meta'))
  and tables.relkind = 'r' and tables.relname like 'svc\\_%'
  and not has_table_privilege(tables.oid, need.act)
order by tables.relname, need.act`;

const CANNOT_CREATE = `
select 'create in the schema ' || coalesce(current_schema(), '(none)') as lacking
where current_schema() is null or not has_schema_privilege(current_schema(), 'create')`;
