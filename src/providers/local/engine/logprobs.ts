import type { LlamaModel, Token } from 'node-llama-cpp';
import type { TokenLogprob } from '../../../../machines/messages.ts';

/** The logarithm of a probability that is too small to count. */
const LEAST = -9999;

/**
 * The probability of a token, and of the likeliest ones. They are those of the draw: after
 * penalties, grammar, top_p and temperature.
 */
export function tokenLogprob(
  model: LlamaModel,
  token: Token,
  probabilities: ReadonlyMap<Token, number>,
  most: number,
): TokenLogprob {
  const entry = (each: Token, probability: number) => ({
    token: model.detokenize([each], true),
    logprob: Math.max(LEAST, Math.log(probability)),
  });
  const top: TokenLogprob['top'][number][] = [];
  for (const [each, probability] of probabilities) {
    if (top.length >= most || probability === 0) break;
    top.push(entry(each, probability));
  }
  return { ...entry(token, probabilities.get(token) ?? 0), top };
}
