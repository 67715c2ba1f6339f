import type { Context } from '../native/context.ts';
import type { Token } from '../native/model.ts';
import type { Decoder, Member } from './decoder.ts';
import type { Drafts } from './drafts.ts';
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

export interface Stepping<T> {
  decoder: Decoder;
  /** The run, for the batches. */
  member: Member;
  slot: Slot;
  sampler: TokenSampler;
  /** Tokens of the prompt in one batch. */
  batch: number;
  /** Null: a sequence can go back without them. */
  states: States | null;
  /** Null: no token is guessed. */
  drafts: Drafts | null;
  /** Takes the next token of the answer. Null: the answer continues. */
  take(step: Step): T | null;
  signal: AbortSignal;
}

/**
 * Generates tokens after a prompt and an earlier answer, end tokens included, until `take` returns
 * something, or until the signal aborts: null.
 *
 * 1. Each token is taken before the next one is sampled. So `take` can change what may follow.
 * 2. Guesses change no token: after each right one the next token is sampled, as without them.
 * 3. When this ends, nothing is computed for the run any more.
 */
export async function steps<T>(
  continuation: Continuation,
  stepping: Stepping<T>,
): Promise<T | null> {
  const { decoder, member, slot, sampler, drafts, take, signal } = stepping;
  const { parts, answered } = continuation;
  const answer = [...answered];
  let guesses: readonly Token[] = [];
  const takeAll = (context: Context, index: number) => {
    for (let at = 0; ; at += 1) {
      const step = sampler.after(answer)(context, index + at);
      answer.push(step.token);
      drafts?.push(step.token);
      const end = take(step);
      if (end === null && step.token === guesses[at]) continue;
      forget(context, slot, guesses.length - at);
      return end;
    }
  };
  try {
    let next = await prefill(continuation, stepping);
    if (answered.length > 0) next = await replay(next, continuation, stepping);
    while (!signal.aborted) {
      const end = await decoder.compute(member, slot, next, takeAll, guesses);
      slot.parts = parts;
      if (end !== null) return end;
      next = answer.slice(-1);
      guesses = (await drafts?.guess()) ?? [];
    }
  } catch (thrown) {
    if (!signal.aborted || thrown !== signal.reason) throw thrown;
  }
  return null;
}

/** Forgets the last tokens of a sequence, which were wrong. */
function forget(context: Context, { place, tokens }: Slot, count: number): void {
  if (count === 0) return;
  tokens.length -= count;
  context.forget(place, tokens.length);
}

/**
 * Computes earlier tokens one by one, as the first time: a batch changes the rounding, which can
 * change a sampled token. Returns the last token, which the next step computes.
 */
async function replay(
  rest: readonly Token[],
  { parts, answered }: Continuation,
  { decoder, member, slot, signal }: Stepping<unknown>,
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
  { decoder, member, slot, batch, states, signal }: Stepping<unknown>,
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
  // The next prompt can begin as this one does, and continue differently.
  if (!signal.aborted) await states?.keep(slot);
  return prompt.slice(at);
}
