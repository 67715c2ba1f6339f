import type { Config } from '../../config/config.ts';
import { OTHER_MODELS } from '../../store/usage-sums.ts';

type Price = Config['prices'][string];
type Tokens = Record<'input_tokens' | 'output_tokens', number> &
  Partial<Record<'cached_tokens' | 'cache_write_tokens', number>>;

/** The cost of tokens at a target; null without a price. */
export function costOf(
  target: { provider: string; model: string },
  { input_tokens, output_tokens, cached_tokens = 0, cache_write_tokens = 0 }: Tokens,
  prices: Config['prices'],
): number | null {
  const price = priceOf(target, prices);
  if (price === null) return null;
  const { input, output, cached_input = input, cache_write = input } = price;
  const others = Math.max(0, input_tokens - cached_tokens - cache_write_tokens);
  const amounts = [
    [others, input],
    [cached_tokens, cached_input],
    [cache_write_tokens, cache_write],
    [output_tokens, output],
  ] as const;
  return amounts.reduce((cost, [tokens, rate]) => cost + tokens * rate, 0) / 1e6;
}

/** Models that are counted together have the dearest price of their provider. */
function priceOf(
  { provider, model }: { provider: string; model: string },
  prices: Config['prices'],
): Price | null {
  const found = (name: string) => (Object.hasOwn(prices, name) ? (prices[name] ?? null) : null);
  if (model !== OTHER_MODELS) return found(`${provider}/${model}`) ?? found(`${provider}/*`);
  const all = Object.keys(prices).filter((name) => name.startsWith(`${provider}/`));
  const dearest = (rate: (price: Price) => number) =>
    Math.max(...all.map((name) => rate(prices[name] as Price)));
  if (all.length === 0) return null;
  return {
    input: dearest(({ input }) => input),
    output: dearest(({ output }) => output),
    cached_input: dearest(({ input, cached_input = input }) => cached_input),
    cache_write: dearest(({ input, cache_write = input }) => cache_write),
  };
}
