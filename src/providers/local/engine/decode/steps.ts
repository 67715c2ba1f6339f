import type { Token } from '../native/model.ts';
import type { Decoder, Member } from './decoder.ts';
import { batchesAfter, firstParts, type Parts } from './prompt-parts.ts';
import type { Step, TokenSampler } from './sampler.ts';
import type { Slot } from './sequences.ts';
import type { States } from './states.ts';

export interface Continuation {
  prompt: readonly Token[];
  /** How the prompt is computed. */
  parts: Parts;
  /** Tokens of the prompt that the sequence has. */
  kept: number;
  /** Tokens of the answer so far. */
  answered: readonly Token[];
}

export interface Stepping {
  decoder: Decoder;
  /** The run, for the batches. */
  member: Member;
  slot: Slot;
  sampler: TokenSampler;
  /** Tokens of the prompt in one batch. */
  batch: number;
  /** Null: a sequence can go back without them. */
  states: States | null;
  /**
   * Whether the next token is surely wanted, before the text of this one is read. `made`: tokens of
   * the answer.
   */
  goesOn(token: Token, made: number): boolean;
  signal: AbortSignal;
}

/**
 * Generates tokens after a prompt and an earlier answer, end tokens included, until the signal
 * aborts.
 *
 * 1. If the answer surely goes on, the next token is computed while the last one is read.
 * 2. When this ends, nothing is computed for the run any more.
 */
export async function* steps(continuation: Continuation, stepping: Stepping): AsyncGenerator<Step> {
  const { decoder, member, slot, sampler, signal } = stepping;
  const { parts, answered } = continuation;
  const answer = [...answered];
  let next: readonly Token[];
  const compute = () => decoder.compute(member, slot, next, sampler.after(answer));
  let ahead: Promise<Step> | null = null;
  try {
    next = await prefill(continuation, stepping);
    if (answered.length > 0) next = await replay(next, continuation, stepping);
    while (!signal.aborted) {
      const step: Step = await (ahead ?? compute());
      ahead = null;
      if (answer.length === answered.length) slot.parts = parts;
      answer.push(step.token);
      next = [step.token];
      if (stepping.goesOn(step.token, answer.length)) {
        ahead = compute();
        // Who awaits it gets its error.
        ahead.catch(() => undefined);
      }
      yield step;
    }
  } catch (thrown) {
    if (!signal.aborted || thrown !== signal.reason) throw thrown;
  } finally {
    await ahead?.catch(() => undefined);
  }
}

/**
 * Computes earlier tokens one by one, as the first time: a batch changes the rounding, which can
 * change a sampled token. Returns the last token, which the next step computes.
 */
async function replay(
  rest: readonly Token[],
  { parts, answered }: Continuation,
  { decoder, member, slot, signal }: Stepping,
): Promise<readonly Token[]> {
  let next = rest;
  for (const token of answered) {
    if (signal.aborted) break;
    await decoder.compute(member, slot, next, null);
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
  { prompt, parts, kept }: Continuation,
  { decoder, member, slot, batch, states, signal }: Stepping,
): Promise<readonly Token[]> {
  let at = kept;
  for (const size of batchesAfter(parts, kept, batch)) {
    member.left = prompt.length - at;
    if (at + size === prompt.length || signal.aborted) break;
    await decoder.compute(member, slot, prompt.slice(at, at + size), null);
    if (slot.alone === at && !member.batched) slot.alone += size;
    at += size;
    slot.parts = firstParts(parts, at);
  }
  // The next prompt can begin as this one does, and go on otherwise.
  if (!signal.aborted) await states?.keep(slot);
  return prompt.slice(at);
}
