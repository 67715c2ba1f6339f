import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { type ConnectionOptions, getCACertificates } from 'node:tls';
import type { Client, ClientBase, ClientConfig, Pool, QueryConfig, QueryResultRow } from 'pg';
import { databaseName } from '../../config/store/address.ts';
import { SvcError } from '../../errors.ts';
import type { EventRow } from '../../kernel/store/row.ts';
import type { Limits } from '../../limits.ts';
import { asDatabaseError, isAway } from './failure.ts';

export interface DatabaseOptions {
  /** A `postgres:` address, without a password. */
  address: string;
  /** Null: the variable PGPASSWORD, or none. */
  password: string | null;
  limits: DatabaseLimits;
}

export type DatabaseLimits = Pick<
  Limits,
  | 'store_connections'
  | 'store_answer_ms'
  | 'store_idle_ms'
  | 'store_wait_ms'
  | 'store_retry_ms'
  | 'store_page_bytes'
  | 'close_ms'
>;

/**
 * The connections of one daemon to the database. It owns a pool for reads, and a pool of one for
 * commits, so that no read delays a commit.
 *
 * 1. Their number is bounded, and so is the time of each statement, here and in the database.
 * 2. A read waits `store_wait_ms` for a database that is away, then throws store_stalled.
 * 3. A connection that failed in a statement is closed: its state is unknown.
 * 4. Each connection is to the log that this process knows. Otherwise each call throws lease_lost.
 */
export class Connections {
  /** The database in messages. */
  readonly name: string;
  readonly highWater = new HighWater();
  private readonly options: DatabaseOptions;
  private readonly reads: Pool;
  private readonly writes: Pool;
  private readonly client: typeof Client;
  private readonly config: ClientConfig;
  private isEnded = false;

  /** Loads the library: a daemon with SQLite never does. */
  static async create(options: DatabaseOptions): Promise<Connections> {
    return new Connections(options, (await import('pg')).default);
  }

  private constructor(options: DatabaseOptions, pg: typeof import('pg').default) {
    this.options = options;
    this.name = databaseName(options.address);
    const { limits } = options;
    const config = configOf(options, pg.types);
    this.config = config;
    const pool = (max: number) => {
      const made = new pg.Pool({
        ...config,
        max,
        min: 0,
        idleTimeoutMillis: IDLE_MS,
        // The pool waits for it before the first statement.
        onConnect: (client) => this.prepare(client),
      });
      // The statement on that connection reports it, or the next one.
      made.on('error', ignore);
      // Between two statements, and before the first one, no statement hears it.
      made.on('connect', (client) => client.on('error', ignore));
      return made;
    };
    this.reads = pool(limits.store_connections);
    this.writes = pool(1);
    this.client = pg.Client;
  }

  /** Rows of a read, which may be repeated. */
  async read<R extends QueryResultRow>(
    text: string,
    values: readonly unknown[] = [],
  ): Promise<R[]> {
    return this.retryWhileAway(async () => (await this.reads.query<R>(text, [...values])).rows);
  }

  /** One attempt of a statement that must not be repeated after an unknown outcome. */
  async queryOnce<R extends QueryResultRow>(
    text: string,
    values: readonly unknown[],
  ): Promise<R[]> {
    try {
      return (await this.reads.query<R>(text, [...values])).rows;
    } catch (error) {
      throw this.asError(error);
    }
  }

  /** One attempt of a statement on the connection for commits. Throws what the library throws. */
  async write<R extends QueryResultRow>(statement: QueryConfig): Promise<R[]> {
    return (await this.writes.query<R>(statement)).rows;
  }

  /** Several statements. All of them count, or none. They are rolled back when `work` throws. */
  async transaction<T>(work: (client: ClientBase) => Promise<T>): Promise<T> {
    const client = await this.retryWhileAway(() => this.reads.connect());
    let failure: unknown;
    try {
      await client.query('begin');
      const result = await work(client);
      await client.query('commit');
      return result;
    } catch (error) {
      failure = error;
      await client.query('rollback').catch(() => {});
      throw this.asError(error);
    } finally {
      client.release(isAway(failure));
    }
  }

  /** A connection beside the pools, such as for notices. The caller ends it. */
  async connect(): Promise<Client> {
    const client = new this.client(this.config);
    client.on('error', ignore);
    await client.connect();
    try {
      await this.prepare(client);
      return client;
    } catch (error) {
      client.end().catch(ignore);
      throw error;
    }
  }

  /**
   * A commit is a prepared statement, which belongs to a connection. A pooler may give each
   * transaction another one. Throws store_foreign.
   */
  async refusePooler(): Promise<void> {
    const clients = await Promise.all([this.connect(), this.connect()]).catch((error: unknown) => {
      throw this.asError(error);
    });
    try {
      const owners = new Map<number, Client>();
      const last = new Map<Client, number>();
      for (let turn = 0; turn < POOLER_TURNS; turn += 1)
        for (const client of clients) {
          const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
          const pid = rows[0]?.pid ?? 0;
          const isShared =
            (owners.get(pid) ?? client) !== client || (last.get(client) ?? pid) !== pid;
          if (isShared) throw pooledError(this.name);
          owners.set(pid, client);
          last.set(client, pid);
        }
    } catch (error) {
      throw this.asError(error);
    } finally {
      await Promise.all(clients.map((client) => client.end().catch(ignore)));
    }
  }

  /** The error for callers. */
  asError(error: unknown): Error {
    return asDatabaseError(error, this.name);
  }

  /** Ends the idle connections, and waits `close_ms` for the others. */
  async end(): Promise<void> {
    if (this.isEnded) return;
    this.isEnded = true;
    const done = new AbortController();
    const ended = Promise.all([this.reads.end(), this.writes.end()]).catch(() => {});
    const late = delay(this.options.limits.close_ms, null, { signal: done.signal }).catch(() => {});
    await Promise.race([ended, late]);
    done.abort();
  }

  /** A pooler between here and the database takes no settings with the first message. */
  private async prepare(client: ClientBase): Promise<void> {
    await client.query(settingsOf(this.options.limits));
    await this.highWater.check(client, this.name);
  }

  private async retryWhileAway<T>(attempt: () => Promise<T>): Promise<T> {
    const { store_wait_ms, store_retry_ms } = this.options.limits;
    const until = performance.now() + store_wait_ms;
    for (;;) {
      try {
        return await attempt();
      } catch (error) {
        const left = until - performance.now();
        if (!isAway(error) || left <= 0 || this.isEnded) throw this.asError(error);
        await delay(Math.min(store_retry_ms, left));
      }
    }
  }
}

/** The library ends the process for an error that nothing hears. */
const ignore = () => {};

/** Each client asks so often for its process of the database. */
const POOLER_TURNS = 3;

function pooledError(name: string): SvcError {
  return new SvcError(
    'store_foreign',
    `The database ${name} is behind a pooler that gives each transaction another connection.`,
    {
      hint:
        'Let it pool sessions, as pgbouncer does with pool_mode = session. ' +
        'Or name the database itself in store.',
    },
  );
}

/** Idle connections beyond this are closed. */
const IDLE_MS = 30_000;

/** 64-bit numbers of the log are exact as numbers: it has fewer than 2^53 events. */
const INT8 = 20;
const NUMERIC = 1700;

/** The bounds of a connection that the database keeps, in one message. */
function settingsOf({ store_answer_ms, store_idle_ms }: DatabaseLimits): string {
  const settings = {
    // A node that stops between two statements keeps its locks no longer.
    idle_in_transaction_session_timeout: store_idle_ms,
    statement_timeout: store_answer_ms,
    tcp_user_timeout: store_answer_ms,
    tcp_keepalives_idle: 5,
    tcp_keepalives_interval: 2,
    tcp_keepalives_count: 3,
  };
  return Object.entries(settings)
    .map(([name, value]) => `set ${name} = ${value}`)
    .join('; ');
}

type Types = Pick<typeof import('pg').types, 'getTypeParser'>;

function configOf({ address, password, limits }: DatabaseOptions, types: Types): ClientConfig {
  const url = new URL(address);
  const ssl = takeTls(url, process.env);
  if (password !== null) url.searchParams.set('password', password);
  return {
    // A `+` would stay a plus sign in the library.
    connectionString: url.href.replaceAll('+', '%20'),
    ssl,
    application_name: 'svc',
    connectionTimeoutMillis: limits.store_answer_ms,
    query_timeout: limits.store_answer_ms + LATE_MS,
    keepAlive: true,
    types: {
      getTypeParser: ((id: number, format: 'text') =>
        id === INT8 || id === NUMERIC
          ? Number
          : types.getTypeParser(id, format)) as Types['getTypeParser'],
    },
  };
}

/** The database ends a statement first. */
const LATE_MS = 1000;

const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full'] as const;
type SslMode = (typeof SSL_MODES)[number];

/** What an address may say of TLS. The library would read these in its own way. */
const PARAMETERS = [
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'ssl',
  'uselibpqcompat',
] as const;

/**
 * How to encrypt the connections of an address, which is without its parameters of TLS afterwards.
 * The words mean what they mean to `psql`:
 *
 * 1. `require` encrypts. It checks the certificate only with a file of authorities.
 * 2. `verify-ca` checks who signed it, and `verify-full` also that it is for this host.
 * 3. A socket file is not encrypted. It does not leave the machine.
 *
 * Modes that encrypt only by chance are refused. Throws config_invalid.
 */
function takeTls(url: URL, env: NodeJS.ProcessEnv): ConnectionOptions | false {
  const { sslmode, sslrootcert, sslcert, sslkey, ssl, uselibpqcompat } = parametersOf(url);
  if (ssl !== null || uselibpqcompat !== null)
    throw tlsError(`store has ${ssl === null ? 'uselibpqcompat' : 'ssl'}, which is not for svc`);
  const authorities = sslrootcert ?? env.PGSSLROOTCERT ?? null;
  const mode = modeOf(
    sslmode ?? env.PGSSLMODE ?? (authorities === null ? 'disable' : 'verify-full'),
  );
  if (mode === 'disable' || isSocketFile(url)) return false;
  const certificate = sslcert === null ? {} : { cert: read('sslcert', sslcert) };
  const key = sslkey === null ? {} : { key: read('sslkey', sslkey) };
  if (authorities === null) {
    if (mode === 'verify-ca')
      throw tlsError('sslmode=verify-ca needs the file of the authority: sslrootcert');
    return { ...certificate, ...key, rejectUnauthorized: mode !== 'require' };
  }
  return {
    ...certificate,
    ...key,
    ca: authorities === 'system' ? getCACertificates('system') : read('sslrootcert', authorities),
    ...(mode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
  };
}

function parametersOf(url: URL): Record<(typeof PARAMETERS)[number], string | null> {
  const values = PARAMETERS.map((name) => [name, url.searchParams.get(name)]);
  for (const name of PARAMETERS) url.searchParams.delete(name);
  return Object.fromEntries(values);
}

function modeOf(text: string): SslMode {
  const mode = SSL_MODES.find((known) => known === text);
  if (mode !== undefined) return mode;
  const chance = ['allow', 'prefer'].includes(text) ? ' It may connect without encryption.' : '';
  throw tlsError(`sslmode=${text} is not for svc.${chance} Known are: ${SSL_MODES.join(', ')}`);
}

/** As the library sees it: the host is the path of a folder, in one of two places. */
function isSocketFile(url: URL): boolean {
  const host = url.searchParams.get('host') ?? decodeURIComponent(url.hostname);
  return host.startsWith('/');
}

function read(name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code = 'unknown reason' } = error as NodeJS.ErrnoException;
    throw tlsError(`${name} of store, ${file}, cannot be read (${code})`, error);
  }
}

function tlsError(what: string, cause?: unknown): SvcError {
  return new SvcError('config_invalid', `${what}.`, {
    cause,
    hint: 'Correct store. See the part about TLS in docs/fleet.md.',
  });
}

/** An event by its place, and by who wrote it there. */
type LastEvent = Pick<EventRow, 'seq' | 'stream' | 'version' | 'boot_id'>;

/**
 * How far this process knows the log. It owns the newest event that it has written or read, and the
 * last position that it heard of. A database that was restored from a copy lacks them. So does a
 * standby that took over without the last commits.
 *
 * 1. Each new connection is compared before its first statement: no database is exchanged without a
 *    new connection.
 * 2. A database that has less, or other events, is refused for good. A new boot has to read the
 *    log again.
 * 3. A standby is refused until it takes over: it may be behind for a moment.
 * 4. An event that was removed on purpose is not missed: the last position stays.
 */
class HighWater {
  private newest: LastEvent | null = null;
  private last_seq = 0;

  saw({ seq, stream, version, boot_id }: LastEvent): void {
    this.noteLastSeq(seq);
    if (seq > (this.newest?.seq ?? 0)) this.newest = { seq, stream, version, boot_id };
  }

  noteLastSeq(last_seq: number): void {
    this.last_seq = Math.max(this.last_seq, last_seq);
  }

  /** Throws lease_lost. For a standby it throws what PostgreSQL says of a write there. */
  async check(client: ClientBase, database: string): Promise<void> {
    if (this.last_seq === 0) return;
    const { seq = 0, stream = '', version = 0, boot_id = '' } = this.newest ?? {};
    const values = [this.last_seq, seq, stream, version, boot_id];
    const { rows } = await client.query<Answer>(COMPARE, values);
    const [answer] = rows;
    if (answer?.standby)
      throw Object.assign(new Error('it is a standby'), { code: READ_ONLY_TRANSACTION });
    if (answer?.behind !== false || answer.other)
      throw new SvcError(
        'lease_lost',
        `The database ${database} has lost events: this node knows its log up to ${this.last_seq}, ` +
          `and the log ends at ${answer?.end ?? 0}${answer?.other ? ' or has other events' : ''}.`,
        { hint: 'A copy was restored, or a standby took over without the last commits.' },
      );
  }
}

interface Answer {
  standby: boolean;
  /** Null: the database has no log. */
  behind: boolean | null;
  other: boolean;
  end: number | null;
}

const READ_ONLY_TRANSACTION = '25006';

const COMPARE = `
select pg_is_in_recovery() as standby, last_seq < $1 as behind, last_seq as end,
  exists (
    select from svc_events where seq = $2 and (stream, version, boot_id) <> ($3, $4::bigint, $5)
  ) as other
from (select 1) as one left join svc_log on id = 1`;
