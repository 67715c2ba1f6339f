import type { LlamaContextSequence, Token } from 'node-llama-cpp';
import type { ContextPause } from './context-pause.ts';

/** A sequence of the context while a run owns it. */
export interface Slot {
  readonly sequence: LlamaContextSequence;
  /** The client whose tokens it has. */
  client: string;
  /** Tokens from its beginning that were computed in whole batches of a prompt. */
  whole: number;
}

export interface SequencesOptions {
  sequences: readonly LlamaContextSequence[];
  /** Tokens of a prompt in one batch. */
  batch: number;
  /** A run that need not be exact reuses the tokens of an earlier answer too. */
  keepsAnswers: boolean;
  pause: ContextPause;
}

/**
 * The sequences of the context that no run owns, with the tokens of their last runs. The next turn
 * of a conversation begins with the same tokens, which need not be computed again.
 *
 * 1. A run owns its sequence from `take` to `leave`.
 * 2. It gets the sequence that saves it most, else the one that was left first.
 * 3. An exact run reuses only whole batches of a prompt. A new answer computes them in the same
 *    batches, so it has the same tokens as an answer without them.
 * 4. A run reuses only tokens of its client: how long it takes says nothing about others.
 */
export class Sequences {
  private readonly options: SequencesOptions;
  /** Left first comes first. */
  private free: Slot[];

  constructor(options: SequencesOptions) {
    this.options = options;
    this.free = options.sequences.map((sequence) => ({ sequence, client: '', whole: 0 }));
  }

  get hasFree(): boolean {
    return this.free.length > 0;
  }

  /** Call it only while there is a free one. */
  take(prompt: readonly Token[], client: string, exact: boolean): { slot: Slot; kept: number } {
    let best = { slot: this.free[0] as Slot, kept: 0 };
    for (const slot of this.free) {
      const kept = this.reusable(slot, prompt, client, exact);
      if (kept > best.kept) best = { slot, kept };
    }
    this.free = this.free.filter((slot) => slot !== best.slot);
    return best;
  }

  leave(slot: Slot): void {
    this.free.push(slot);
  }

  /** Removes the tokens that the prompt does not reuse. Returns how many are left. */
  async prepare({ slot, kept }: { slot: Slot; kept: number }, client: string): Promise<number> {
    const { sequence } = slot;
    const end = sequence.nextTokenIndex;
    slot.client = client;
    slot.whole = this.wholeBatches(Math.min(slot.whole, kept));
    if (end === kept) return kept;
    await this.options.pause.run(() =>
      kept === 0
        ? sequence.clearHistory()
        : sequence.eraseContextTokenRanges([{ start: kept, end }]),
    );
    if (sequence.nextTokenIndex === kept) return kept;
    slot.whole = 0;
    await this.options.pause.run(() => sequence.clearHistory());
    return 0;
  }

  private reusable(
    { sequence, client: last, whole }: Slot,
    prompt: readonly Token[],
    client: string,
    exact: boolean,
  ): number {
    if (last !== client || sequence.needsCheckpoints || sequence.nextTokenIndex === 0) return 0;
    const { firstDifferentIndex } = sequence.compareContextTokens([...prompt]);
    // The last token of the prompt is computed in any case: the answer follows it.
    const same = Math.min(firstDifferentIndex, prompt.length - 1);
    const keepsAll = this.options.keepsAnswers && !exact;
    return keepsAll ? same : this.wholeBatches(Math.min(same, whole));
  }

  private wholeBatches(tokens: number): number {
    const { batch } = this.options;
    return Math.floor(tokens / batch) * batch;
  }
}
