import { type OutputPart, type Piece, textOf } from '../../../../../machines/messages.ts';
import { SvcError } from '../../../../errors.ts';

/** The part of an answer that was delivered before it was cut off. */
export interface Delivered {
  readonly text: string;
  /** All parts. Empty if the answer is only text. */
  readonly parts: readonly OutputPart[];
}

/**
 * Skips what was delivered before, in an answer that is read again from its beginning.
 *
 * 1. What was delivered and what is returned are together the whole answer, without gaps or
 *    repeats.
 * 2. An answer that differs from what was delivered is refused.
 */
export class Delivery {
  private readonly parts: readonly OutputPart[];
  private index = 0;
  private offset = 0;

  constructor(delivered: Delivered | null) {
    const { text = '', parts = [] } = delivered ?? {};
    this.parts = parts.length > 0 || text === '' ? parts : [{ type: 'text', text }];
  }

  /** The piece without what was delivered. Null: all of it was. Throws resume_failed. */
  next(piece: Piece): Piece | null {
    if (piece.text === '' && piece.call === undefined) return null;
    for (;;) {
      const part = this.parts[this.index];
      if (part === undefined) return piece;
      const known = textOf(part).slice(this.offset);
      const isLast = this.index === this.parts.length - 1;
      if (isOf(part, piece)) {
        const length = Math.min(known.length, piece.text.length);
        if (known.slice(0, length) !== piece.text.slice(0, length)) throw differs();
        this.offset += length;
        if (piece.text.length === length) return null;
        if (!isLast) throw differs();
        this.index += 1;
        return { ...piece, text: piece.text.slice(length) };
      }
      if (known !== '') throw differs();
      this.index += 1;
      this.offset = 0;
    }
  }
}

function isOf(part: OutputPart, { kind, call }: Piece): boolean {
  if (part.type === 'tool_call') return part.id === call?.id && part.name === call.name;
  return part.type === (kind ?? 'text');
}

function differs(): SvcError {
  return new SvcError('resume_failed');
}
