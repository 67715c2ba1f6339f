/**
 * Whether an answer of the built-in model is kept or replaced by a sentence that says it is not sure.
 * The model file carries the numbers: how many first tokens are judged, and the least they must reach.
 */
export interface ConfidenceRule {
  /** How many of the first tokens are judged; a shorter answer is judged whole. */
  readonly tokens: number;
  /** Least geometric mean of their probabilities. */
  readonly minimum: number;
}

/** Takes the probability of each chosen token, in order. Waits with `undecided` until enough tokens are there or `ended`. */
export function judge(
  rule: ConfidenceRule,
  probabilities: readonly number[],
  ended: boolean,
): 'accepted' | 'declined' | 'undecided' {
  if (rule.tokens <= 0) return 'accepted';
  if (probabilities.length < rule.tokens && !ended) return 'undecided';
  return confidence(rule, probabilities) >= rule.minimum ? 'accepted' : 'declined';
}

/** An answer without a single token has no confidence. */
export function confidence(rule: ConfidenceRule, probabilities: readonly number[]): number {
  const judged = probabilities.slice(0, rule.tokens);
  if (judged.length === 0) return 0;
  return Math.exp(
    judged.reduce((sum, probability) => sum + Math.log(Math.max(probability, 1e-12)), 0) /
      judged.length,
  );
}
