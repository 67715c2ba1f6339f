import type Database from 'better-sqlite3';
import { costOf } from '../../../machines/price.ts';
import type { EmbeddingCounted } from '../../../machines/provider/context.ts';
import type { EmbeddingSent } from '../../contract/embed-input.ts';
import type { StoredEvent } from './port.ts';
import { TYPES } from './schema.ts';
import { SumsTable } from './sqlite/sums-table.ts';
import {
  HOUR_MS,
  joined,
  PRICED,
  type Priced,
  pricedTokens,
  type Shape,
  typeOf,
  type UsageQuery,
  type UsageSum,
  type UsageSums,
} from './usage-sums.ts';

/**
 * Two tables that are derived from the log: the usage of runs, and which runs went to a cloud. A
 * third one has the usage of embeddings: see `usage-sums.ts`.
 *
 * 1. A run is counted once, in the transaction of its last event.
 * 2. Removed history stays counted. The only text of a user is the name of the client.
 * 3. A log of an older version is counted when it is first opened, as far as it goes back.
 * 4. An older version writes `usage` by position. So newer columns are in a table beside it.
 */

/** The usage of one run, at its end. */
export interface RunUsage {
  /** Hours since 1970. */
  hour: number;
  provider: string;
  model: string;
  client: string;
  /** The prompt was sent to a cloud provider at the end. */
  cloud: boolean;
  input_tokens: number;
  output_tokens: number;
  /** Input tokens that the provider had in its cache, and that it wrote into it. */
  cached_tokens: number;
  cache_write_tokens: number;
  /** The provider did not say all numbers, so they are estimated. */
  estimated: boolean;
  /** In billionths of the currency, at the prices of its acceptance. Null: it had none. */
  cost: number | null;
}

/** A log of an older version has no event that says what was sent. */
export const CLOUD_RUNS = `
insert or ignore into cloud_runs
  select run_id, accepted_seq from runs
  where finished = 1 and json_valid(data) and json_extract(data, '$.record.cloud') and json_extract(data, '$.record.attempts') > 0
    or run_id in (select stream from events where type = 'run.sent_to_cloud');`;

const TABLES = `
create table cloud_runs (run_id text primary key, accepted_seq integer not null) strict, without rowid;
create index cloud_newest on cloud_runs (accepted_seq);
create trigger cloud_run_removed after delete on runs begin delete from cloud_runs where run_id = old.run_id; end;
create table usage (
  hour integer not null,
  provider text not null,
  model text not null,
  client text not null,
  cloud integer not null,
  runs integer not null,
  input_tokens integer not null,
  output_tokens integer not null,
  estimated integer not null,
  primary key (hour, provider, model, client, cloud)
) strict, without rowid;
${CLOUD_RUNS}
insert into usage
  select cast(ended_at / ${HOUR_MS} as integer), provider, coalesce(json_extract(data, '$.record.model'), '?'),
    coalesce(json_extract(data, '$.record.client'), '?'), coalesce(json_extract(data, '$.record.cloud'), 0), count(*),
    sum(coalesce(json_extract(data, '$.record.usage.input_tokens'), 0)), sum(coalesce(json_extract(data, '$.record.usage.output_tokens'), 0)),
    sum(json_extract(data, '$.record.usage.output_tokens') is null)
  from runs where finished = 1 and ended_at is not null and json_valid(data) group by 1, 2, 3, 4, 5;`;

export const USAGE = {
  table: 'usage',
  key: ['provider', 'model', 'client', 'cloud'],
  sums: ['runs', 'input_tokens', 'output_tokens', 'estimated'],
  beside: { table: 'cache_usage', sums: ['cached_tokens', 'cache_write_tokens', ...PRICED] },
} as const satisfies Shape;

/** Sums that older versions leave out of their tables and of the file of a log. */
export const LATER = USAGE.beside.sums;

/**
 * The columns of all rows in the file of a log, in their order. A sum that older versions leave out
 * has no 0 there.
 */
export function rowsOf(shape: Shape, nameOf = (column: string) => column): string {
  const { key, sums, beside } = shape;
  const all: readonly string[] = [...sums, ...(beside?.sums ?? [])];
  const later: readonly string[] = LATER;
  const stored = all.map((sum) =>
    later.includes(sum) ? `nullif(${nameOf(sum)}, 0) as ${sum}` : sum,
  );
  return `select ${['hour', ...key, ...stored].join(', ')} from ${joined(shape)}`;
}

const BESIDE = `
create table if not exists cache_usage (
  hour integer not null,
  provider text not null,
  model text not null,
  client text not null,
  cloud integer not null,
  cached_tokens integer not null,
  cache_write_tokens integer not null,
  primary key (hour, provider, model, client, cloud)
) strict, without rowid;`;

/** Creates the tables, unless they are there: those of runs in one transaction. */
export function addUsageTables(db: Database.Database): void {
  if (!hasUsage(db)) db.transaction(() => db.exec(TABLES))();
  db.exec(BESIDE);
  addColumns(db, 'cache_usage', PRICED);
  addEmbeddingTable(db);
  // Tables that are damaged are found here, where the open reports it.
  new SumsTable(db, USAGE);
  db.prepare('select run_id, accepted_seq from cloud_runs');
}

/** Columns that older versions leave out, unless they are there. */
function addColumns(db: Database.Database, table: string, names: readonly string[]): void {
  const known = new Set(
    db.prepare<[string], string>('select name from pragma_table_info(?)').pluck().all(table),
  );
  for (const name of names)
    if (!known.has(name))
      db.exec(`alter table ${table} add column ${name} ${TYPES[typeOf(name)]} not null default 0`);
}

function hasUsage(db: Database.Database): boolean {
  return db.prepare(`select 1 from sqlite_schema where name = 'usage'`).get() !== undefined;
}

/** Counts runs and embeddings, and reads the sums. */
export class UsageTable {
  private readonly runs: SumsTable<Row, RunSum>;
  private readonly embeddings: EmbeddingTable;

  constructor(db: Database.Database) {
    this.runs = new SumsTable(db, USAGE);
    this.embeddings = new EmbeddingTable(db);
  }

  /** In the transaction of the caller. In damaged tables, only to lost rows. */
  add(usage: RunUsage, isLost = true, isLostBeside = true): void {
    this.runs.add({ ...countedOnce(usage), cloud: usage.cloud ? 1 : 0 }, isLost, isLostBeside);
  }

  /** In the transaction of the caller. */
  addEmbedding(usage: EmbeddingUsage): void {
    this.embeddings.add(usage);
  }

  /** Folds one old day, in the transaction of the caller. False: none is left. */
  fold(now_hour: number): boolean {
    return this.runs.fold(now_hour) || this.embeddings.fold(now_hour);
  }

  read(query: UsageQuery): UsageSums {
    return {
      since_hour: earliest([this.runs.firstHour(), this.embeddings.firstHour()]),
      sums: [...this.runs.sums(query).map(ofRuns), ...this.embeddings.sums(query)],
    };
  }
}

export function ofRuns(sum: RunSum): UsageSum {
  return { ...sum, ...NO_EMBEDDINGS, cloud: Boolean(sum.cloud) };
}

const NO_EMBEDDINGS = { embeddings: 0, estimated_embeddings: 0 };

function earliest(hours: readonly (number | null)[]): number | null {
  const known = hours.filter((hour) => hour !== null);
  return known.length === 0 ? null : Math.min(...known);
}

/** As the row of one run. */
export function countedOnce({ cost, ...usage }: RunUsage) {
  const priced = pricedTokens(usage, cost);
  return { ...usage, ...priced, runs: 1, estimated: usage.estimated ? 1 : 0 };
}

type Row = Omit<RunUsage, 'cloud' | 'estimated' | 'cost'> &
  Record<'runs' | 'cloud' | 'estimated', number> &
  Priced;
export type RunSum = Omit<UsageSum, 'cloud' | keyof typeof NO_EMBEDDINGS> & {
  cloud: number | boolean;
};

/**
 * A table beside the log, which follows from it: the usage of requests for embeddings at cloud
 * providers.
 *
 * 1. A request is counted with an estimate, in the transaction of the event that it is sent.
 * 2. The number of its provider replaces the estimate, in the hour of the request.
 * 3. Removed history stays counted. The table has no text of a user but the name of the client.
 */

/** The changes by one event. The numbers of a correction may be negative. */
export interface EmbeddingUsage {
  /** Hours since 1970. */
  hour: number;
  provider: string;
  model: string;
  client: string;
  requests: number;
  input_tokens: number;
  estimated: number;
  /** As of a run. */
  cost: number;
  priced_input_tokens: number;
}

/** Null for the events of other things. */
export function embeddingUsage({ type, at, data }: StoredEvent): EmbeddingUsage | null {
  if (type === 'provider.embedding_sent') {
    const sent = data as unknown as EmbeddingSent;
    const input_tokens = sent.estimated_tokens;
    const priced = pricedInput(sent, { before: 0, after: input_tokens });
    return { ...placeOf(sent, at), requests: 1, input_tokens, estimated: 1, ...priced };
  }
  if (type !== 'provider.embedding_counted') return null;
  const counted = data as unknown as EmbeddingCounted;
  return {
    ...placeOf(counted, counted.sent_at),
    requests: 0,
    input_tokens: counted.input_tokens - counted.estimated_tokens,
    estimated: -1,
    ...pricedInput(counted, { before: counted.estimated_tokens, after: counted.input_tokens }),
  };
}

/** The columns that change with the number of tokens. */
function pricedInput(
  { price }: Pick<EmbeddingSent, 'price'>,
  { before, after }: { before: number; after: number },
): Pick<Priced, 'cost' | 'priced_input_tokens'> {
  if (price === undefined) return { cost: 0, priced_input_tokens: 0 };
  const of = (input_tokens: number) => costOf(price, { input_tokens });
  return { cost: of(after) - of(before), priced_input_tokens: after - before };
}

function placeOf(
  { provider, model, client, asked_by }: Pick<EmbeddingSent, 'provider' | 'model'> & Asker,
  at: number,
): Pick<EmbeddingUsage, 'hour' | 'provider' | 'model' | 'client'> {
  return { hour: Math.floor(at / HOUR_MS), provider, model, client: asked_by ?? client };
}

type Asker = Pick<EmbeddingSent, 'client' | 'asked_by'>;

const TABLE = `
create table if not exists embedding_usage (
  hour integer not null,
  provider text not null,
  model text not null,
  client text not null,
  requests integer not null,
  input_tokens integer not null,
  estimated integer not null,
  primary key (hour, provider, model, client)
) strict, without rowid;`;

const PRICED_INPUT = ['cost', 'priced_input_tokens'] as const;
export const EMBEDDINGS: Shape = {
  table: 'embedding_usage',
  key: ['provider', 'model', 'client'],
  sums: ['requests', 'input_tokens', 'estimated', ...PRICED_INPUT],
};

/** Creates the table unless it is there. Throws if it is damaged. */
function addEmbeddingTable(db: Database.Database): void {
  db.exec(TABLE);
  addColumns(db, 'embedding_usage', PRICED_INPUT);
  new EmbeddingTable(db);
}

/** Counts requests and reads the sums. */
class EmbeddingTable {
  private readonly rows: SumsTable<EmbeddingUsage, EmbeddingSum>;

  constructor(db: Database.Database) {
    this.rows = new SumsTable(db, EMBEDDINGS);
  }

  /** In the transaction of the caller. */
  add(usage: EmbeddingUsage): void {
    this.rows.add(usage);
  }

  fold(now_hour: number): boolean {
    return this.rows.fold(now_hour);
  }

  firstHour(): number | null {
    return this.rows.firstHour();
  }

  sums(query: UsageQuery): UsageSum[] {
    return this.rows.sums(query).map(embeddingSum);
  }
}

export type EmbeddingSum = Pick<
  UsageSum,
  'key' | 'provider' | 'model' | 'input_tokens' | (typeof PRICED_INPUT)[number]
> & { requests: number; estimated: number };

export function embeddingSum({ requests, estimated, ...sum }: EmbeddingSum): UsageSum {
  return {
    ...sum,
    cloud: true,
    runs: 0,
    embeddings: requests,
    output_tokens: 0,
    cached_tokens: 0,
    cache_write_tokens: 0,
    priced_output_tokens: 0,
    priced_cached_tokens: 0,
    priced_cache_write_tokens: 0,
    estimated: 0,
    estimated_embeddings: estimated,
  };
}
