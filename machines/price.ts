import type { Price } from '../src/contract/events.ts';

/** Token counts that determine a cost. Cached tokens are part of the input. */
export const COUNTED = [
  'input_tokens',
  'output_tokens',
  'cached_tokens',
  'cache_write_tokens',
] as const;
export type Tokens = Readonly<Record<(typeof COUNTED)[number], number>>;

/** What tokens cost, in billionths of the currency: a whole number, so that any sum is exact. */
export function costOf(price: Price, tokens: Partial<Tokens>): number {
  const { input, output, cached_input = input, cache_write = input } = price;
  const { input_tokens = 0, output_tokens = 0 } = tokens;
  const { cached_tokens = 0, cache_write_tokens = 0 } = tokens;
  const others = Math.max(0, input_tokens - cached_tokens - cache_write_tokens);
  const amounts = [
    [others, input],
    [cached_tokens, cached_input],
    [cache_write_tokens, cache_write],
    [output_tokens, output],
  ] as const;
  return Math.round(amounts.reduce((cost, [count, rate]) => cost + count * rate, 0) * 1000);
}
