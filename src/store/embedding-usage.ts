import type Database from 'better-sqlite3';
import type { EmbeddingCounted, EmbeddingSent } from '../../machines/events.ts';
import type { StoredEvent } from './port.ts';
import { HOUR_MS, HOUR_ROWS_MAX, OTHERS, type UsageQuery, type UsageSum } from './usage-sums.ts';

/**
 * A table beside the log, which follows from it: what requests for embeddings used at cloud
 * providers.
 *
 * 1. A request is counted with an estimate, in the transaction of the event that it is sent.
 * 2. The number of its provider replaces the estimate, in the hour of the request.
 * 3. Removed history stays counted. The table has no text of a user but the name of the client.
 */

/** What one event changes. The numbers of a correction may be negative. */
export interface EmbeddingUsage {
  /** Hours since 1970. */
  hour: number;
  provider: string;
  model: string;
  client: string;
  requests: number;
  input_tokens: number;
  estimated: number;
}

/** Null for the events of other things. */
export function embeddingUsage({ type, at, data }: StoredEvent): EmbeddingUsage | null {
  if (type === 'provider.embedding_sent') {
    const sent = data as unknown as EmbeddingSent;
    return {
      ...placeOf(sent, at),
      ...{ requests: 1, input_tokens: sent.estimated_tokens, estimated: 1 },
    };
  }
  if (type !== 'provider.embedding_counted') return null;
  const counted = data as unknown as EmbeddingCounted;
  return {
    ...placeOf(counted, counted.sent_at),
    ...{ requests: 0, input_tokens: counted.input_tokens - counted.estimated_tokens },
    estimated: -1,
  };
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

/** Creates the table unless it is there. Throws if it is damaged. */
export function addEmbeddingTable(db: Database.Database): void {
  db.exec(TABLE);
  prepare(db);
}

/** Since an hour, and of one client alone unless it is null. */
export interface OfClient {
  from_hour: number;
  client: string | null;
}
export const OF_CLIENT = 'hour >= @from_hour and client = coalesce(@client, client)';

/** Counts requests and reads the sums. */
export class EmbeddingTable {
  private readonly statements: ReturnType<typeof prepare>;

  constructor(db: Database.Database) {
    this.statements = prepare(db);
  }

  /** In the transaction of the caller. */
  add(usage: EmbeddingUsage): void {
    const { add, insert, rows } = this.statements;
    if (add.run(usage).changes > 0) return;
    const isFull = (rows.get(usage.hour) ?? 0) >= HOUR_ROWS_MAX;
    insert.run(isFull ? { ...usage, client: OTHERS } : usage);
  }

  firstHour(): number | null {
    return this.statements.first.get() ?? null;
  }

  sums({ key, ...of }: OfClient & Pick<UsageQuery, 'key'>): UsageSum[] {
    return this.statements.sums[key ?? 'none'].all(of).map(asSum);
  }
}

type Sum = Pick<UsageSum, 'key' | 'provider' | 'model' | 'input_tokens'> & {
  requests: number;
  estimated: number;
};

function asSum({ requests, estimated, ...sum }: Sum): UsageSum {
  return {
    ...sum,
    ...{ cloud: true, runs: 0, embeddings: requests, output_tokens: 0 },
    ...{ estimated: 0, estimated_embeddings: estimated },
  };
}

function prepare(db: Database.Database) {
  const sums = (key: string) =>
    db.prepare<[OfClient], Sum>(
      `select ${key} as key, provider, model, sum(requests) as requests,
         sum(input_tokens) as input_tokens, sum(estimated) as estimated
       from embedding_usage where ${OF_CLIENT} group by 1, 2, 3 order by 1, 2, 3`,
    );
  return {
    add: db.prepare<[EmbeddingUsage]>(
      `update embedding_usage set requests = requests + @requests,
         input_tokens = input_tokens + @input_tokens, estimated = estimated + @estimated
       where hour = @hour and provider = @provider and model = @model and client = @client`,
    ),
    insert: db.prepare<[EmbeddingUsage]>(
      `insert into embedding_usage
         values (@hour, @provider, @model, @client, @requests, @input_tokens, @estimated)
       on conflict do update set requests = requests + excluded.requests,
         input_tokens = input_tokens + excluded.input_tokens,
         estimated = estimated + excluded.estimated`,
    ),
    rows: db
      .prepare<[number], number>('select count(*) from embedding_usage where hour = ?')
      .pluck(),
    first: db.prepare<[], number | null>('select min(hour) from embedding_usage').pluck(),
    sums: { none: sums('null'), day: sums('hour / 24'), client: sums('client') },
  };
}

/** The same sums, of usages in memory. */
export function sumEmbeddings(
  all: readonly EmbeddingUsage[],
  { from_hour, key, client: of }: OfClient & Pick<UsageQuery, 'key'>,
): UsageSum[] {
  const sums = new Map<string, Sum>();
  for (const { hour, provider, model, client, requests, input_tokens, estimated } of all) {
    if (hour < from_hour || client !== (of ?? client)) continue;
    const value = key === 'day' ? Math.floor(hour / 24) : key === 'client' ? client : null;
    const name = JSON.stringify([value, provider, model]);
    const before = sums.get(name) ?? { requests: 0, input_tokens: 0, estimated: 0 };
    sums.set(name, {
      ...{ key: value, provider, model },
      requests: before.requests + requests,
      input_tokens: before.input_tokens + input_tokens,
      estimated: before.estimated + estimated,
    });
  }
  return [...sums.values()].sort(byKey).map(asSum);
}

function byKey(a: Sum, b: Sum): number {
  const [one, other] = [a, b].map(({ key, provider, model }) => `${key} ${provider} ${model}`);
  return Number(a.key ?? 0) - Number(b.key ?? 0) || (one ?? '').localeCompare(other ?? '');
}
