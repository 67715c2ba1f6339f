import type { LlamaModel, Token } from 'node-llama-cpp';
import type { Decoder, Sequence } from './decoder.ts';
import { type NativeContext, type NativeSampler, newSampler } from './native.ts';

/** How likely a token is by the model alone: before penalties, forms and sampling. */
export interface Score {
  /** Null: no token was asked for. */
  logprob: number | null;
  /** The likeliest tokens, the likeliest one first. */
  top: readonly { token: Token; logprob: number }[];
}

/** Reads what the model says of the next token. It changes nothing. */
export class Scorer {
  private readonly native: NativeSampler;

  constructor(model: LlamaModel) {
    this.native = newSampler(model);
    // The likeliest token: so nothing is left out, and nothing is drawn.
    this.native.applyConfig({ temperature: 0, seed: 0, topK: 0, topP: 1, minP: 0 });
  }

  /** Of the token that follows the one with this index in the batch. `most`: of the likeliest. */
  async at(
    context: NativeContext,
    index: number,
    token: Token | null,
    most: number,
  ): Promise<Score> {
    const wanted = token === null ? [] : [token];
    const count = Math.max(1, most);
    const [, , , logits = [], weight = 1] = await context.sampleToken(
      index,
      this.native,
      false,
      false,
      [wanted, false, false, false, count],
      true,
    );
    const [, highest = 0] = logits;
    const scores = Array.from({ length: logits.length / 2 }, (_, at) => ({
      token: logits[2 * at] as Token,
      logprob: Math.max(LEAST, (logits[2 * at + 1] as number) - highest - Math.log(weight)),
    }));
    const own = token === null ? undefined : scores.findLast((score) => score.token === token);
    return {
      logprob: token === null ? null : (own?.logprob ?? LEAST),
      top: scores.slice(0, Math.min(most, scores.length - wanted.length)),
    };
  }

  dispose(): void {
    this.native.dispose();
  }
}

/** The logarithm of a probability that is too small to count. */
const LEAST = -9999;

/**
 * Computes tokens behind those of an empty sequence, and how likely each next one is: the first
 * score is of the second token, and the last one of the token after them. Other runs are computed
 * between two parts. Throws the reason of the signal.
 */
export async function scoreTokens(
  { model, decoder }: { model: LlamaModel; decoder: Decoder },
  sequence: Sequence,
  tokens: readonly Token[],
  { top, signal }: { top: number; signal: AbortSignal },
): Promise<Score[]> {
  const scorer = new Scorer(model);
  const scores: Score[] = [];
  try {
    for (let at = 0; at < tokens.length; at += PART) {
      signal.throwIfAborted();
      const part = Uint32Array.from(tokens.slice(at, at + PART));
      await decoder.change(async (native) => {
        native.setThreads(decoder.wideThreads());
        native.initBatch(part.length);
        const indexes = native.addToBatch(sequence.place, at, part, Uint32Array.from(part.keys()));
        await native.decodeBatch();
        for (const [offset, index] of indexes.entries())
          scores.push(await scorer.at(native, index, tokens[at + offset + 1] ?? null, top));
      });
      sequence.tokens.push(...tokens.slice(at, at + PART));
    }
    return scores;
  } finally {
    scorer.dispose();
  }
}

/** Each token of a part needs memory for the whole vocabulary. */
const PART = 32;
