import type { Piece } from '../../../../../machines/messages.ts';
import { SvcError } from '../../../../errors.ts';
import { type Delivered, Delivery } from './delivery.ts';
import { type AnswerForm, Reader } from './reader.ts';
import { type Detokenize, TokenText } from './token-text.ts';

export interface AnswerOptions {
  form: AnswerForm;
  detokenize: Detokenize<number>;
  /** The text of a control token. Null: the token is of text. */
  controlText(token: number): string | null;
  /** What was delivered before the answer was cut off. */
  delivered: Delivered | null;
}

/**
 * The pieces of an answer, from its tokens.
 *
 * 1. An answer that continues is read again from its first token. Only what was not delivered yet
 *    is returned.
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

  /** Throws resume_failed if the tokens do not spell what was delivered. */
  push(token: number): readonly Piece[] {
    const wasReasoning = this.reader.isReasoning;
    const pieces = this.fresh(this.reader.push(this.text.push([token])));
    const control = this.controlText(token);
    const all =
      control === null ? pieces : [...pieces, ...this.fresh(this.reader.push(control, true))];
    if (wasReasoning || this.reader.isReasoning) this.reasoningTokens += 1;
    return all;
  }

  end(): readonly Piece[] {
    return [...this.fresh(this.reader.push(this.text.end())), ...this.fresh(this.reader.end())];
  }

  private fresh(pieces: readonly Piece[]): readonly Piece[] {
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
