import type { UsageQuery, UsageSum, UsageSums } from '../usage-sums.ts';
import { fromColumn, toColumn } from './columns.ts';
import type { Read } from './event-reads.ts';

const OF_CLIENT = 'hour >= $1 and client = coalesce($2::text, client)';
const KEYS = { none: 'null::text', day: 'hour / 24', client: 'client' } as const;

/** Reads what runs and embeddings used. A commit counts it. */
export async function readUsage(
  read: Read,
  { from_hour, key, client }: UsageQuery,
): Promise<UsageSums> {
  const of = [from_hour, client === undefined ? null : toColumn(client)];
  const by = KEYS[key ?? 'none'];
  const [first] = await read<{ since_hour: number | null }>(
    `select least((select min(hour) from svc_usage), (select min(hour) from svc_embedding_usage))
       as since_hour`,
  );
  const ofRuns = await read<UsageSum & Record<string, unknown>>(
    `select ${by} as key, provider, model, cloud, sum(runs) as runs, 0 as embeddings,
       sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
       sum(estimated) as estimated, 0 as estimated_embeddings
     from svc_usage where ${OF_CLIENT} group by ${by}, provider, model, cloud
     order by ${by}, provider collate "C", model collate "C", cloud`,
    of,
  );
  const ofEmbeddings = await read<UsageSum & Record<string, unknown>>(
    `select ${by} as key, provider, model, true as cloud, 0 as runs, sum(requests) as embeddings,
       sum(input_tokens) as input_tokens, 0 as output_tokens, 0 as estimated,
       sum(estimated) as estimated_embeddings
     from svc_embedding_usage where ${OF_CLIENT} group by ${by}, provider, model
     order by ${by}, provider collate "C", model collate "C"`,
    of,
  );
  const sums = [...ofRuns, ...ofEmbeddings].map((sum) => ({
    ...sum,
    key: typeof sum.key === 'string' ? fromColumn(sum.key) : sum.key,
    provider: fromColumn(sum.provider),
    model: fromColumn(sum.model),
  }));
  return { since_hour: first?.since_hour ?? null, sums };
}
