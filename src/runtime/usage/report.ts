import type { Config } from '../../config/config.ts';
import { isoTime } from '../../kernel/clock.ts';
import type { EventStore } from '../../store/port.ts';
import { HOUR_MS, type UsageSum } from '../../store/usage-sums.ts';
import { given } from '../contract/check.ts';
import type { UsageInput, UsageRecord } from '../contract/usage.ts';
import type { Budget } from './budget.ts';
import { costOf } from './price.ts';

/** What was used since a time. It begins with a whole hour, because hours are what is counted. */
export async function usageReport(
  { store, config, budget }: { store: Pick<EventStore, 'usage'>; config: Config; budget: Budget },
  { since, by = 'model' }: UsageInput,
  asked_by?: string,
): Promise<UsageRecord> {
  const from_hour = since == null ? 0 : Math.floor(Date.parse(since) / HOUR_MS);
  const key = by === 'day' || by === 'client' ? by : null;
  const { since_hour, sums } = await store.usage(given({ from_hour, key, client: asked_by }));
  const groups = new Map<string, Group>();
  const total = newGroup('total');
  for (const sum of sums) {
    const name = nameOf(sum, by ?? 'model');
    const group = groups.get(name) ?? newGroup(name);
    groups.set(name, group);
    const cost = sum.cloud || hasTokens(sum) ? costOf(sum, sum, config.prices) : 0;
    for (const one of [group, total]) add(one, sum, sum.cloud ? cost : (cost ?? 0));
  }
  const { budget_per_day, budget_tokens_per_day, currency } = config;
  const spent = await budget.spent();
  return {
    by: by ?? 'model',
    since: since_hour === null ? null : isoTime(Math.max(since_hour, from_hour) * HOUR_MS),
    covers_since: since_hour === null ? null : isoTime(since_hour * HOUR_MS),
    currency,
    groups: [...groups.values()].map(finished),
    total: finished(total),
    budget: {
      per_day: budget_per_day,
      tokens_per_day: budget_tokens_per_day,
      spent: spent.cost,
      spent_tokens: spent.tokens,
      resets_at: isoTime(budget.resetsAt()),
    },
  };
}

interface Group {
  name: string;
  runs: number;
  embeddings: number;
  input_tokens: number;
  output_tokens: number;
  estimated_runs: number;
  estimated_embeddings: number;
  cost: number;
  without_price: Set<string>;
}

function newGroup(name: string): Group {
  return {
    ...{ name, runs: 0, embeddings: 0, input_tokens: 0, output_tokens: 0 },
    ...{ estimated_runs: 0, estimated_embeddings: 0, cost: 0 },
    without_price: new Set(),
  };
}

function add(group: Group, sum: UsageSum, cost: number | null): void {
  group.runs += sum.runs;
  group.embeddings += sum.embeddings;
  group.input_tokens += sum.input_tokens;
  group.output_tokens += sum.output_tokens;
  group.estimated_runs += sum.estimated;
  group.estimated_embeddings += sum.estimated_embeddings;
  group.cost += cost ?? 0;
  if (cost === null) group.without_price.add(`${sum.provider}/${sum.model}`);
}

function finished({ without_price, ...group }: Group) {
  return { ...group, without_price: [...without_price] };
}

function hasTokens({ input_tokens, output_tokens }: UsageSum): boolean {
  return input_tokens + output_tokens > 0;
}

function nameOf({ key, provider, model }: UsageSum, by: string): string {
  if (by === 'day') return isoTime(Number(key) * 24 * HOUR_MS).slice(0, 10);
  if (by === 'client') return String(key);
  return by === 'provider' ? provider : `${provider}/${model}`;
}
