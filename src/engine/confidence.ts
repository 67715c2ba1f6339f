/**
 * Decides whether an answer of the built-in model is sent or replaced by "not sure". The model file
 * has the numbers.
 */
export interface ConfidenceRule {
  /** Number of first tokens to judge. A shorter answer is judged whole. */
  readonly tokens: number;
  /** Least geometric mean of their probabilities. */
  readonly minimum: number;
}

/**
 * Judges the probabilities of the chosen tokens, in order. `undecided` until there are enough
 * tokens, or `ended`.
 */
export function judge(
  rule: ConfidenceRule,
  probabilities: readonly number[],
  ended: boolean,
): 'accepted' | 'declined' | 'undecided' {
  if (rule.tokens <= 0) return 'accepted';
  if (probabilities.length < rule.tokens && !ended) return 'undecided';
  return confidence(rule, probabilities) >= rule.minimum ? 'accepted' : 'declined';
}

/** An answer without tokens has confidence 0. */
export function confidence(rule: ConfidenceRule, probabilities: readonly number[]): number {
  const judged = probabilities.slice(0, rule.tokens);
  if (judged.length === 0) return 0;
  return Math.exp(
    judged.reduce((sum, probability) => sum + Math.log(Math.max(probability, 1e-12)), 0) /
      judged.length,
  );
}
