import type { Token } from '../native/model.ts';
import type { PromptFile } from '../prompt-files.ts';
import type { Decoder } from './decoder.ts';
import { FILE_TOKENS, type PromptCache } from './prompt-cache.ts';
import { countKeepable, firstParts, type Parts, tokensIn, withSingles } from './prompt-parts.ts';
import { type Stateful, type States, stateWithin } from './states.ts';

/** A sequence of the context while a run owns it. */
export interface Slot extends Stateful {
  /** The client whose tokens it has. */
  client: string;
  /** How its tokens were computed. The run adds its prompt. */
  parts: Parts;
  /** Tokens from its beginning that were computed without other runs. */
  alone: number;
  /** The run that computed it last. */
  run: string;
  /** Tokens from its beginning that a file has. */
  saved: number;
}

type Computed = Pick<Slot, 'client' | 'tokens' | 'parts' | 'alone'> & Partial<Pick<Slot, 'states'>>;

/**
 * A sequence for a run, and the tokens that it may reuse. `file`: its tokens come from this file.
 * Null: from the sequence.
 */
export interface Taken {
  slot: Slot;
  kept: number;
  file: PromptFile | null;
}

/** The tokens that a run may reuse, and how it has to be computed. */
export interface Reuse {
  client: string;
  /** How a resumed prompt was computed. Absent: a new answer. */
  parts?: Parts;
  /** The answer is the same with and without earlier runs. */
  repeatable: boolean;
  /** The answer may depend on other runs. */
  shares: boolean;
}

export interface SequencesOptions {
  decoder: Pick<Decoder, 'keep'>;
  /** Number of sequences. */
  parallel: number;
  /** Tokens of a prompt in one batch. */
  batch: number;
  /** Of sequences that cannot forget their last tokens. Null: they can. */
  states: States | null;
  /** Null or absent: computed tokens are lost when the process ends. */
  cache?: PromptCache | null;
}

/**
 * The sequences of the context that no run owns, with the tokens of their last runs. The next turn
 * of a conversation begins with the same tokens, which need not be computed again.
 *
 * 1. A run owns its sequence from `take` to `leave`.
 * 2. It gets the sequence that saves it most, else the sequence that was left first. A place beside
 *    a run that shares batches saves something too: llama.cpp splits a batch where the number of a
 *    sequence is missing.
 * 3. A run reuses whole batches, so that its prompt can be computed in the same batches again. Only
 *    a run that shares its batches reuses any tokens.
 * 4. A run that must be repeatable reuses only whole batches of the beginning of a prompt. A new
 *    prompt has the same ones.
 * 5. A run reuses only tokens of its client: its duration reveals nothing about other clients.
 * 6. Where a sequence cannot go back, a run reuses all of it, or an earlier state.
 * 7. A file that saves far more than the best sequence fills the one that was left first.
 */
export class Sequences {
  private readonly options: SequencesOptions;
  /** Left first comes first. */
  private free: Slot[];
  /** The places of runs that share batches. */
  private readonly sharing = new Set<number>();

  constructor(options: SequencesOptions) {
    this.options = options;
    this.free = Array.from({ length: options.parallel }, (_, place) => ({
      place,
      tokens: [],
      client: '',
      parts: [],
      alone: 0,
      run: '',
      saved: 0,
      states: [],
    }));
  }

  get hasFree(): boolean {
    return this.free.length > 0;
  }

  /** Call it only while there is a free one. */
  take(prompt: readonly Token[], reuse: Reuse): Taken {
    const found = this.free.map((slot) => {
      const kept = this.countReusable(slot, prompt, reuse);
      return { slot, kept, saved: kept + (reuse.shares ? this.tokensSavedBeside(slot) : 0) };
    });
    const best = found.reduce((best, one) => (one.saved > best.saved ? one : best));
    const taken = this.fromFile(prompt, reuse, best.kept) ?? { ...best, file: null };
    this.free = this.free.filter((one) => one !== taken.slot);
    if (reuse.shares) this.sharing.add(taken.slot.place);
    return taken;
  }

  /** A sequence for tokens that reuse nothing. Call it only while there is a free one. */
  takeEmpty(): Taken {
    const slot = this.free.shift() as Slot;
    return { slot, kept: 0, file: null };
  }

  private fromFile(prompt: readonly Token[], reuse: Reuse, kept: number): Taken | null {
    const [slot] = this.free;
    let best: Taken | null = null;
    for (const file of this.options.cache?.files ?? []) {
      const { meta } = file;
      const saves = this.countReusable(meta, prompt, reuse);
      if (slot !== undefined && saves >= (best?.kept ?? kept + FILE_TOKENS))
        best = { slot, kept: saves, file };
    }
    return best;
  }

  private tokensSavedBeside({ place }: Slot): number {
    return [place - 1, place + 1].filter((one) => this.sharing.has(one)).length * BESIDE_TOKENS;
  }

  /** `shared`: the answer depends on other runs. `failed`: the computed tokens are unknown. */
  leave(slot: Slot, { shared, failed }: { shared: boolean; failed: boolean }): void {
    const end = slot.tokens.length;
    if (!shared) slot.alone = end;
    slot.parts = failed ? [] : withSingles(slot.parts, end - tokensIn(slot.parts));
    this.sharing.delete(slot.place);
    this.free.push(slot);
  }

  /** Removes the tokens that the prompt does not reuse. Returns how many are left. */
  async prepare({ slot, kept: most, file }: Taken, client: string, run = ''): Promise<number> {
    const { cache, states, decoder } = this.options;
    if (file !== null) {
      states?.cut(slot, 0);
      await cache?.restore(file, slot, run);
    }
    const kept = Math.min(most, slot.tokens.length);
    states?.cut(slot, kept);
    [slot.client, slot.run, slot.saved] = [client, run, Math.min(slot.saved, kept)];
    slot.alone = countKeepable(slot.parts, Math.min(slot.alone, kept), this.options.batch);
    slot.parts = firstParts(slot.parts, kept);
    const has = await decoder.keep(slot, kept, stateWithin(slot, kept)?.bytes);
    if (has < kept) {
      [slot.parts, slot.alone] = [[], 0];
      states?.cut(slot, 0);
    }
    return has;
  }

  /** Writes the long sequences that have so many tokens more than their files, until that time. */
  async save(more: number, until = Number.POSITIVE_INFINITY): Promise<void> {
    const { cache } = this.options;
    for (const slot of this.free.toReversed()) {
      const { tokens, parts, saved } = slot;
      if (!cache || performance.now() > until) return;
      if (parts.length > 0 && tokens.length >= FILE_TOKENS && tokens.length - saved >= more)
        await cache.save(slot, () => this.free.includes(slot));
    }
  }

  private countReusable(slot: Computed, prompt: readonly Token[], reuse: Reuse): number {
    const most = this.countReusableBeginning(slot, prompt, reuse);
    if (this.options.states === null || most === slot.tokens.length) return most;
    return stateWithin(slot, most)?.tokens ?? 0;
  }

  private countReusableBeginning(slot: Computed, prompt: readonly Token[], reuse: Reuse): number {
    const { tokens, parts, alone } = slot;
    if (slot.client !== reuse.client || parts.length === 0) return 0;
    const different = tokens.findIndex((token, index) => token !== prompt[index]);
    // The last token of the prompt is computed in any case: the answer follows it.
    const same = Math.min(different === -1 ? tokens.length : different, prompt.length - 1);
    if (reuse.shares) return same;
    const { batch } = this.options;
    if (!reuse.repeatable) return countKeepable(parts, Math.min(same, alone), batch);
    const [first = 0] = parts;
    const [begins = prompt.length] = reuse.parts ?? [];
    return Math.floor(Math.min(same, alone, first, begins) / batch) * batch;
  }
}

/**
 * More than the beginning of a chat template, which all prompts of a client share. Less than an
 * earlier turn of a conversation.
 */
const BESIDE_TOKENS = 32;
