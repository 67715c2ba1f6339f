/** The tokens of a model. */
export interface Vocabulary {
  /** How many there are. */
  vocabulary: number;
  tokens: { bos: number | null; eos: number | null };
  /** How the file spells a token. */
  textOf(token: number): string;
}

/**
 * Why one model cannot guess the tokens of another one. Null: they have the same. The larger one
 * may have more of them at its end: models pad their vocabularies.
 */
export function vocabularyProblem(one: Vocabulary, other: Vocabulary): string | null {
  const problem = 'it has another vocabulary';
  const least = Math.min(one.vocabulary, other.vocabulary);
  if (Math.max(one.vocabulary, other.vocabulary) - least > PADDED_MOST) return problem;
  if (one.tokens.bos !== other.tokens.bos || one.tokens.eos !== other.tokens.eos) return problem;
  for (let token = 0; token < least; token += 1)
    if (one.textOf(token) !== other.textOf(token)) return problem;
  return null;
}

/** As llama.cpp has it. */
const PADDED_MOST = 128;
