/** Converts tokens to text. `before` are the tokens of earlier text. */
export type Detokenize<T> = (tokens: readonly T[], before: readonly T[]) => string;

/** Replaces bytes that are not, or not yet, a character. */
const REPLACEMENT = '\ufffd';
/** Pending tokens from which the older ones are removed if possible. */
const PENDING_MAX = 16;
/** A character has at most four bytes, so an unfinished one has at most four tokens. */
const UNFINISHED_MAX = 4;
const BEFORE_MAX = 3;

/**
 * Converts tokens to text as they arrive. Buffers a character until its bytes are complete.
 *
 * 1. The returned texts together are the text of all tokens.
 * 2. Bytes that can never become a character become U+FFFD, as in the text of all tokens.
 */
export class TokenText<T> {
  private readonly detokenize: Detokenize<T>;
  private pending: T[] = [];
  private before: T[] = [];
  /** Length of the returned part of the text of `pending`. */
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

  /** Returns the rest: bytes that did not become a character. */
  end(): string {
    const rest = this.detokenize(this.pending, this.before).slice(this.returned);
    this.leave(this.pending.length);
    return rest;
  }

  /** Removes older tokens at a position where the text can be split without a change. */
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
