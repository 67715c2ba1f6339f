import type { Token } from 'node-llama-cpp';
import { type ConfidenceRule, judge } from '../../mini/confidence.ts';

export interface Gate {
  /** The tokens that may go out now, or that the answer is declined. `over`: no more come. */
  pass(
    tokens: readonly Token[],
    probability: number | null,
    over: boolean,
  ): readonly Token[] | 'declined';
}

/** Holds the first tokens of an answer until they are judged; without a rule everything passes. */
export function openGate(rule: ConfidenceRule | null): Gate {
  if (rule === null) return { pass: (tokens) => tokens };
  const probabilities: number[] = [];
  let held: Token[] = [];
  let open = false;
  return {
    pass(tokens, probability, over) {
      if (open) return tokens;
      held.push(...tokens);
      probabilities.push(probability ?? 0);
      const verdict = judge(rule, probabilities, over);
      if (verdict === 'declined') return 'declined';
      if (verdict === 'undecided') return [];
      open = true;
      const released = held;
      held = [];
      return released;
    },
  };
}
