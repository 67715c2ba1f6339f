import type Database from 'better-sqlite3';
import type { EmbeddingCounted, EmbeddingSent } from '../../machines/provider/context.ts';
import type { StoredEvent } from './port.ts';
import { SumsTable } from './sqlite/sums-table.ts';
import { HOUR_MS, isInQuery, type Shape, type UsageQuery, type UsageSum } from './usage-sums.ts';

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
    return { ...placeOf(sent, at), requests: 1, input_tokens: sent.estimated_tokens, estimated: 1 };
  }
  if (type !== 'provider.embedding_counted') return null;
  const counted = data as unknown as EmbeddingCounted;
  return {
    ...placeOf(counted, counted.sent_at),
    requests: 0,
    input_tokens: counted.input_tokens - counted.estimated_tokens,
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

export const EMBEDDINGS: Shape = {
  table: 'embedding_usage',
  key: ['provider', 'model', 'client'],
  sums: ['requests', 'input_tokens', 'estimated'],
};

/** Creates the table unless it is there. Throws if it is damaged. */
export function addEmbeddingTable(db: Database.Database): void {
  db.exec(TABLE);
  new EmbeddingTable(db);
}

/** Counts requests and reads the sums. */
export class EmbeddingTable {
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

export type EmbeddingSum = Pick<UsageSum, 'key' | 'provider' | 'model' | 'input_tokens'> & {
  requests: number;
  estimated: number;
};

export function embeddingSum({ requests, estimated, ...sum }: EmbeddingSum): UsageSum {
  return {
    ...sum,
    cloud: true,
    runs: 0,
    embeddings: requests,
    output_tokens: 0,
    cached_tokens: 0,
    cache_write_tokens: 0,
    estimated: 0,
    estimated_embeddings: estimated,
  };
}

/** The same sums, of usages in memory. */
export function sumEmbeddings(all: readonly EmbeddingUsage[], query: UsageQuery): UsageSum[] {
  const { key } = query;
  const sums = new Map<string, EmbeddingSum>();
  for (const usage of all) {
    if (!isInQuery(usage, query)) continue;
    const { hour, provider, model, client, requests, input_tokens, estimated } = usage;
    const value = key === 'day' ? Math.floor(hour / 24) : key === 'client' ? client : null;
    const name = JSON.stringify([value, provider, model]);
    const before = sums.get(name) ?? { requests: 0, input_tokens: 0, estimated: 0 };
    sums.set(name, {
      key: value,
      provider,
      model,
      requests: before.requests + requests,
      input_tokens: before.input_tokens + input_tokens,
      estimated: before.estimated + estimated,
    });
  }
  return [...sums.values()].sort(byKey).map(embeddingSum);
}

function byKey(a: EmbeddingSum, b: EmbeddingSum): number {
  const [one, other] = [a, b].map(({ key, provider, model }) => `${key} ${provider} ${model}`);
  return Number(a.key ?? 0) - Number(b.key ?? 0) || (one ?? '').localeCompare(other ?? '');
}
