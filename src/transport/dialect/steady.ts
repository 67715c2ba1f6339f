import type { OutputPart } from '../../../machines/messages.ts';
import { partOf, textOf } from '../../../machines/messages.ts';
import { SvcError } from '../../errors.ts';
import { type AnswerEnd, grow, type OutputPiece, type Piece } from './pieces.ts';

/** A piece with its place: the index of its part among all parts of the answer. */
export type PlacedPiece = OutputPiece & { readonly part: number };

/**
 * The pieces of an answer for a client that cannot take back what it has read.
 *
 * An answer that begins again repeats what was sent, if it is computed with the same seed. Such a
 * repetition is left out. An answer that differs from what was sent ends with stream_truncated:
 * its run continues, and the log has both.
 */
export async function* steady(
  pieces: AsyncIterable<Piece>,
): AsyncGenerator<PlacedPiece | AnswerEnd, void> {
  const sent = new Parts();
  let answer = sent;
  for await (const piece of pieces) {
    if (piece.type === 'restart') {
      if (sent.all.length > 0) answer = new Parts();
    } else if (piece.type === 'end') {
      if (answer !== sent && !answer.covers(sent)) throw differs();
      yield piece;
    } else if (answer === sent) {
      yield { ...piece, part: sent.add(piece) };
    } else {
      const place = answer.place(piece);
      answer.add(piece);
      const before = sent.lengthOf(place.part) - place.offset;
      if (!sent.agrees(place, piece)) throw differs();
      const { logprobs: _, ...rest } = piece;
      const fresh = before > 0 ? { ...rest, text: piece.text.slice(before) } : piece;
      if (before > 0 && fresh.text === '') continue;
      if (sent.place(fresh).part !== place.part) throw differs();
      yield { ...fresh, part: sent.add(fresh) };
    }
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
    this.all = grow(this.all, piece);
    return part;
  }

  place(piece: OutputPiece): Place {
    const part = partOf(this.all, piece);
    return { part, offset: this.lengthOf(part) };
  }

  lengthOf(part: number): number {
    const there = this.all[part];
    return there === undefined ? 0 : textOf(there).length;
  }

  /** Whether the piece says at its place what these parts say there, as far as they go. */
  agrees({ part, offset }: Place, piece: OutputPiece): boolean {
    const there = this.all[part];
    if (there === undefined) return part === this.all.length;
    if (there.type !== (piece.kind ?? 'text')) return false;
    if (there.type === 'tool_call' && there.id !== piece.call?.id) return false;
    const said = textOf(there).slice(offset);
    return said.startsWith(piece.text) || piece.text.startsWith(said);
  }

  /** Whether these parts have at least the text of the others. */
  covers({ all }: Parts): boolean {
    return all.every((part, index) => this.lengthOf(index) >= textOf(part).length);
  }
}

function differs(): SvcError {
  return new SvcError(
    'stream_truncated',
    'The answer was lost and began again, and now differs from what was sent.',
  );
}
