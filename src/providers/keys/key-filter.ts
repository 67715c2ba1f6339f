/**
 * Takes the key of the provider out of one text that comes in pieces.
 *
 * 1. What may be the beginning of the key waits for the next piece, or for `end`.
 * 2. Up to three characters are too common to wait. They may show.
 * 3. A short key is no secret, but a word such as `not-needed`. An answer may have it.
 */
export class KeyFilter {
  private readonly key: string;
  /** The last characters that were let through. */
  private seen = '';
  private waiting = '';

  private constructor(key: string) {
    this.key = key;
  }

  /** Null: there is nothing to take out. */
  static of(key: string | null): KeyFilter | null {
    return key === null || key.length < KEY_LENGTH_MIN ? null : new KeyFilter(key);
  }

  get isWaiting(): boolean {
    return this.waiting !== '';
  }

  /** What of the text may show now. */
  take(piece: string): string {
    const { key, seen } = this;
    const all = seen + this.waiting + piece;
    let shown = '';
    let from = seen.length;
    for (let begin = 0; ; ) {
      const at = all.indexOf(key, begin);
      if (at < 0) {
        const until = Math.max(from, all.length - beginningAt(all.slice(begin), key));
        this.waiting = all.slice(until);
        this.seen = all.slice(Math.max(begin, until - FREE), until);
        return shown + all.slice(from, until);
      }
      shown += all.slice(from, Math.max(from, at)) + KEY_PLACE;
      begin = at + key.length;
      from = begin;
    }
  }

  /** What still waits, and so is no key. */
  end(): string {
    const { waiting } = this;
    this.waiting = '';
    return waiting;
  }
}

/** How much of the end of a text is a beginning of the key. Most pieces have none. */
function beginningAt(text: string, key: string): number {
  const [first = ''] = key;
  let at = text.indexOf(first, Math.max(0, text.length - key.length + 1));
  while (at >= 0 && text.length - at > FREE) {
    if (key.startsWith(text.slice(at))) return text.length - at;
    at = text.indexOf(first, at + 1);
  }
  return 0;
}

/** What an answer has instead. */
export const KEY_PLACE = '[key]';
const FREE = 3;
const KEY_LENGTH_MIN = 20;
