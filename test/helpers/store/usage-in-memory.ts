import {
  type EmbeddingSum,
  type EmbeddingUsage,
  embeddingSum,
} from '../../../src/kernel/store/embedding-usage.ts';
import type { RunUsage } from '../../../src/kernel/store/usage.ts';
import {
  HOUR_MAX,
  type Priced,
  pricedTokens,
  type UsageQuery,
  type UsageSum,
  type UsageSums,
} from '../../../src/kernel/store/usage-sums.ts';

/** The sums of a query, of usages in memory. Both databases are compared with them. */
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
      embeddings: 0,
      estimated_embeddings: 0,
      runs: 0,
      input_tokens: 0,
      output_tokens: 0,
      estimated: 0,
      cached_tokens: 0,
      cache_write_tokens: 0,
      ...pricedTokens(usage, null),
    };
    sum.runs += 1;
    sum.input_tokens += usage.input_tokens;
    sum.output_tokens += usage.output_tokens;
    sum.cached_tokens += usage.cached_tokens;
    sum.cache_write_tokens += usage.cache_write_tokens;
    sum.estimated += usage.estimated ? 1 : 0;
    const priced = Object.entries(pricedTokens(usage, usage.cost));
    const added = priced.map(([of, count]) => [of, count + sum[of as keyof Priced]]);
    sums.set(name, { ...sum, ...Object.fromEntries(added) });
  }
  const sorted = [...sums.values()].sort(
    (a, b) =>
      Number(a.key ?? 0) - Number(b.key ?? 0) ||
      `${a.key} ${a.provider} ${a.model}`.localeCompare(`${b.key} ${b.provider} ${b.model}`),
  );
  const hours = [...all, ...embeddings].map(({ hour }) => hour);
  return {
    since_hour: hours.length === 0 ? null : Math.min(...hours),
    sums: [...sorted, ...sumEmbeddings(embeddings, query)],
  };
}

function sumEmbeddings(all: readonly EmbeddingUsage[], query: UsageQuery): UsageSum[] {
  const { key } = query;
  const sums = new Map<string, EmbeddingSum>();
  for (const usage of all) {
    if (!isInQuery(usage, query)) continue;
    const { hour, provider, model, client, requests, input_tokens, estimated } = usage;
    const value = key === 'day' ? Math.floor(hour / 24) : key === 'client' ? client : null;
    const name = JSON.stringify([value, provider, model]);
    const before = sums.get(name) ?? NOTHING;
    sums.set(name, {
      key: value,
      provider,
      model,
      requests: before.requests + requests,
      input_tokens: before.input_tokens + input_tokens,
      estimated: before.estimated + estimated,
      cost: before.cost + usage.cost,
      priced_input_tokens: before.priced_input_tokens + usage.priced_input_tokens,
    });
  }
  return [...sums.values()].sort(byKey).map(embeddingSum);
}

const NOTHING = { requests: 0, input_tokens: 0, estimated: 0, cost: 0, priced_input_tokens: 0 };

function byKey(a: EmbeddingSum, b: EmbeddingSum): number {
  const [one, other] = [a, b].map(({ key, provider, model }) => `${key} ${provider} ${model}`);
  return Number(a.key ?? 0) - Number(b.key ?? 0) || (one ?? '').localeCompare(other ?? '');
}

/** True for a usage that a query is about. */
function isInQuery(
  { hour, client }: { hour: number; client: string },
  { from_hour, before_hour = HOUR_MAX, client: only }: UsageQuery,
): boolean {
  return hour >= from_hour && hour < before_hour && client === (only ?? client);
}
