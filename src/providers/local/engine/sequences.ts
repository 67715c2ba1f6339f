import type { LlamaContextSequence, Token } from 'node-llama-cpp';
import type { ContextPause } from './context-pause.ts';
import { firstParts, keepable, type Parts, tokensIn, withSingles } from './prompt-parts.ts';

/** A sequence of the context while a run owns it. */
export interface Slot {
  readonly sequence: LlamaContextSequence;
  /** Its number in the context. */
  readonly place: number;
  /** The client whose tokens it has. */
  client: string;
  /** How its tokens were computed. The run adds its prompt. */
  parts: Parts;
  /** Tokens from its beginning that were computed without other runs. */
  alone: number;
}

/** What a run may reuse, and how it has to be computed. */
export interface Reuse {
  client: string;
  /** How a resumed prompt was computed. Absent: a new answer. */
  parts?: Parts;
  /** The answer is the same with and without earlier runs. */
  repeatable: boolean;
  /** It may depend on other runs. */
  shares: boolean;
}

export interface SequencesOptions {
  sequences: readonly LlamaContextSequence[];
  /** Tokens of a prompt in one batch. */
  batch: number;
  pause: ContextPause;
}

/**
 * The sequences of the context that no run owns, with the tokens of their last runs. The next turn
 * of a conversation begins with the same tokens, which need not be computed again.
 *
 * 1. A run owns its sequence from `take` to `leave`.
 * 2. It gets the sequence that saves it most, else the one that was left first.
 * 3. A run reuses whole batches, so that its prompt can be computed in the same batches again. Only
 *    a run that shares its batches reuses any tokens.
 * 4. A run that must be repeatable reuses only whole batches of the beginning of a prompt. A new
 *    prompt has the same ones.
 * 5. A run reuses only tokens of its client: how long it takes says nothing about others.
 */
export class Sequences {
  private readonly options: SequencesOptions;
  /** Left first comes first. */
  private free: Slot[];

  constructor(options: SequencesOptions) {
    this.options = options;
    this.free = options.sequences.map((sequence, place) => ({
      ...{ sequence, place, client: '', parts: [], alone: 0 },
    }));
  }

  get hasFree(): boolean {
    return this.free.length > 0;
  }

  /** Call it only while there is a free one. */
  take(prompt: readonly Token[], reuse: Reuse): { slot: Slot; kept: number } {
    let best = { slot: this.free[0] as Slot, kept: 0 };
    for (const slot of this.free) {
      const kept = this.reusable(slot, prompt, reuse);
      if (kept > best.kept) best = { slot, kept };
    }
    this.free = this.free.filter((slot) => slot !== best.slot);
    return best;
  }

  /** `shared`: the answer depends on other runs. `failed`: it is unknown what was computed. */
  leave(slot: Slot, { shared, failed }: { shared: boolean; failed: boolean }): void {
    const end = slot.sequence.nextTokenIndex;
    if (!shared) slot.alone = end;
    slot.parts = failed ? [] : withSingles(slot.parts, end - tokensIn(slot.parts));
    this.free.push(slot);
  }

  /** Removes the tokens that the prompt does not reuse. Returns how many are left. */
  async prepare({ slot, kept }: { slot: Slot; kept: number }, client: string): Promise<number> {
    const { sequence } = slot;
    const end = sequence.nextTokenIndex;
    slot.client = client;
    slot.alone = keepable(slot.parts, Math.min(slot.alone, kept), this.options.batch);
    slot.parts = firstParts(slot.parts, kept);
    if (end === kept) return kept;
    await this.options.pause.run(() =>
      kept === 0
        ? sequence.clearHistory()
        : sequence.eraseContextTokenRanges([{ start: kept, end }]),
    );
    if (sequence.nextTokenIndex === kept) return kept;
    [slot.parts, slot.alone] = [[], 0];
    await this.options.pause.run(() => sequence.clearHistory());
    return 0;
  }

  private reusable(slot: Slot, prompt: readonly Token[], reuse: Reuse): number {
    const { sequence, parts, alone } = slot;
    if (slot.client !== reuse.client || sequence.needsCheckpoints || parts.length === 0) return 0;
    const { firstDifferentIndex } = sequence.compareContextTokens([...prompt]);
    // The last token of the prompt is computed in any case: the answer follows it.
    const same = Math.min(firstDifferentIndex, prompt.length - 1);
    if (reuse.shares) return same;
    const { batch } = this.options;
    if (!reuse.repeatable) return keepable(parts, Math.min(same, alone), batch);
    const [first = 0] = parts;
    const [begins = prompt.length] = reuse.parts ?? [];
    return Math.floor(Math.min(same, alone, first, begins) / batch) * batch;
  }
}
