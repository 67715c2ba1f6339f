import { COUNTED, costOf } from '../../../machines/price.ts';
import type { Config } from '../../config/config.ts';
import { OTHER_MODELS, type UsageSum } from '../../kernel/store/usage-sums.ts';

type Prices = Config['prices'];
type Price = Prices[string];
type Name = Readonly<Record<'provider' | 'model', string>>;

/** From billionths of the currency. */
export function toCurrency(cost: number): number {
  return cost / 1e9;
}

/** The cost of the usage, in billionths of the currency. */
export interface SumCost {
  /** Of the runs that had a price when they were accepted. */
  kept: number;
  /** Of the rest, by the present prices. Null: its model has no price. */
  present: number | null;
}

/**
 * The cost of a sum. It keeps the prices of its time. Runs without a price then get the present
 * one.
 */
export function costOfSum(sum: UsageSum, prices: Prices): SumCost {
  const rest = Object.fromEntries(COUNTED.map((name) => [name, sum[name] - sum[`priced_${name}`]]));
  // An order for images has no tokens, so nothing says whether it had a price.
  const isKnown = sum.input_tokens + sum.output_tokens > 0 || sum.embeddings === 0;
  const isPriced = isKnown && COUNTED.every((name) => rest[name] === 0);
  const price = priceOf(sum, prices);
  return { kept: sum.cost, present: isPriced ? 0 : price && costOf(price, rest) };
}

/**
 * The present price of a model, or null. Models that are counted together have the highest price of
 * their provider.
 */
export function priceOf({ provider, model }: Name, prices: Prices): Price | null {
  const findPrice = (name: string) => (Object.hasOwn(prices, name) ? (prices[name] ?? null) : null);
  if (model !== OTHER_MODELS)
    return findPrice(`${provider}/${model}`) ?? findPrice(`${provider}/*`);
  const all = Object.keys(prices).filter((name) => name.startsWith(`${provider}/`));
  const highestRate = (rate: (price: Price) => number) =>
    Math.max(...all.map((name) => rate(prices[name] as Price)));
  if (all.length === 0) return null;
  return {
    input: highestRate(({ input }) => input),
    output: highestRate(({ output }) => output),
    cached_input: highestRate(({ input, cached_input = input }) => cached_input),
    cache_write: highestRate(({ input, cache_write = input }) => cache_write),
  };
}

/** As a field of an event. */
export function withPrice(target: Name, prices: Prices): { price?: Price } {
  const price = priceOf(target, prices);
  return price === null ? {} : { price };
}
