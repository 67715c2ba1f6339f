import { isoTime } from '../async/clock.ts';
import type { Config } from '../config/config.ts';
import { withoutNull } from '../contract/check.ts';
import type { UsageInput, UsageRecord } from '../contract/usage.ts';
import type { EventStore } from '../kernel/store/port.ts';
import { firstHour, HOUR_MS, type UsageSum } from '../kernel/store/usage-sums.ts';
import type { Budget } from '../runtime/spending/budget.ts';
import { costOfSum, type SumCost, toCurrency } from '../runtime/spending/price.ts';

/**
 * The usage since a time. It begins with a whole hour or day, because usage is counted in hours and
 * days. Runs without tokens are in the total, and give no model and no client a group.
 */
export async function usageReport(
  { store, config, budget }: { store: Pick<EventStore, 'usage'>; config: Config; budget: Budget },
  { since, by = 'model' }: UsageInput,
  asked_by?: string,
): Promise<UsageRecord> {
  const today = Math.floor(budget.resetsAt() / HOUR_MS) - 24;
  const from_hour = since == null ? 0 : firstHour(Math.floor(Date.parse(since) / HOUR_MS), today);
  const key = by === 'day' || by === 'client' ? by : null;
  const { since_hour, sums } = await store.usage(withoutNull({ from_hour, key, client: asked_by }));
  const groups = new Map<string, Group>();
  const total = newGroup('total');
  for (const sum of sums) {
    const name = nameOf(sum, by ?? 'model');
    const group = groups.get(name) ?? newGroup(name);
    groups.set(name, group);
    const cost = costOfSum(sum, config.prices);
    for (const one of [group, total]) add(one, sum, cost);
  }
  const { budget_per_day, budget_tokens_per_day, currency } = config;
  const spent = await budget.readSpent();
  return {
    by: by ?? 'model',
    since: since_hour === null ? null : isoTime(Math.max(since_hour, from_hour) * HOUR_MS),
    covers_since: since_hour === null ? null : isoTime(since_hour * HOUR_MS),
    currency,
    groups: [...groups.values()].filter((group) => isUsed(group) || isFixed(by)).map(toReport),
    total: toReport(total),
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
  cached_tokens: number;
  cache_write_tokens: number;
  estimated_runs: number;
  estimated_embeddings: number;
  /** In billionths of the currency. */
  kept: number;
  present: number;
  without_price: Set<string>;
}

function newGroup(name: string): Group {
  return {
    name,
    runs: 0,
    embeddings: 0,
    input_tokens: 0,
    output_tokens: 0,
    cached_tokens: 0,
    cache_write_tokens: 0,
    estimated_runs: 0,
    estimated_embeddings: 0,
    kept: 0,
    present: 0,
    without_price: new Set(),
  };
}

function add(group: Group, sum: UsageSum, { kept, present }: SumCost): void {
  group.runs += sum.runs;
  group.embeddings += sum.embeddings;
  group.input_tokens += sum.input_tokens;
  group.output_tokens += sum.output_tokens;
  group.cached_tokens += sum.cached_tokens;
  group.cache_write_tokens += sum.cache_write_tokens;
  group.estimated_runs += sum.estimated;
  group.estimated_embeddings += sum.estimated_embeddings;
  group.kept += kept;
  group.present += present ?? 0;
  if (present === null && sum.cloud) group.without_price.add(`${sum.provider}/${sum.model}`);
}

function toReport({ kept, present, without_price, ...group }: Group) {
  return {
    ...group,
    cost: toCurrency(kept + present),
    cost_at_present_prices: toCurrency(present),
    without_price: [...without_price],
  };
}

function isUsed(sum: Pick<UsageSum, 'input_tokens' | 'output_tokens' | 'embeddings'>): boolean {
  return sum.input_tokens + sum.output_tokens + sum.embeddings > 0;
}

/** Its groups are not named by clients. */
function isFixed(by: UsageInput['by']): boolean {
  return by === 'day' || by === 'provider';
}

function nameOf({ key, provider, model }: UsageSum, by: string): string {
  if (by === 'day') return isoTime(Number(key) * 24 * HOUR_MS).slice(0, 10);
  if (by === 'client') return String(key);
  return by === 'provider' ? provider : `${provider}/${model}`;
}
