import * as v from 'valibot';
import { SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { EmbedText } from '../providers/port.ts';
import { checkText, checkWithoutNull, wrong } from './check.ts';
import { count, flag, name, object, text, wholeFrom } from './vocabulary.ts';

/** What a request for embeddings holds. */

/** Longest vector that a request may ask for. */
const DIMENSIONS_MAX = 65_536;

export const embedInput = object({
  /** A text may be the ids of its tokens. */
  texts: v.array(v.union([text, v.array(count)]), 'must be a list of texts.'),
  provider: v.nullish(name()),
  model: v.nullish(name()),
  cloud: v.nullish(flag),
  /** The length of each vector. The default is the model's. */
  dimensions: v.nullish(wholeFrom(1, DIMENSIONS_MAX)),
});
export type EmbedInput = v.InferOutput<typeof embedInput>;

/**
 * Throws invalid_request, prompt_not_text, prompt_too_large. `param`: what the client calls the
 * texts.
 */
export function parseEmbedInput(
  value: unknown,
  limits: Pick<Limits, 'embed_texts' | 'embed_text_bytes'>,
  param = 'texts',
): EmbedInput {
  const input = checkWithoutNull(embedInput, value);
  const { texts } = input;
  if (texts.length === 0) throw wrong(param, `${param} must have at least one text.`);
  if (texts.length > limits.embed_texts)
    throw wrong(param, `There are ${texts.length} texts; at most ${limits.embed_texts} are taken.`);
  for (const [index, said] of texts.entries()) {
    if (said.length === 0) throw wrong(`${param}.${index}`, `${param}.${index} must not be empty.`);
    if (typeof said === 'string') checkText(`${param}.${index}`, said);
  }
  const bytes = embedBytes(texts);
  if (bytes > limits.embed_text_bytes)
    throw new SvcError(
      'prompt_too_large',
      `The texts have ${bytes} bytes; at most ${limits.embed_text_bytes} are taken.`,
      { param, hint: 'Send fewer texts.' },
    );
  return input;
}

export const TOKEN_BYTES = 4;
/** The bytes of texts. The id of a token counts as about what its text has. */
export function embedBytes(texts: readonly EmbedText[]): number {
  return texts.reduce(
    (sum, text) =>
      sum + (typeof text === 'string' ? Buffer.byteLength(text) : TOKEN_BYTES * text.length),
    0,
  );
}
