import type { LlamaGrammarEvaluationState, SequenceEvaluateOptions, Token } from 'node-llama-cpp';
import { SvcError } from '../../../errors.ts';
import type { Member } from './batches.ts';
import type { ContextPause } from './context-pause.ts';
import { batchesAfter, firstParts, type Parts } from './prompt-parts.ts';
import { seedAt } from './seed.ts';
import type { Slot } from './sequences.ts';

export interface Step {
  token: Token;
  /** Probability of the token. Null: not requested. */
  probability: number | null;
  /** Probabilities of all tokens it was drawn from, most likely first. Null: not requested. */
  probabilities: ReadonlyMap<Token, number> | null;
}

export interface Continuation {
  prompt: readonly Token[];
  /** How the prompt is computed. */
  parts: Parts;
  /** Tokens of the prompt that the sequence has. */
  kept: number;
  /** Tokens of the answer so far. */
  answered: readonly Token[];
}

export interface Sampling {
  temperature: number;
  seed: number;
  /** Absent: the default of the library. */
  top_p?: number;
  top_k?: number;
  min_p?: number;
  /** Make a token that the answer has less likely. They count all tokens of the answer. */
  penalties?: { presence: number; frequency: number; repeat: number };
  /** The grammar that the next token must follow. */
  grammar?: () => LlamaGrammarEvaluationState | undefined;
  /** Number of first tokens with their probability. */
  judged: number;
  /** Each token with all probabilities. */
  explained: boolean;
  /** Tokens of the prompt in one batch. */
  batch: number;
  /** Identifies the run's tokens. */
  priority: Member['priority'];
  pause: ContextPause;
}

/**
 * Generates tokens after a prompt and an earlier answer, end tokens included, until the signal
 * aborts. Each sampled token has its own seed, so a resumed answer continues identically.
 */
export async function* steps(
  slot: Slot,
  { prompt, parts, kept, answered }: Continuation,
  sampling: Sampling,
  signal: AbortSignal,
): AsyncGenerator<Step> {
  const { sequence } = slot;
  let next = await prefill(slot, { prompt, parts, kept }, sampling, signal);
  if (answered.length > 0) next = await replay(slot, { next, parts, answered }, sampling, signal);
  const said = [...answered];
  const shared = sharedOptions(sampling, said);
  for (let position = answered.length; !signal.aborted; ) {
    await sampling.pause.wait;
    const [judging, first] = [position < sampling.judged, position];
    const options = { ...shared, seed: seedAt(sampling.seed, position) };
    for await (const { token, ...rest } of sequence.evaluateWithMetadata(
      next,
      { confidence: judging, probabilities: sampling.explained },
      options,
    )) {
      next = [token];
      if (position === answered.length) slot.parts = parts;
      position += 1;
      if (sampling.penalties !== undefined) said.push(token);
      yield { token, ...probabilitiesIn(rest) };
      if (sampling.pause.wait !== null) await sampling.pause.wait;
      if (signal.aborted || sampling.temperature > 0 || position === sampling.judged) break;
    }
    if (position === first) throw new SvcError('engine_failed');
  }
}

/**
 * Computes earlier tokens one by one, as the first time: a batch changes the rounding, which can
 * change a sampled token. Returns the last token, which the next step computes.
 */
async function replay(
  slot: Slot,
  { next: rest, parts, answered }: Pick<Continuation, 'parts' | 'answered'> & { next: Token[] },
  { pause, priority: evaluationPriority }: Sampling,
  signal: AbortSignal,
): Promise<Token[]> {
  let next = rest;
  for (const token of answered) {
    if (signal.aborted) break;
    await pause.wait;
    await slot.sequence.evaluateWithoutGeneratingNewTokens(next, { evaluationPriority });
    slot.parts = parts;
    next = [token];
  }
  return next;
}

/**
 * Computes the prompt but for its last batch, with a check of the signal between two. Returns the
 * tokens of the last one.
 */
async function prefill(
  slot: Slot,
  { prompt, parts, kept }: Omit<Continuation, 'answered'>,
  { batch, pause, priority: evaluationPriority }: Sampling,
  signal: AbortSignal,
): Promise<Token[]> {
  let at = kept;
  for (const size of batchesAfter(parts, kept, batch)) {
    if (at + size === prompt.length || signal.aborted) break;
    await pause.wait;
    const some = prompt.slice(at, at + size);
    await slot.sequence.evaluateWithoutGeneratingNewTokens(some, { evaluationPriority });
    // Only one token, or the last batch, can be computed with other runs.
    if (slot.alone === at) slot.alone += size;
    at += size;
    slot.parts = firstParts(parts, at);
  }
  return prompt.slice(at);
}

/** The options of every token. `said` grows with the answer. */
function sharedOptions(
  { temperature, top_p, top_k, min_p, penalties, grammar, priority }: Sampling,
  said: readonly Token[],
): SequenceEvaluateOptions {
  return {
    temperature,
    yieldEogToken: true,
    evaluationPriority: priority,
    ...(top_p === undefined ? {} : { topP: top_p }),
    ...(top_k === undefined ? {} : { topK: top_k }),
    ...(min_p === undefined ? {} : { minP: min_p }),
    ...(grammar === undefined ? {} : { grammarEvaluationState: grammar }),
    ...(penalties === undefined
      ? {}
      : {
          repeatPenalty: {
            punishTokens: () => [...said],
            penalty: penalties.repeat,
            presencePenalty: penalties.presence,
            frequencyPenalty: penalties.frequency,
          },
        }),
  };
}

function probabilitiesIn({
  confidence,
  probabilities,
}: {
  confidence?: number;
  probabilities?: ReadonlyMap<Token, number>;
}): Omit<Step, 'token'> {
  return { probability: confidence ?? null, probabilities: probabilities ?? null };
}
