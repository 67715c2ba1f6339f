/** The part of a tokenizer that turns tokens into text; `before` are tokens whose text is there already. */
export type Detokenize<T> = (tokens: readonly T[], before: readonly T[]) => string;

/** Replaces bytes that are not, or not yet, a character. */
const REPLACEMENT = '\ufffd';
/** Tokens that are looked at again before it is asked whether the older ones can be left. */
const PENDING_MAX = 16;
/** A character has at most four bytes, so an unfinished one lies within as many tokens. */
const UNFINISHED_MAX = 4;
const BEFORE_MAX = 3;

/**
 * Text from tokens as they come. A character whose bytes are spread over tokens is held until it is whole.
 *
 * 1. All that was returned, in order, is the text of all tokens together.
 * 2. Bytes that can never become a character come out as U+FFFD, as they do in the text of all tokens.
 */
export class TokenText<T> {
  private readonly detokenize: Detokenize<T>;
  private pending: T[] = [];
  private before: T[] = [];
  /** Length of the text of `pending` that was returned. */
  private returned = 0;

  constructor(detokenize: Detokenize<T>) {
    this.detokenize = detokenize;
  }

  push(tokens: readonly T[]): string {
    this.pending.push(...tokens);
    const text = this.detokenize(this.pending, this.before);
    const whole = text.endsWith(REPLACEMENT) ? text.slice(0, -1) : text;
    const fresh = whole.slice(this.returned);
    this.returned = Math.max(this.returned, whole.length);
    if (whole === text) this.leave(this.pending.length);
    else if (this.pending.length > PENDING_MAX) this.leaveOlder(text);
    return fresh;
  }

  /** What is left: bytes that did not become a character. */
  end(): string {
    const rest = this.detokenize(this.pending, this.before).slice(this.returned);
    this.leave(this.pending.length);
    return rest;
  }

  /** Leaves the older tokens where the text can be cut between two tokens without changing it. */
  private leaveOlder(text: string): void {
    for (let count = this.pending.length - UNFINISHED_MAX; count > 0; count -= 1) {
      const older = this.detokenize(this.pending.slice(0, count), this.before);
      const newer = this.detokenize(this.pending.slice(count), this.lastBefore(count));
      if (older.length > this.returned || older + newer !== text) continue;
      this.returned -= older.length;
      this.keepFrom(count);
      return;
    }
  }

  private leave(count: number): void {
    this.returned = 0;
    this.keepFrom(count);
  }

  private keepFrom(count: number): void {
    this.before = this.lastBefore(count);
    this.pending = this.pending.slice(count);
  }

  private lastBefore(count: number): T[] {
    return [...this.before, ...this.pending.slice(0, count)].slice(-BEFORE_MAX);
  }
}
