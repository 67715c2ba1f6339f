import { SvcError } from '../../../errors.ts';
import { TokenText } from './token-text.ts';

/**
 * The text of an answer, which may have been begun before.
 *
 * 1. What was delivered before and what is returned here are together the text of all tokens: nothing is missing, nothing comes twice.
 */
export class AnswerText extends TokenText<number> {
  /** Characters that were delivered before, of text that is not returned yet: the answer had come to its end. */
  private ahead = 0;

  /**
   * Brings the text up to where the answer was cut off; returns what of it was not delivered. Throws resume_failed when the
   * recorded tokens are not this model's.
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
