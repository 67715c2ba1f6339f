import type { Token } from '../native/model.ts';
import type { Decoder, Sequence } from './decoder.ts';

/** How likely a token is by the model alone: before penalties, forms and sampling. */
export interface Score {
  /** Null: no token was requested. */
  logprob: number | null;
  /** The likeliest tokens, the likeliest one first. */
  top: readonly { token: Token; logprob: number }[];
}

/** `logits`: the odds of all tokens. `most`: of the likeliest ones. */
export function scoreOf(logits: Float32Array, token: Token | null, most: number): Score {
  let highest = Number.NEGATIVE_INFINITY;
  for (const odds of logits) if (odds > highest) highest = odds;
  let sum = 0;
  for (const odds of logits) sum += Math.exp(odds - highest);
  const all = highest + Math.log(sum);
  const scoreAt = (each: Token) => Math.max(LEAST, (logits[each] as number) - all);
  return {
    logprob: token === null ? null : scoreAt(token),
    top: likeliestTokens(logits, most).map((each) => ({ token: each, logprob: scoreAt(each) })),
  };
}

/** The logarithm of a probability that is too small to count. */
const LEAST = -9999;

/** The tokens with the highest odds, the highest first. */
function likeliestTokens(logits: Float32Array, most: number): Token[] {
  const found: Token[] = [];
  const oddsOf = (token: Token | undefined) =>
    token === undefined ? Number.NEGATIVE_INFINITY : (logits[token] as number);
  for (let token = 0; most > 0 && token < logits.length; token += 1) {
    if (found.length === most && oddsOf(token) <= oddsOf(found.at(-1))) continue;
    const at = found.findIndex((other) => oddsOf(other) < oddsOf(token));
    found.splice(at === -1 ? found.length : at, 0, token);
    if (found.length > most) found.pop();
  }
  return found;
}

/**
 * Computes tokens behind those of an empty sequence, and how likely each next one is: the first
 * score is of the second token, and the last one of the token after them. Other runs are computed
 * between two parts. Throws the reason of the signal.
 */
export async function scoreTokens(
  { decoder }: { decoder: Decoder },
  sequence: Sequence,
  tokens: readonly Token[],
  { top, signal }: { top: number; signal: AbortSignal },
): Promise<Score[]> {
  const scores: Score[] = [];
  for (let at = 0; at < tokens.length; at += PART) {
    signal.throwIfAborted();
    const part = tokens.slice(at, at + PART);
    await decoder.change((context) => {
      context.setThreads(decoder.wide(part.length));
      context.initBatch();
      const indexes = context.addToBatch(sequence.place, at, part, [...part.keys()]);
      context.decodeBatch();
      for (const [offset, index] of indexes.entries()) {
        const next = tokens[at + offset + 1] ?? null;
        scores.push(scoreOf(context.logits(index), next, top));
      }
    });
    sequence.tokens.push(...part);
  }
  return scores;
}

/** Each token of a part needs memory for the whole vocabulary. */
const PART = 32;
