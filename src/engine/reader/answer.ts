import { type OutputPart, type Piece, textOf } from '../../contract/messages/parts.ts';
import { SvcError } from '../../errors.ts';
import { type AnswerForm, Reader } from './reader.ts';

export interface AnswerOptions {
  form: AnswerForm;
  detokenize: Detokenize<number>;
  /** The text of a control token. Null: the token is of text. */
  controlText(token: number): string | null;
  /** The output that was delivered before the answer was cut off. */
  delivered: Delivered | null;
}

/**
 * The pieces of an answer, from its tokens.
 *
 * 1. An answer that continues is read again from its first token. Only undelivered pieces are
 *    returned.
 * 2. A token belongs to the reasoning if that is open before or after it. So its marks count too.
 */
export class AnswerPieces {
  readonly reader: Reader;
  reasoningTokens = 0;
  private readonly text: TokenText<number>;
  private readonly delivery: Delivery;
  private readonly controlText: AnswerOptions['controlText'];

  constructor({ form, detokenize, controlText, delivered }: AnswerOptions) {
    this.reader = new Reader(form);
    this.text = new TokenText(detokenize);
    this.delivery = new Delivery(delivered);
    this.controlText = controlText;
  }

  /** Whether the tokens so far end with a whole letter. */
  get isWhole(): boolean {
    return this.text.isWhole;
  }

  /** Throws resume_failed if the tokens do not spell the delivered output. */
  push(token: number): readonly Piece[] {
    const wasReasoning = this.reader.isReasoning;
    const pieces = this.undeliveredOf(this.reader.push(this.text.push([token])));
    const control = this.controlText(token);
    const all =
      control === null
        ? pieces
        : [...pieces, ...this.undeliveredOf(this.reader.push(control, true))];
    if (wasReasoning || this.reader.isReasoning) this.reasoningTokens += 1;
    return all;
  }

  end(): readonly Piece[] {
    return [
      ...this.undeliveredOf(this.reader.push(this.text.end())),
      ...this.undeliveredOf(this.reader.end()),
    ];
  }

  private undeliveredOf(pieces: readonly Piece[]): readonly Piece[] {
    const fresh: Piece[] = [];
    for (const piece of pieces) {
      const next = this.delivery.next(piece);
      if (next !== null) fresh.push(next);
    }
    return fresh;
  }
}

/** Throws resume_failed for tokens that the model does not have. */
export function checkTokens(tokens: readonly number[], vocabulary: number): void {
  if (vocabulary > 0 && tokens.some((id) => id >= vocabulary)) throw new SvcError('resume_failed');
}

/** The part of an answer that was delivered before it was cut off. */
interface Delivered {
  readonly text: string;
  /** All parts. Empty if the answer is only text. */
  readonly parts: readonly OutputPart[];
}

/**
 * Skips the delivered output in an answer that is read again from its beginning.
 *
 * 1. The delivered and the returned pieces are together the whole answer, without gaps or repeats.
 * 2. An answer that differs from the delivered output is refused.
 */
export class Delivery {
  private readonly parts: readonly OutputPart[];
  private index = 0;
  private offset = 0;

  constructor(delivered: Delivered | null) {
    const { text = '', parts = [] } = delivered ?? {};
    this.parts = parts.length > 0 || text === '' ? parts : [{ type: 'text', text }];
  }

  /** The undelivered rest of the piece. Null: all of it was delivered. Throws resume_failed. */
  next(piece: Piece): Piece | null {
    if (piece.text === '' && piece.call === undefined) return null;
    for (;;) {
      const part = this.parts[this.index];
      if (part === undefined) return piece;
      const known = textOf(part).slice(this.offset);
      const isLast = this.index === this.parts.length - 1;
      if (isOf(part, piece)) {
        const length = Math.min(known.length, piece.text.length);
        if (known.slice(0, length) !== piece.text.slice(0, length)) throw resumeError();
        this.offset += length;
        if (piece.text.length === length) return null;
        if (!isLast) throw resumeError();
        this.index += 1;
        return { ...piece, text: piece.text.slice(length) };
      }
      if (known !== '') throw resumeError();
      this.index += 1;
      this.offset = 0;
    }
  }
}

function isOf(part: OutputPart, { kind, call }: Piece): boolean {
  if (part.type === 'tool_call') return part.id === call?.id && part.name === call.name;
  return part.type === (kind ?? 'text');
}

function resumeError(): SvcError {
  return new SvcError('resume_failed');
}

/** Converts tokens to text. `before` are the tokens of earlier text. */
type Detokenize<T> = (tokens: readonly T[], before: readonly T[]) => string;

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
 * 1. The returned texts together are the text of all tokens, without a character that the end cuts.
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

  get isWhole(): boolean {
    return this.pending.length === 0;
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

  /** Returns the rest. The bytes of a character that the end cuts are not text. */
  end(): string {
    const rest = this.detokenize(this.pending, this.before).slice(this.returned);
    this.leave(this.pending.length);
    return rest.endsWith(REPLACEMENT) ? rest.slice(0, -1) : rest;
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
