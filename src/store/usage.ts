import type Database from 'better-sqlite3';
import {
  addEmbeddingTable,
  EmbeddingTable,
  type EmbeddingUsage,
  OF_CLIENT,
  type OfClient,
  sumEmbeddings,
} from './embedding-usage.ts';
import {
  HOUR_MS,
  HOUR_ROWS_MAX,
  OTHERS,
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
 */

/** What one run used, when it ended. */
export interface RunUsage {
  /** Hours since 1970. */
  hour: number;
  provider: string;
  model: string;
  client: string;
  /** It was sent to a cloud provider at the end. */
  cloud: boolean;
  input_tokens: number;
  output_tokens: number;
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

/** Creates the tables, unless they are there: those of runs in one transaction. */
export function addUsageTables(db: Database.Database): void {
  if (!hasUsage(db)) db.transaction(() => db.exec(TABLES))();
  addEmbeddingTable(db);
  // Tables that are damaged are found here, where the open reports it.
  prepare(db);
  db.prepare('select run_id, accepted_seq from cloud_runs');
}

function hasUsage(db: Database.Database): boolean {
  return db.prepare(`select 1 from sqlite_schema where name = 'usage'`).get() !== undefined;
}

/** Counts runs and embeddings, and reads the sums. */
export class UsageTable {
  private readonly statements: ReturnType<typeof prepare>;
  private readonly embeddings: EmbeddingTable;

  constructor(db: Database.Database) {
    this.statements = prepare(db);
    this.embeddings = new EmbeddingTable(db);
  }

  /** In the transaction of the caller. */
  add(usage: RunUsage): void {
    const { add, insert, rows } = this.statements;
    const row = {
      ...usage,
      cloud: usage.cloud ? 1 : 0,
      estimated: usage.estimated ? 1 : 0,
    };
    if (add.run(row).changes > 0) return;
    const isFull = (rows.get(usage.hour) ?? 0) >= HOUR_ROWS_MAX;
    insert.run(isFull ? { ...row, client: OTHERS } : row);
  }

  /** In the transaction of the caller. */
  addEmbedding(usage: EmbeddingUsage): void {
    this.embeddings.add(usage);
  }

  read({ from_hour, key, client }: UsageQuery): UsageSums {
    const { first, sums } = this.statements;
    const ofRuns = sums[key ?? 'none']
      .all({ from_hour, client: client ?? null })
      .map((sum) => ({ ...sum, ...NO_EMBEDDINGS, cloud: sum.cloud === 1 }));
    return {
      since_hour: earliest([first.get() ?? null, this.embeddings.firstHour()]),
      sums: [...ofRuns, ...this.embeddings.sums({ from_hour, key, client: client ?? null })],
    };
  }
}

const NO_EMBEDDINGS = { embeddings: 0, estimated_embeddings: 0 };

function earliest(hours: readonly (number | null)[]): number | null {
  const known = hours.filter((hour) => hour !== null);
  return known.length === 0 ? null : Math.min(...known);
}

type Row = Omit<RunUsage, 'cloud' | 'estimated'> & { cloud: number; estimated: number };
type Sum = Omit<UsageSum, 'cloud' | keyof typeof NO_EMBEDDINGS> & { cloud: number };

function prepare(db: Database.Database) {
  const sums = (key: string) =>
    db.prepare<[OfClient], Sum>(
      `select ${key} as key, provider, model, cloud, sum(runs) as runs, sum(input_tokens) as input_tokens,
         sum(output_tokens) as output_tokens, sum(estimated) as estimated
       from usage where ${OF_CLIENT} group by 1, 2, 3, 4 order by 1, 2, 3, 4`,
    );
  return {
    add: db.prepare<[Row]>(
      `update usage set runs = runs + 1, input_tokens = input_tokens + @input_tokens,
         output_tokens = output_tokens + @output_tokens, estimated = estimated + @estimated
       where hour = @hour and provider = @provider and model = @model and client = @client
         and cloud = @cloud`,
    ),
    insert: db.prepare<[Row]>(
      `insert into usage values (@hour, @provider, @model, @client, @cloud, 1, @input_tokens, @output_tokens, @estimated)
       on conflict do update set runs = runs + 1,
         input_tokens = input_tokens + excluded.input_tokens,
         output_tokens = output_tokens + excluded.output_tokens,
         estimated = estimated + excluded.estimated`,
    ),
    rows: db.prepare<[number], number>('select count(*) from usage where hour = ?').pluck(),
    first: db.prepare<[], number | null>('select min(hour) from usage').pluck(),
    sums: { none: sums('null'), day: sums('hour / 24'), client: sums('client') },
  };
}

/** The same sums, of usages in memory. */
export function sumUsage(
  all: readonly RunUsage[],
  embeddings: readonly EmbeddingUsage[],
  { from_hour, key, client }: UsageQuery,
): UsageSums {
  const sums = new Map<string, UsageSum>();
  for (const usage of all) {
    if (usage.hour < from_hour || usage.client !== (client ?? usage.client)) continue;
    const { provider, model, cloud } = usage;
    const value =
      key === 'day' ? Math.floor(usage.hour / 24) : key === 'client' ? usage.client : null;
    const name = JSON.stringify([value, provider, model, cloud]);
    const sum = sums.get(name) ?? {
      ...{ key: value, provider, model, cloud, ...NO_EMBEDDINGS },
      ...{ runs: 0, input_tokens: 0, output_tokens: 0, estimated: 0 },
    };
    sum.runs += 1;
    sum.input_tokens += usage.input_tokens;
    sum.output_tokens += usage.output_tokens;
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
    sums: [...sorted, ...sumEmbeddings(embeddings, { from_hour, key, client: client ?? null })],
  };
}
