import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { databaseName } from '../../config/store/address.ts';
import { SvcError } from '../../errors.ts';
import { notOpen } from '../../kernel/store/failure.ts';
import {
  type EventStore,
  type LogReads,
  type OpenReport,
  type RunRow,
  toReads,
} from '../../kernel/store/port.ts';
import { toRunLine } from '../../kernel/store/row.ts';
import { RowMender, type StoreOptions } from '../../kernel/store/store.ts';
import { compactRun } from '../../kernel/store/texts.ts';
import type { Limits } from '../../limits.ts';
import type { Fleet, FleetChange, SharedStore } from '../port.ts';
import {
  APPENDED_RUNS,
  type AppendedRun,
  addTextsQuery,
  upsertRuns,
} from './append/append-statement.ts';
import { Appends } from './append/appends.ts';
import { withoutSeq } from './append/commit.ts';
import { Statement } from './append/statement.ts';
import { Audit } from './audit.ts';
import { CHANNEL } from './channel.ts';
import { type Claims, createClaims } from './claims.ts';
import { Connections, type DatabaseOptions } from './connections.ts';
import type { Read } from './event-reads.ts';
import { Leases } from './leases.ts';
import { Reads } from './reads.ts';
import { Removal } from './removal.ts';
import { migrate, SERVER_VERSION_MIN } from './schema.ts';
import { KnownTexts, mendTexts, releaseTexts } from './texts.ts';

export interface PostgresOptions extends Omit<DatabaseOptions, 'limits'>, StoreOptions {
  limits: DatabaseOptions['limits'] & Pick<Limits, 'lease_ms'>;
}

/** A shared log, with what the daemon says of it. */
export interface PostgresStore extends SharedStore {
  /** Bytes of the log, as this daemon last heard. */
  size(): number;
  /** The database in messages. */
  readonly place: string;
}

/**
 * The event log in a PostgreSQL database, which several daemons share. It owns the connections
 * between `open` and `close`.
 *
 * 1. The database does the work of each call, so a call never blocks the event loop.
 * 2. A read sees the commits that were asked for before it.
 */
export function createPostgresStore(options: PostgresOptions): PostgresStore {
  let opened: Opened | null = null;
  const now = () => {
    if (opened === null) throw notOpen();
    return opened;
  };
  /** A method of the open log. */
  const ask =
    <A extends unknown[], R>(work: (log: Opened, ...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> =>
      work(now(), ...args);

  const store: EventStore = {
    ...toReads(async (method, args: [never, never, never]) => now().reads[method](...args)),
    open: async () => {
      const connections = await Connections.create(options);
      try {
        const log = new Opened(connections, options);
        const report = await log.open();
        opened = log;
        return report;
      } catch (error) {
        await connections.end();
        throw error;
      }
    },
    append: ask((log, commit) => log.appends.append(commit)),
    reserve: ask(async () => true),
    spendReserve: ask(async () => false),
    prune: ask((log, query) => log.removal.prune(query)),
    removeRun: ask((log, run_id) => log.removal.removeRun(run_id)),
    verify: ask((log) => log.audit.verify()),
    verifyPart: ask((log, at, restart) => log.verifyPart(at, restart)),
    verified: ask(async (log) => log.audit.report()),
    close: async () => {
      const log = opened;
      opened = null;
      await log?.close();
    },
  };
  const fleet: Fleet = {
    join: ask((log, ...args) => log.leases.join(...args)),
    renew: ask((log, load) => log.leases.renew(load)),
    leave: ask((log) => log.leases.leave()),
    nodes: ask((log) => log.leases.nodes()),
    drain: ask((log, node_id) => log.leases.drain(node_id)),
    takeOver: ask((log) => log.leases.takeOver()),
    release: ask((log, run_ids) => log.claims.release(run_ids)),
    keepFor: ask((log, ...args) => log.claims.keepFor(...args)),
    keepOn: ask((log, ...args) => log.claims.keepOn(...args)),
    claim: ask((log, query) => log.claims.claim(query)),
    claimRun: ask((log, run_id) => log.claims.claimRun(run_id)),
    ownerOf: ask((log, run_id) => log.claims.ownerOf(run_id)),
    look: ask((log, most) => log.claims.look(most)),
    position: ask((log, run_id) => log.claims.position(run_id)),
    reserveKey: ask((log, ...args) => log.claims.reserveKey(...args)),
    freeKey: ask((log, ...args) => log.claims.freeKey(...args)),
    ask: ask((log, ...args) => log.claims.ask(...args)),
    listCancels: ask((log) => log.claims.listCancels()),
    lastSeq: ask(async (log) => log.heard(await log.claims.lastSeq())),
    time: ask((log) => log.claims.time()),
    onChange: (listener, signal) => {
      const log = now();
      log.notices.onChange((change) => {
        log.heard(change.last_seq);
        listener(change);
      }, signal);
    },
  };
  return {
    ...store,
    fleet,
    size: () => opened?.appends.bytes ?? 0,
    place: databaseName(options.address),
  };
}

/** The log between its open and its close. */
class Opened {
  readonly appends: Appends;
  readonly audit: Audit;
  readonly claims: Claims;
  readonly leases: Leases;
  readonly notices: Notices;
  readonly mender: RowMender;
  readonly removal: Removal;
  /** Rows of runs that are damaged are made again. */
  readonly reads: LogReads;
  private readonly connections: Connections;
  private readonly options: PostgresOptions;
  private readonly closing = new AbortController();
  private readonly active = new Set<Promise<unknown>>();

  constructor(connections: Connections, options: PostgresOptions) {
    const { store_page_bytes, store_retry_ms } = options.limits;
    this.connections = connections;
    this.options = options;
    this.leases = new Leases(connections, options.limits.lease_ms);
    this.claims = createClaims(connections, this.leases);
    this.notices = new Notices(connections, store_retry_ms);
    this.appends = new Appends({
      connections,
      lease: this.leases,
      retry_ms: store_retry_ms,
      closing: this.closing.signal,
    });
    const read: Read = (text, values) => this.track(this.readInOrder(text, values));
    const reads = new Reads(read, {
      page_bytes: store_page_bytes,
      node_id: () => this.leases.current().node_id,
      onEvent: (event) => connections.highWater.saw(event),
    });
    this.removal = new Removal(connections, this.leases);
    this.audit = new Audit(read);
    this.mender = new RowMender(options, reads, (row) => this.mend(row));
    this.reads = this.mender.mending(
      toReads((method, args: [never, never, never]) => reads[method](...args)),
    );
  }

  async open(): Promise<OpenReport> {
    const { connections } = this;
    const [server] = await connections.read<{ version: number }>(
      `select current_setting('server_version_num')::int as version`,
    );
    if (server === undefined || server.version < SERVER_VERSION_MIN)
      throw new SvcError(
        'store_foreign',
        `The database ${connections.name} is older than PostgreSQL ${SERVER_VERSION_MIN / 10_000}.`,
        { hint: 'Upgrade it, or name another one in store.' },
      );
    await connections.transaction((client) => migrate(client, connections.name, randomUUID()));
    await connections.refusePooler();
    const [log] = await connections.read<{
      first_seq: number | null;
      last_seq: number;
      bytes: number;
      boot: string | null;
    }>(
      `select (select min(seq) from svc_events) as first_seq, last_seq, bytes,
         (select boot_id from svc_events where type = 'daemon.boot_started'
           order by seq desc limit 1) as boot
       from svc_log where id = 1`,
    );
    if (log === undefined)
      throw new SvcError(
        'store_corrupt',
        `The database ${connections.name} has no row of the log.`,
      );
    this.appends.bytes = log.bytes;
    this.heard(log.last_seq);
    return {
      first_seq: log.first_seq ?? log.last_seq + 1,
      last_seq: log.last_seq,
      last_boot_id: log.boot,
      full: false,
    };
  }

  async verifyPart(at: number, restart: boolean) {
    const { done, damaged } = await this.audit.verifyPart(at, restart);
    await this.mender.mendAll(damaged);
    return { done, report: this.audit.report() };
  }

  heard(last_seq: number): number {
    this.connections.highWater.noteLastSeq(last_seq);
    return last_seq;
  }

  /** Waits for earlier calls, for a bounded time while the database is away. */
  async close(): Promise<void> {
    const late = new AbortController();
    const { close_ms } = this.options.limits;
    const bound = delay(close_ms, undefined, { signal: late.signal }).catch(() => {});
    await Promise.race([Promise.all([this.appends.settled, ...this.active]), bound]);
    late.abort();
    this.closing.abort();
    await this.connections.end();
  }

  private async readInOrder<R extends object>(
    text: string,
    values: readonly unknown[] = [],
  ): Promise<R[]> {
    const { store_wait_ms } = this.options.limits;
    const done = new AbortController();
    const late = delay(store_wait_ms, 'late', { signal: done.signal }).catch(() => 'done');
    const first = await Promise.race([this.appends.settled, late]);
    done.abort();
    if (first === 'late')
      throw new SvcError(
        'store_stalled',
        `The database ${this.connections.name} does not answer: a commit has waited for ${store_wait_ms} ms.`,
      );
    return (await this.connections.read(text, values)) as R[];
  }

  private track<T>(work: Promise<T>): Promise<T> {
    const settled = work.then(
      () => {},
      () => {},
    );
    this.active.add(settled);
    void settled.then(() => this.active.delete(settled));
    return work;
  }

  private async mend(row: RunRow): Promise<boolean> {
    const mended = await mendRun(this.connections, row);
    if (mended) this.audit.forgetProblems(row.run_id);
    return mended;
  }
}

interface MendedRun extends AppendedRun {
  accepted_seq: number;
}

const statement = new Statement<MendedRun>();
const MEND = upsertRuns(
  {
    accepted_seq: statement.place('bigint', (run) => run.accepted_seq),
    bytes: 'null',
    node_id: 'null',
    waits: `given.state = 'queued'`,
  },
  statement.rows(APPENDED_RUNS, (run) => [run]),
  ['accepted_seq'],
);

/** Replaces a damaged row. False if the run has newer events. */
function mendRun(connections: Connections, row: RunRow): Promise<boolean> {
  const { run_id, finished, seq } = row;
  return connections.transaction(async (database) => {
    const { rows } = await database.query<{ seq: number; at: number; accepted_seq: number }>(
      `select seq, at, (select seq from svc_events where stream = $1 and version = 1) as accepted_seq
       from svc_events where stream = $1 and type <> 'run.output_appended'
       order by version desc limit 1`,
      [run_id],
    );
    const [last] = rows;
    if (last === undefined || last.seq !== seq) return false;
    const line = { ...toRunLine(withoutSeq(row)), seq };
    const compact = compactRun(line.data);
    await mendTexts(database, compact);
    await database.query(addTextsQuery({ run_id, ...new KnownTexts().newOf([compact]) }));
    const run: MendedRun = {
      line: { ...line, data: compact.text },
      accepted_seq: last.accepted_seq,
      ended_at: finished ? last.at : null,
      accepted_place: null,
      seq_place: null,
      prompt: null,
      answer: null,
    };
    await database.query(MEND, statement.valuesOf(run));
    await releaseTexts(database, []);
    return true;
  });
}

/**
 * What other nodes say in the database: NOTIFY in each commit, LISTEN here. It owns one connection
 * for each listener.
 *
 * 1. A lost connection is made again. Then everything may have changed.
 * 2. A notice may be lost. The poll of its listener finds what it said.
 */
export class Notices {
  private readonly connections: Pick<Connections, 'connect'>;
  private readonly retry_ms: number;

  constructor(connections: Pick<Connections, 'connect'>, retry_ms: number) {
    this.connections = connections;
    this.retry_ms = retry_ms;
  }

  onChange(listener: (change: FleetChange) => void, signal: AbortSignal): void {
    void this.listen(listener, signal);
  }

  private async listen(
    listener: (change: FleetChange) => void,
    signal: AbortSignal,
  ): Promise<void> {
    while (!signal.aborted) {
      const client = await this.connections.connect().catch(() => null);
      if (client !== null) await hear(client, listener, signal);
      await delay(this.retry_ms, null, { signal }).catch(() => {});
    }
  }
}

/** Until the connection ends. */
async function hear(
  client: Client,
  listener: (change: FleetChange) => void,
  signal: AbortSignal,
): Promise<void> {
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  const stop = () => end();
  client.on('error', stop);
  client.on('end', stop);
  signal.addEventListener('abort', stop);
  client.on('notification', ({ payload }) => {
    const change = changeOf(payload ?? '');
    if (change !== null && !signal.aborted) listener(change);
  });
  try {
    const { rows } = await client.query<{ channel: string }>(
      `select quote_ident(${CHANNEL}) as channel`,
    );
    await client.query(`listen ${rows[0]?.channel}`);
    if (signal.aborted) return;
    listener(ANYTHING);
    await ended;
  } catch {
    // The next connection tries again.
  } finally {
    signal.removeEventListener('abort', stop);
    client.end().catch(() => {});
  }
}

const ANYTHING: FleetChange = { last_seq: 0, streams: 'all', waiting: true, asks: true };

/** Null for a text that no node of this version writes. */
function changeOf(payload: string): FleetChange | null {
  try {
    const { last_seq, streams, waiting, asks } = JSON.parse(payload) as Partial<FleetChange>;
    if (typeof last_seq !== 'number' || !(streams === 'all' || Array.isArray(streams))) return null;
    return { last_seq, streams, waiting: waiting === true, asks: asks === true };
  } catch {
    return null;
  }
}
