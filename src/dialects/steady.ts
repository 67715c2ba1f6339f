import type { OutputPart } from '../contract/messages/parts.ts';
import { opaqueIn, partOf, textOf } from '../contract/messages/parts.ts';
import { SvcError } from '../errors.ts';
import { type AnswerEnd, addPiece, type OutputPiece, type Piece } from './pieces.ts';

/** A piece with its place: the index of its part among all parts of all turns. */
export type PlacedPiece = OutputPiece & { readonly part: number };

/**
 * The pieces of an answer for a client that cannot discard text that it has read.
 *
 * 1. A turn that begins again repeats what was sent, if it is computed with the same seed. Such a
 *    repetition is left out. A turn that differs from the sent text ends with stream_truncated: its
 *    run continues, and the log has both.
 * 2. The text of each turn is sent. `gap` comes between the texts of two turns.
 */
export class Steady {
  private readonly gap: string;
  /** Of the present turn. */
  private sent = new Parts();
  private answer = this.sent;
  /** Parts of earlier turns. */
  private earlier = 0;
  private hasText = false;
  private isNew = false;

  constructor(gap = '') {
    this.gap = gap;
  }

  /** Null: the client has it already. Throws stream_truncated. */
  take(piece: Piece): PlacedPiece | AnswerEnd | null {
    const { sent } = this;
    if (piece.type === 'restart') {
      if (sent.all.length > 0) this.answer = new Parts();
      return null;
    }
    if (piece.type === 'output')
      return this.answer === sent ? this.placeNew(piece) : this.placeRepeated(piece);
    if (this.answer !== sent && !this.answer.hasTextOf(sent)) throw differsError();
    if (piece.type === 'end') return piece;
    this.earlier += sent.all.length;
    this.sent = new Parts();
    this.answer = this.sent;
    this.isNew = this.hasText;
    return null;
  }

  private placeNew(piece: OutputPiece): PlacedPiece {
    const part = this.earlier + this.sent.add(piece);
    if (piece.kind !== undefined) return { ...piece, part };
    const gap = this.isNew ? this.gap : '';
    this.hasText = true;
    this.isNew = false;
    return { ...piece, text: gap + piece.text, part };
  }

  /** A piece of a turn that began again. */
  private placeRepeated(piece: OutputPiece): PlacedPiece | null {
    const { sent, answer } = this;
    const place = answer.place(piece);
    answer.add(piece);
    const before = sent.lengthOf(place.part) - place.offset;
    if (!sent.isConsistent(place, piece)) throw differsError();
    const { logprobs: _, ...rest } = piece;
    const fresh = before > 0 ? { ...rest, text: piece.text.slice(before) } : piece;
    if (before > 0 && fresh.text === '') return null;
    if (piece.opaque !== undefined && sent.isEnded(place.part)) return null;
    if (sent.place(fresh).part !== place.part) throw differsError();
    return this.placeNew(fresh);
  }
}

interface Place {
  part: number;
  offset: number;
}

/** The parts of an answer so far. */
class Parts {
  all: readonly OutputPart[] = [];

  /** The index of the part that the piece belongs to. */
  add(piece: OutputPiece): number {
    const { part } = this.place(piece);
    this.all = addPiece(this.all, piece);
    return part;
  }

  place(piece: OutputPiece): Place {
    const part = partOf(this.all, piece);
    return { part, offset: this.lengthOf(part) };
  }

  /** Whether the part has opaque data for its author. */
  isEnded(part: number): boolean {
    const there = this.all[part];
    return there !== undefined && opaqueIn(there) !== undefined;
  }

  lengthOf(part: number): number {
    const there = this.all[part];
    return there === undefined ? 0 : textOf(there).length;
  }

  /** Whether the piece says at its place what these parts say there, as far as they go. */
  isConsistent({ part, offset }: Place, piece: OutputPiece): boolean {
    const there = this.all[part];
    if (there === undefined) return part === this.all.length;
    if (there.type !== (piece.kind ?? 'text')) return false;
    if (there.type === 'tool_call' && there.id !== piece.call?.id) return false;
    const text = textOf(there).slice(offset);
    return text.startsWith(piece.text) || piece.text.startsWith(text);
  }

  /** Whether these parts have at least the text of the others. */
  hasTextOf({ all }: Parts): boolean {
    return all.every((part, index) => this.lengthOf(index) >= textOf(part).length);
  }
}

function differsError(): SvcError {
  return new SvcError(
    'stream_truncated',
    'The answer was lost and began again, and now differs from what was sent.',
  );
}
