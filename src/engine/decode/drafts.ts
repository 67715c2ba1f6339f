import type { Token } from '../native/model.ts';
import type { DraftModel } from './draft-model.ts';

export interface DraftsOptions {
  /** The tokens of the prompt and of the answer so far. */
  tokens: readonly Token[];
  /** The most tokens of both. */
  most: number;
  /** The cost of one more token in a batch. 1 is the cost of a token by itself. */
  cost: number;
  /** Null: only earlier tokens say what comes next. */
  model: DraftModel | null;
  /** Whether no other run is computed now. */
  isAlone(): boolean;
}

/**
 * Guesses the next tokens of an answer. They are those that followed its last tokens earlier, in
 * the prompt or in the answer, or else those of a smaller model. A batch of several tokens costs
 * less than each of them by itself.
 *
 * 1. A run beside others guesses nothing: their tokens share its batches.
 * 2. Each source is used as long as it is right often enough.
 */
export class Drafts {
  private readonly options: DraftsOptions;
  private readonly tokens: Int32Array;
  private count = 0;
  private readonly repeated: Worth;
  private readonly modelled: Worth;
  /** The last guesses, how many were right so far, and where they are from. */
  private guesses: readonly Token[] = [];
  private right = 0;
  private source: Worth;
  /** Of the whole answer. */
  private drafted = 0;
  private accepted = 0;

  constructor(options: DraftsOptions) {
    const { cost, model, most, tokens } = options;
    this.options = options;
    this.tokens = new Int32Array(most);
    this.repeated = new Worth(cost);
    this.modelled = new Worth(cost + (model?.cost ?? 0));
    this.source = this.repeated;
    for (const token of tokens) this.push(token);
  }

  /** Notes the next token. */
  push(token: Token): void {
    if (token === this.guesses[this.right]) {
      this.right += 1;
      this.accepted += 1;
    }
    this.tokens[this.count] = token;
    this.count += 1;
  }

  /** The next tokens as it guesses them. Empty: none is worth it. */
  async guess(): Promise<readonly Token[]> {
    if (this.guesses.length > 0) this.source.note(this.guesses.length, this.right, this.count);
    this.guesses = await this.findGuesses();
    this.right = 0;
    this.drafted += this.guesses.length;
    return this.guesses;
  }

  /** As a part of the usage of the answer. None: nothing was guessed. */
  get usage(): { drafted_tokens?: number; accepted_tokens?: number } {
    const { drafted: drafted_tokens, accepted: accepted_tokens } = this;
    return drafted_tokens === 0 ? {} : { drafted_tokens, accepted_tokens };
  }

  private async findGuesses(): Promise<readonly Token[]> {
    const { tokens, count, repeated, modelled } = this;
    const { most, model, isAlone } = this.options;
    const room = most - count - 1;
    if (room < 1 || !isAlone()) return [];
    const copied = Math.min(room, repeated.mostAt(count));
    const from = copied > 0 ? this.findRepeated() : null;
    this.source = repeated;
    if (from !== null) return [...tokens.subarray(from, Math.min(count, from + copied))];
    const modelMost = Math.min(room, modelled.mostAt(count));
    if (model === null || modelMost === 0) return [];
    this.source = modelled;
    const wanted = { most: modelMost, least: modelled.cost, isWanted: isAlone };
    return model.guess(tokens.subarray(0, count), wanted);
  }

  /** Behind the longest earlier copy of the last tokens, the latest of these. */
  private findRepeated(): number | null {
    const { tokens, count } = this;
    let [from, length]: [number | null, number] = [null, MATCH.least - 1];
    for (let end = count - 1; end > length && length < MATCH.most; end -= 1) {
      // The farthest token first: it is seldom equal.
      if (tokens[end - 1 - length] !== tokens[count - 1 - length]) continue;
      let same = 0;
      const most = Math.min(end, MATCH.most);
      while (same < most && tokens[end - 1 - same] === tokens[count - 1 - same]) same += 1;
      if (same > length) [from, length] = [end, same];
    }
    return from;
  }
}

/**
 * How many guesses of a source are worth their cost: so many as are all right often enough. They
 * pay by a batch that is computed once for all right ones. If not even one is worth it there are
 * none for a while, and each time for longer.
 */
class Worth {
  /** Of one guess. 1 is the cost of a token by itself. */
  readonly cost: number;
  private right = USUAL.right;
  private wrong = USUAL.wrong;
  private pause = PAUSE_FIRST;
  private opensAt = 0;

  constructor(cost: number) {
    this.cost = cost;
  }

  /** The most guesses at one time. `count`: of all tokens so far. */
  mostAt(count: number): number {
    return count < this.opensAt ? 0 : this.length;
  }

  note(guessed: number, right: number, count: number): void {
    this.right = this.right * FADES + right;
    this.wrong = this.wrong * FADES + (right < guessed ? 1 : 0);
    if (this.length > 0) return;
    [this.right, this.wrong] = [USUAL.right, USUAL.wrong];
    this.opensAt = count + this.pause;
    this.pause *= 2;
  }

  private get length(): number {
    const rate = this.right / (this.right + this.wrong);
    const length = Math.floor(Math.log(this.cost) / Math.log(rate));
    return Math.max(0, Math.min(GUESSES_MOST, length));
  }
}

/** Tokens in one batch. */
const GUESSES_MOST = 16;
/** Guesses before the first ones of an answer, as it were: four of five are right. */
const USUAL = { right: 4, wrong: 1 };
/** What earlier guesses count, at each later one. */
const FADES = 0.9;
/** In tokens of the answer. */
const PAUSE_FIRST = 32;
/** Equal tokens before a guess: fewer say little, and more say no more. */
const MATCH = { least: 3, most: 16 };
