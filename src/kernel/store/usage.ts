import type Database from 'better-sqlite3';
import { addEmbeddingTable, EmbeddingTable, type EmbeddingUsage } from './embedding-usage.ts';
import { addColumns, SumsTable } from './sqlite/sums-table.ts';
import {
  HOUR_MS,
  joinTables,
  PRICED,
  type Priced,
  pricedTokens,
  type Shape,
  type UsageQuery,
  type UsageSum,
  type UsageSums,
} from './usage-sums.ts';

/**
 * Two tables that are derived from the log: the usage of runs, and which runs went to a cloud.
 * `embedding-usage.ts` has the third one, and `usage-sums.ts` how all of them sum.
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
  return `select ${['hour', ...key, ...stored].join(', ')} from ${joinTables(shape)}`;
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
