import type { Config } from '../../config/config.ts';

/** The cost of tokens at a target; null without a price. */
export function costOf(
  { provider, model }: { provider: string; model: string },
  tokens: { input_tokens: number; output_tokens: number },
  prices: Config['prices'],
): number | null {
  const price = [`${provider}/${model}`, `${provider}/*`]
    .filter((name) => Object.hasOwn(prices, name))
    .map((name) => prices[name])[0];
  if (price === undefined) return null;
  return (tokens.input_tokens * price.input + tokens.output_tokens * price.output) / 1e6;
}
