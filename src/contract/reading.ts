import * as v from 'valibot';

/** How a model reads a text: its tokens, and how likely each of them is. It makes no answer. */

const id = v.pipe(v.number(), v.integer(), v.minValue(0));
const token = {
  id,
  text: v.string(),
  /** The bytes of a token that is only a part of a character. */
  bytes: v.exactOptional(v.array(v.number())),
};
const likely = v.object({ ...token, logprob: v.number() });

export const reading = v.object({
  text: v.string(),
  tokens: v.array(
    v.object({
      ...token,
      /** Absent: not asked for, or the first token, which follows nothing. */
      logprob: v.exactOptional(v.number()),
      /** The likeliest tokens in its place, the likeliest one first. */
      top: v.exactOptional(v.array(likely)),
    }),
  ),
  /** The likeliest tokens after the text. */
  next: v.exactOptional(v.array(likely)),
});
export type Reading = v.InferOutput<typeof reading>;
export type ReadToken = Reading['tokens'][number];

/** How a text becomes tokens. */
export interface ReadOptions {
  /** As a prompt: after the token with which the model file begins one. */
  begins: boolean;
  /** Control tokens in the text are read. Otherwise they are text. */
  control: boolean;
  /** The probabilities of the tokens, with so many of the likeliest ones. Null: none. */
  top: number | null;
}

/** How a prompt becomes tokens. */
export const AS_PROMPT = { begins: true, control: true } as const;
