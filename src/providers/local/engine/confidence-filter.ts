import type { Token } from 'node-llama-cpp';
import { type ConfidenceRule, judge } from '../../mini/confidence.ts';

export interface ConfidenceFilter {
  /**
   * Returns the tokens to send now, or that the answer is declined. `ended`: no more tokens come.
   */
  accept(
    tokens: readonly Token[],
    probability: number | null,
    ended: boolean,
  ): readonly Token[] | 'declined';
}

/**
 * Buffers the first tokens of an answer until the rule judges them. Without a rule, sends all
 * tokens.
 */
export function createConfidenceFilter(rule: ConfidenceRule | null): ConfidenceFilter {
  if (rule === null) return { accept: (tokens) => tokens };
  const probabilities: number[] = [];
  let buffered: Token[] = [];
  let isOpen = false;
  return {
    accept(tokens, probability, ended) {
      if (isOpen) return tokens;
      buffered.push(...tokens);
      probabilities.push(probability ?? 0);
      const verdict = judge(rule, probabilities, ended);
      if (verdict === 'declined') return 'declined';
      if (verdict === 'undecided') return [];
      isOpen = true;
      const released = buffered;
      buffered = [];
      return released;
    },
  };
}
