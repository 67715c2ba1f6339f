/**
 * An answer may repeat the key of its request. Every response passes `KeyBytes`, whatever reads it.
 * Texts that come in pieces pass `KeyFilter` too, because no piece has the whole key.
 */

/**
 * Takes the key of the provider out of one text that comes in pieces.
 *
 * 1. Text that may begin the key waits for the next piece, or for `end`.
 * 2. Up to three characters are too common to wait. They may show.
 * 3. A short key is not a secret, but a word such as `not-needed`. An answer may have it.
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

/**
 * Takes the key out of the bytes of one response, as they come.
 *
 * 1. What may be the beginning of the key waits for the next bytes, or for `end`. Nothing else
 *    waits.
 * 2. A character may be written as JSON writes it, such as `\u002d` for `-`.
 */
export class KeyBytes {
  private readonly key: Buffer;
  /** Four digits for each byte of it. */
  private readonly hex: Buffer;
  private waiting: Buffer = NOTHING;

  private constructor(key: string) {
    this.key = Buffer.from(key);
    this.hex = Buffer.from(this.key.toString('hex').replace(/../g, '00$&'));
  }

  /** Null: there is nothing to take out. */
  static of(key: string | null): KeyBytes | null {
    return key === null || key.length < KEY_LENGTH_MIN ? null : new KeyBytes(key);
  }

  /** A text that came whole. */
  static removeKey(key: string | null, text: string): string {
    const filter = KeyBytes.of(key);
    if (filter === null) return text;
    return Buffer.concat([filter.take(Buffer.from(text)), filter.end()]).toString();
  }

  take(piece: Buffer): Buffer {
    const bytes = this.waiting.length === 0 ? piece : Buffer.concat([this.waiting, piece]);
    this.waiting = NOTHING;
    const shown: Buffer[] = [];
    let from = 0;
    const [first] = this.key;
    for (let at = 0; at < bytes.length; ) {
      const code = bytes[at];
      const end = code === first || code === BACKSLASH ? this.match(bytes, at) : null;
      if (end === 'open') {
        this.waiting = bytes.subarray(at);
        shown.push(bytes.subarray(from, at));
        return Buffer.concat(shown);
      }
      if (end !== null) {
        shown.push(bytes.subarray(from, at), PLACE_BYTES);
        from = end;
      }
      at = end ?? at + 1;
    }
    if (from === 0) return bytes;
    shown.push(bytes.subarray(from));
    return Buffer.concat(shown);
  }

  /** What still waits, and so is no key. */
  end(): Buffer {
    const { waiting } = this;
    this.waiting = NOTHING;
    return waiting;
  }

  /** The end of the key that begins here. Null: none does. `open`: the bytes end before it. */
  private match(bytes: Buffer, begin: number): number | 'open' | null {
    const { key, hex } = this;
    let at = begin;
    for (let place = 0; place < key.length; place += 1) {
      if (at >= bytes.length) return 'open';
      if (bytes[at] === key[place]) at += 1;
      else if (bytes[at] !== BACKSLASH) return null;
      else if (at + 1 === bytes.length) return 'open';
      else if (bytes[at + 1] === LETTER_U) {
        for (let digit = 0; digit < DIGITS; digit += 1) {
          const written = bytes[at + 2 + digit];
          if (written === undefined) return 'open';
          if ((written | LOWER) !== hex[DIGITS * place + digit]) return null;
        }
        at += 2 + DIGITS;
      } else if (bytes[at + 1] === key[place] && ESCAPED.has(key[place] as number)) at += 2;
      else return null;
    }
    return at;
  }
}

const NOTHING = Buffer.alloc(0);
const PLACE_BYTES = Buffer.from(KEY_PLACE);
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const DIGITS = 4;
/** Makes a letter lower case, and keeps a digit. */
const LOWER = 0x20;
/** `"`, `/` and `\\` may follow a backslash as they are. */
const ESCAPED: ReadonlySet<number> = new Set([0x22, 0x2f, 0x5c]);
