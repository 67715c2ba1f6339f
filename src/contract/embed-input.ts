import * as v from 'valibot';
import { SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { checkText, checkWithoutNull, invalidRequest } from './check.ts';
import type { Price } from './events.ts';
import {
  count,
  flag,
  name,
  named,
  nonEmptyList,
  object,
  text,
  wholeFrom,
  withEarlyAbort,
  words,
} from './vocabulary.ts';

/** The input of a request for embeddings, and of a request that ranks documents. */

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
  checkTexts(input.texts, limits, param);
  return input;
}

/** Throws invalid_request, prompt_not_text, prompt_too_large. */
export function checkTexts(
  texts: readonly EmbedText[],
  limits: Pick<Limits, 'embed_texts' | 'embed_text_bytes'>,
  param: string,
): void {
  if (texts.length === 0) throw invalidRequest(param, `${param} must have at least one text.`);
  if (texts.length > limits.embed_texts)
    throw invalidRequest(
      param,
      `There are ${texts.length} texts; at most ${limits.embed_texts} are taken.`,
    );
  for (const [index, entry] of texts.entries()) {
    if (entry.length === 0)
      throw invalidRequest(`${param}.${index}`, `${param}.${index} must not be empty.`);
    if (typeof entry === 'string') checkText(`${param}.${index}`, entry);
  }
  const bytes = embedBytes(texts);
  if (bytes > limits.embed_text_bytes)
    throw new SvcError(
      'prompt_too_large',
      `The texts have ${bytes} bytes; at most ${limits.embed_text_bytes} are taken.`,
      { param, hint: 'Send fewer texts.' },
    );
}

const document = v.union([words, object({ text: words })], 'must be a text, or have a text.');
const DOCUMENTS_MAX = 1_000_000;

/** The form that the APIs of Jina, Cohere and llama-server share. */
export const rerankInput = named(
  'RerankInput',
  object({
    query: words,
    documents: withEarlyAbort(
      nonEmptyList(document, 'must be a list of texts.', 'must have at least one text.'),
    ),
    provider: v.nullish(name()),
    model: v.nullish(name()),
    cloud: v.nullish(flag),
    /** How many of the best documents to return. Absent: all. */
    top_n: v.nullish(wholeFrom(1, DOCUMENTS_MAX)),
    /** Each result has its document. Absent: false. */
    return_documents: v.nullish(flag),
  }),
);
export type RerankInput = v.InferOutput<typeof rerankInput>;

/** The documents, the best one first. */
export const reranking = named(
  'Reranking',
  object({
    object: v.literal('list'),
    /** `provider/name`. */
    model: text,
    results: v.array(
      object({
        /** The place of the document in the request. */
        index: count,
        relevance_score: v.number(),
        document: v.exactOptional(object({ text })),
      }),
    ),
    /** Absent: the provider does not count tokens. */
    usage: v.exactOptional(object({ prompt_tokens: count, total_tokens: count })),
  }),
);
export type Reranking = v.InferOutput<typeof reranking>;

const TOKEN_BYTES = 4;

/** Values of a request whose texts may be ids of tokens: each is one. Their bytes are bounded. */
export function valuesFor(
  { request_values }: Pick<Limits, 'request_values'>,
  bytes: number,
): number {
  return Math.max(request_values, bytes / TOKEN_BYTES);
}

/** The bytes of texts. The id of a token counts as about what its text has. */
export function embedBytes(texts: readonly EmbedText[]): number {
  return texts.reduce(
    (sum, text) =>
      sum + (typeof text === 'string' ? Buffer.byteLength(text) : TOKEN_BYTES * text.length),
    0,
  );
}

/** A request for embeddings at a cloud provider. Its texts are not recorded. */
export interface EmbeddingSent {
  request: string;
  /**
   * Absent: vectors. `reranking`: the texts are a query and the documents that it is for. Other
   * values: the request was passed on as it is.
   */
  purpose?: 'reranking' | 'transcription' | 'image';
  provider: string;
  model: string;
  /** How many texts, and their UTF-8 size together. */
  texts: number;
  bytes: number;
  /** By the size of the texts. */
  estimated_tokens: number;
  /** The price of its model. Absent: the model had no price. */
  price?: Price;
  client: string;
  /** Name of the token that the request was sent with. Absent: the token of the home. */
  asked_by?: string;
}

/** A text, or the ids of its tokens by the tokenizer of the requested model. */
export type EmbedText = string | readonly number[];

/** The vectors of some texts, in the order of the texts. */
export interface Embedding {
  vectors: number[][];
  /** Tokens of all texts together. Null: unknown. */
  input_tokens: number | null;
}
