import { randomUUID } from 'node:crypto';
import type { QueryConfig, QueryResultRow } from 'pg';
import { TEXTS_FORMAT } from '../../../machines/events.ts';
import { SvcError } from '../../errors.ts';
import type { RunRow } from '../../kernel/store/port.ts';
import { conflict, type EventRow, toRunLine } from '../../kernel/store/row.ts';
import { asStored, digestOf, referencesIn } from '../../kernel/store/texts.ts';
import type { LogTarget } from '../../kernel/store/transfer/port.ts';
import type { Shape } from '../../kernel/store/usage-sums.ts';
import { type Alone, connectAlone } from './alone.ts';
import { type AppendAnswer, addTextsQuery } from './append/append-statement.ts';
import { prepareRows, withoutSeq } from './append/commit.ts';
import { Statement } from './append/statement.ts';
import type { DatabaseOptions } from './connections.ts';
import { isDuplicate, isMissing } from './failure.ts';
import { IMPORTING, lockMigrations, migrate, SCHEMA, schemaVersion } from './schema.ts';
import { expandData, KnownTexts, releaseTexts } from './texts.ts';
import { columnsOf, listColumns, USED_BY_EMBEDDINGS, USED_BY_RUNS } from './usage.ts';

/**
 * Opens an empty database, or one without tables, to write a whole log into it. Throws
 * store_not_empty, daemon_already_running, store_foreign, store_stalled, store_failed.
 */
export async function openPostgresTarget(options: DatabaseOptions): Promise<LogTarget> {
  const alone = await connectAlone(options);
  try {
    const target = new PostgresTarget(alone);
    await target.begin();
    return target;
  } catch (error) {
    await alone.close();
    throw alone.asError(error);
  }
}

/** The node that appends. It is gone when the import ends. */
const NODE = { node_id: '(import)', epoch: 1 };

/**
 * Writes a log with the statement of each commit, as a node that exists only for that. It owns the
 * tables until `finish`.
 *
 * 1. Each statement is a transaction. Until the last one the tables have a format that no version
 *    reads, so an import that was cut off is not a log. The next import begins again.
 * 2. It has the lock of migrations, for which each daemon waits that starts. No other node joins.
 * 3. Runs that have not ended are cut off afterwards, also those that waited. The node that claims
 *    one moves its deadlines by the downtime, which counts from the last event of its boot.
 */
class PostgresTarget implements LogTarget {
  private readonly alone: Alone;
  private last_seq = 0;
  private refers = false;
  /** SQL that restores the database as it was. Null: nothing has changed. */
  private undo: string | null = null;
  private readonly known = new KnownTexts();
  /** When each boot was last seen. */
  private readonly boots = new Map<string, number>();

  constructor(alone: Alone) {
    this.alone = alone;
  }

  async begin(): Promise<void> {
    const { client, name, read } = this.alone;
    await lockMigrations(client, name, 'lock');
    const version = await schemaVersion(client);
    if (version === IMPORTING) await read(WIPE);
    // Commits of an import need no sync of their own: the last one comes after them.
    await read('set synchronous_commit = off');
    await read('begin');
    await migrate(client, name, randomUUID());
    await read('lock table svc_nodes in share row exclusive mode');
    const [found] = await read<{ is_used: boolean; nodes: number }>(FOUND);
    if (found === undefined || found.is_used)
      throw new SvcError('store_not_empty', `The database ${name} has events already.`);
    if (found.nodes > 0)
      throw new SvcError('daemon_already_running', `A daemon uses the database ${name}.`, {
        hint: 'Stop each node first. See them with: svc nodes',
      });
    await read(JOIN, [NODE.node_id, NODE.epoch]);
    await read(SET_FORMAT, [String(IMPORTING)]);
    await read('commit');
    this.undo = version === 0 ? DROP : WIPE;
  }

  async texts(texts: readonly string[]): Promise<void> {
    const rows = texts.map((text) => ({ digest: digestOf(text), text }));
    const uses = rows.flatMap(({ digest, text }) =>
      referencesIn(text).map((used) => ({ parent: digest, digest: used })),
    );
    await this.ask(addTextsQuery({ run_id: '', texts: rows, uses }));
    this.known.add(rows);
  }

  expand(data: string): Promise<string> {
    return expandData(this.alone.read, data);
  }

  async append(events: readonly EventRow[], runs: readonly RunRow[]): Promise<void> {
    const lines = runs.map((row) => ({ ...toRunLine(withoutSeq(row)), usage: null }));
    const commit = prepareRows(
      { events: [...events], runs: lines, embeddings: [] },
      runs,
      asStored,
    );
    this.refers ||= commit.refers;
    const { texts, ...statement } = commit.statement(NODE, this.known);
    const [answer] = await this.ask<AppendAnswer & Record<string, unknown>>(statement);
    this.known.add(texts);
    if (answer === undefined || answer.base !== this.last_seq)
      throw conflict(`The events after ${this.last_seq} do not continue their streams.`);
    this.last_seq += events.length;
    for (const { boot_id, at } of events)
      this.boots.set(boot_id, Math.max(at, this.boots.get(boot_id) ?? at));
  }

  private async ask<R extends QueryResultRow>(query: QueryConfig): Promise<R[]> {
    try {
      return (await this.alone.client.query<R>(query)).rows;
    } catch (error) {
      if (isDuplicate(error))
        throw conflict('An event or an idempotency key is there twice.', error);
      if (isMissing(error)) throw conflict('It needs a text that it does not have.', error);
      throw this.alone.asError(error);
    }
  }

  async skip(to_seq: number): Promise<void> {
    await this.alone.read('update svc_log set last_seq = $1, removed = removed + $2 where id = 1', [
      to_seq,
      to_seq - this.last_seq,
    ]);
    this.last_seq = to_seq;
  }

  async usage(rows: Parameters<LogTarget['usage']>[0]): Promise<void> {
    await this.add(USED_BY_RUNS, rows);
  }

  async embeddings(rows: Parameters<LogTarget['embeddings']>[0]): Promise<void> {
    await this.add(USED_BY_EMBEDDINGS, rows);
  }

  private async add(shape: Shape, rows: readonly object[]): Promise<void> {
    const names = columnsOf(shape).join(', ');
    const statement = new Statement<readonly object[]>();
    const table = statement.rows(listColumns(shape), (all) => all);
    await this.alone.read(
      `insert into ${shape.table} (${names}) select ${names} from ${table}`,
      statement.valuesOf(rows),
    );
  }

  async finish(): Promise<void> {
    const { read } = this.alone;
    await read('begin');
    await read('set local synchronous_commit = on');
    // The last statements read the whole log.
    await read('set local statement_timeout = 0');
    await releaseTexts(this.alone.client, []);
    await read(ADD_BOOTS, [[...this.boots.keys()], [...this.boots.values()]]);
    await read('update svc_runs set node_id = null, waits = false where not finished');
    await read('delete from svc_nodes where node_id = $1', [NODE.node_id]);
    await read(SET_FORMAT, [String(this.refers ? TEXTS_FORMAT : SCHEMA)]);
    await read('commit');
    this.undo = null;
  }

  /** The next import undoes what this one cannot. */
  async close(): Promise<void> {
    const { read, close } = this.alone;
    if (this.undo !== null) await read(`rollback; ${this.undo}`).catch(() => {});
    await close();
  }
}

const SET_FORMAT = `update svc_meta set value = $1 where name = 'schema'`;

/** What an import writes. Nodes that have gone stay. */
const WRITTEN =
  'svc_events, svc_runs, svc_words, svc_usage, svc_embedding_usage, svc_boots, svc_keys, ' +
  'svc_asks, svc_texts, svc_text_users';

const WIPE = `
begin;
truncate ${WRITTEN};
update svc_log set last_seq = 0, removed = 0, bytes = 0;
delete from svc_nodes where node_id = '${NODE.node_id}';
update svc_meta set value = '${SCHEMA}' where name = 'schema';
commit`;

const DROP = `drop table svc_log, svc_nodes, svc_meta, ${WRITTEN}`;

const FOUND = `
select last_seq > 0 or exists (select from svc_events) or exists (select from svc_runs)
    or exists (select from svc_usage) or exists (select from svc_embedding_usage) as is_used,
  (select count(*) from svc_nodes where gone is null and until > clock_timestamp()) as nodes
from svc_log where id = 1`;

const JOIN = `
insert into svc_nodes (node_id, epoch, until, since, version, host, boot_id, capacity, active,
  draining, addresses)
values ($1, $2, 'infinity', clock_timestamp(), '', '', $1, 0, 0, false, '{}')`;

/** Only boots with a run that has not ended. */
const ADD_BOOTS = `
insert into svc_boots (boot_id, node_id, epoch, seen_at)
select boot_id, '', 0, to_timestamp(at / 1000)
from unnest($1::text[], $2::float8[]) as boots (boot_id, at)
where boot_id in (
  select (select boot_id from svc_events where stream = run_id order by version desc limit 1)
  from svc_runs where not finished
)`;
