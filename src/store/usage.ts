import type Database from 'better-sqlite3';
import {
  addEmbeddingTable,
  EmbeddingTable,
  type EmbeddingUsage,
  sumEmbeddings,
} from './embedding-usage.ts';
import { SumsTable } from './sqlite/sums-table.ts';
import {
  HOUR_MS,
  isInQuery,
  type Shape,
  type UsageQuery,
  type UsageSum,
  type UsageSums,
} from './usage-sums.ts';

/**
 * Two tables that are derived from the log: what runs used, and which runs went to a cloud.
 * A third one has what embeddings used: see `embedding-usage.ts`.
 *
 * 1. A run is counted once, in the transaction of its last event.
 * 2. Removed history stays counted. The only text of a user is the name of the client.
 * 3. A log of an older version is counted when it is first opened, as far as it goes back.
 * 4. An older version writes `usage` by position. So the tokens of caches have a table beside it.
 */

/** What one run used, when it ended. */
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
}

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
insert into cloud_runs
  select run_id, accepted_seq from runs
  where finished = 1 and json_valid(data) and json_extract(data, '$.record.cloud') and json_extract(data, '$.record.attempts') > 0;
insert into usage
  select cast(ended_at / ${HOUR_MS} as integer), provider, coalesce(json_extract(data, '$.record.model'), '?'),
    coalesce(json_extract(data, '$.record.client'), '?'), coalesce(json_extract(data, '$.record.cloud'), 0), count(*),
    sum(coalesce(json_extract(data, '$.record.usage.input_tokens'), 0)), sum(coalesce(json_extract(data, '$.record.usage.output_tokens'), 0)),
    sum(json_extract(data, '$.record.usage.output_tokens') is null)
  from runs where finished = 1 and ended_at is not null and json_valid(data) group by 1, 2, 3, 4, 5;`;

const KEY = ['provider', 'model', 'client', 'cloud'];
export const USAGE: Shape = {
  table: 'usage',
  key: KEY,
  sums: ['runs', 'input_tokens', 'output_tokens', 'estimated'],
  beside: { table: 'cache_usage', sums: ['cached_tokens', 'cache_write_tokens'] },
};

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

  /** In the transaction of the caller. */
  add(usage: RunUsage): void {
    this.runs.add({ ...countedOnce(usage), cloud: usage.cloud ? 1 : 0 });
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
export function countedOnce(usage: RunUsage) {
  return { ...usage, runs: 1, estimated: usage.estimated ? 1 : 0 };
}

type Row = Omit<RunUsage, 'cloud' | 'estimated'> & Record<'runs' | 'cloud' | 'estimated', number>;
export type RunSum = Omit<UsageSum, 'cloud' | keyof typeof NO_EMBEDDINGS> & {
  cloud: number | boolean;
};

/** The same sums, of usages in memory. */
export function sumUsage(
  all: readonly RunUsage[],
  embeddings: readonly EmbeddingUsage[],
  query: UsageQuery,
): UsageSums {
  const { key } = query;
  const sums = new Map<string, UsageSum>();
  for (const usage of all) {
    if (!isInQuery(usage, query)) continue;
    const { provider, model, cloud } = usage;
    const value =
      key === 'day' ? Math.floor(usage.hour / 24) : key === 'client' ? usage.client : null;
    const name = JSON.stringify([value, provider, model, cloud]);
    const sum = sums.get(name) ?? {
      key: value,
      provider,
      model,
      cloud,
      ...NO_EMBEDDINGS,
      runs: 0,
      input_tokens: 0,
      output_tokens: 0,
      estimated: 0,
      cached_tokens: 0,
      cache_write_tokens: 0,
    };
    sum.runs += 1;
    sum.input_tokens += usage.input_tokens;
    sum.output_tokens += usage.output_tokens;
    sum.cached_tokens += usage.cached_tokens;
    sum.cache_write_tokens += usage.cache_write_tokens;
    sum.estimated += usage.estimated ? 1 : 0;
    sums.set(name, sum);
  }
  const sorted = [...sums.values()].sort(
    (a, b) =>
      Number(a.key ?? 0) - Number(b.key ?? 0) ||
      `${a.key} ${a.provider} ${a.model}`.localeCompare(`${b.key} ${b.provider} ${b.model}`),
  );
  return {
    since_hour: earliest([...all, ...embeddings].map(({ hour }) => hour)),
    sums: [...sorted, ...sumEmbeddings(embeddings, query)],
  };
}
