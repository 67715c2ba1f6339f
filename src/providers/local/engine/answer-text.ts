import { SvcError } from '../../../errors.ts';
import { TokenText } from './token-text.ts';

/**
 * The text of an answer, which may continue an earlier one.
 *
 * 1. The earlier text and the returned text together are the text of all tokens, without gaps or
 *    repeats.
 */
export class AnswerText extends TokenText<number> {
  /** Characters of the earlier text that are not yet returned here. */
  private ahead = 0;

  /**
   * Continues after the given tokens and text. Returns the text that was not delivered yet.
   * Throws resume_failed if the tokens do not belong to this model.
   */
  resume(
    { token_ids, text: delivered }: { token_ids: readonly number[]; text: string },
    vocabulary: number,
  ): string {
    if (vocabulary > 0 && token_ids.some((id) => id >= vocabulary))
      throw new SvcError('resume_failed');
    const whole = token_ids.map((id) => this.push([id])).join('');
    if (!whole.startsWith(delivered) && !delivered.startsWith(whole))
      throw new SvcError('resume_failed');
    this.ahead = Math.max(0, delivered.length - whole.length);
    return whole.slice(delivered.length);
  }

  override push(tokens: readonly number[]): string {
    return this.undelivered(super.push(tokens));
  }

  override end(): string {
    return this.undelivered(super.end());
  }

  private undelivered(text: string): string {
    const fresh = text.slice(this.ahead);
    this.ahead -= text.length - fresh.length;
    return fresh;
  }
}
