import type { ConfidenceRule } from '../../src/engine/confidence.ts';
import { confidence } from '../../src/engine/confidence.ts';
import type { Answer } from './ask.ts';
import { inventions } from './inventions.ts';
import type { Question } from './questions.ts';

export interface Grade {
  readonly question: Question;
  readonly answer: Answer;
  /** What is said with the gate: the answer, or the sentence that the model is not sure. */
  readonly unsure: boolean;
  readonly right: boolean;
  readonly rightGated: boolean;
  readonly invented: readonly string[];
}

const declinePrefix = 'I am svc-mini, the small model built into svc, and';

/**
 * An unsure answer to a foreign question counts as declined, one to a question about svc as wrong.
 */
export function grade(
  rule: ConfidenceRule,
  fallback: string,
  question: Question,
  answer: Answer,
): Grade {
  const unsure = confidence(rule, answer.probabilities) < rule.minimum;
  const right = answer.ended && isRight(question, answer.text);
  const said = unsure ? fallback : answer.text;
  return {
    question,
    answer,
    unsure,
    right,
    rightGated: (unsure || answer.ended) && isRight(question, said),
    invented: inventions(said),
  };
}

function isRight({ needed }: Question, text: string): boolean {
  if (needed.length === 0) return text.startsWith(declinePrefix);
  return (
    !text.startsWith(declinePrefix) &&
    needed.every((alternatives) => alternatives.some((part) => text.includes(part)))
  );
}
