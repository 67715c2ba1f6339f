import type Database from 'better-sqlite3';
import { costOf } from '../../../machines/price.ts';
import type { EmbeddingCounted } from '../../../machines/provider/context.ts';
import type { EmbeddingSent } from '../../contract/embed-input.ts';
import type { StoredEvent } from './port.ts';
import { addColumns, SumsTable } from './sqlite/sums-table.ts';
import { HOUR_MS, type Priced, type Shape, type UsageQuery, type UsageSum } from './usage-sums.ts';

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
export function addEmbeddingTable(db: Database.Database): void {
  db.exec(TABLE);
  addColumns(db, 'embedding_usage', PRICED_INPUT);
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
