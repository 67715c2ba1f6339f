import type { LlamaContextSequence, Token } from 'node-llama-cpp';
import { SvcError } from '../../../errors.ts';
import type { ContextPause } from './context-pause.ts';
import { seedAt } from './seed.ts';

export interface Step {
  token: Token;
  /** Probability of the token; null where it was not asked for. */
  probability: number | null;
}

export interface Continuation {
  prompt: readonly Token[];
  /** Tokens of the answer that are there already. */
  answered: readonly Token[];
}

export interface Sampling {
  temperature: number;
  seed: number;
  /** How many of the first tokens come with their probability. */
  judged: number;
  /** Tokens of the prompt that are computed in one go. */
  batch: number;
  pause: ContextPause;
}

/**
 * Endless tokens after a prompt and what was answered already, the one that ends the answer included; ends only when the signal aborts. A drawn token is
 * one call with a seed of its own, so that an answer taken up again at any position goes on the same.
 */
export async function* steps(
  sequence: LlamaContextSequence,
  { prompt, answered }: Continuation,
  sampling: Sampling,
  signal: AbortSignal,
): AsyncGenerator<Step> {
  let next = await prefill(sequence, prompt, sampling, signal);
  if (answered.length > 0) next = await replay(sequence, [...next], answered, sampling, signal);
  for (let position = answered.length; !signal.aborted; ) {
    await sampling.pause.wait;
    const [judging, first] = [position < sampling.judged, position];
    const options = {
      temperature: sampling.temperature,
      seed: seedAt(sampling.seed, position),
      yieldEogToken: true,
    };
    for await (const { token, ...rest } of sequence.evaluateWithMetadata(
      next,
      { confidence: judging },
      options,
    )) {
      next = [token];
      position += 1;
      yield { token, probability: probabilityIn(rest) };
      if (sampling.pause.wait !== null) await sampling.pause.wait;
      if (signal.aborted || sampling.temperature > 0 || position === sampling.judged) break;
    }
    if (position === first) throw new SvcError('engine_failed');
  }
}

/**
 * Computes tokens that were answered before, each by itself as it was the first time: computed together, their rounding would
 * differ, which can tip a draw. Returns the last one, which is computed with the draw that follows it.
 */
async function replay(
  sequence: LlamaContextSequence,
  rest: Token[],
  answered: readonly Token[],
  { pause }: Sampling,
  signal: AbortSignal,
): Promise<Token[]> {
  let next = rest;
  for (const token of answered) {
    if (signal.aborted) break;
    await pause.wait;
    await sequence.evaluateWithoutGeneratingNewTokens(next);
    next = [token];
  }
  return next;
}

/** Computes a long prompt in batches, so that an abort need not wait for all of it. Returns the tokens of the last one. */
async function prefill(
  sequence: LlamaContextSequence,
  prompt: readonly Token[],
  { batch, pause }: Sampling,
  signal: AbortSignal,
): Promise<Token[]> {
  let at = 0;
  for (; prompt.length - at > batch && !signal.aborted; at += batch) {
    await pause.wait;
    await sequence.evaluateWithoutGeneratingNewTokens(prompt.slice(at, at + batch));
  }
  return prompt.slice(at);
}

function probabilityIn(metadata: { confidence?: number }): number | null {
  return metadata.confidence ?? null;
}
