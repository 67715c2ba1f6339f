import * as v from 'valibot';
import type { EmbeddingRecord } from '../../contract/contract.ts';
import { embedInput, parseEmbedInput, valuesFor } from '../../contract/embed-input.ts';
import {
  count,
  name,
  named,
  nonEmptyList,
  object,
  oneOf,
  text,
  withEarlyAbort,
  words,
} from '../../contract/vocabulary.ts';
import { sendLarge } from '../../transport/http/large.ts';
import { type Context, type Route, route } from '../../transport/http/route.ts';
import { answerEndSignal, clientOf } from '../../transport/http/run-request.ts';
import { textsOf, tokens } from './parameters.ts';

/** The body of POST /v1/embeddings. */
export const embeddingsInput = named(
  'EmbeddingsInput',
  object({
    input: withEarlyAbort(
      v.union(
        [
          words,
          tokens,
          nonEmptyList(tokens, 'must be a list of lists.', 'must have at least one list.'),
          nonEmptyList(words, 'must be a list of texts.', 'must have at least one text.'),
        ],
        'must be a text, a list of texts, or ids of tokens.',
      ),
    ),
    model: name(),
    /** `base64`: 32-bit floats, little endian. */
    encoding_format: v.nullish(oneOf(['float', 'base64'])),
    dimensions: embedInput.entries.dimensions,
    /** The field has no effect on the vectors. */
    user: v.nullish(text),
  }),
);
type EmbeddingsInput = v.InferOutput<typeof embeddingsInput>;

const embeddingsAnswer = named(
  'Embeddings',
  object({
    object: v.literal('list'),
    data: v.array(
      object({
        object: v.literal('embedding'),
        index: count,
        embedding: v.union([v.array(v.number()), text]),
      }),
    ),
    model: text,
    /** Absent: the provider does not count tokens. */
    usage: v.exactOptional(object({ prompt_tokens: count, total_tokens: count })),
  }),
);

export const embeddingsRoute: Route = route({
  method: 'POST',
  path: '/v1/embeddings',
  access: 'token',
  summary: 'OpenAI: the vectors of texts. Starts no run, and keeps no text.',
  body: embeddingsInput,
  unknownFields: 'may refuse',
  answers: { 200: embeddingsAnswer },
  answer: createEmbeddings,
});

async function createEmbeddings(context: Context<unknown, EmbeddingsInput>): Promise<void> {
  const { req, res, runtime, limits } = context;
  const request = await context.body({ values: valuesFor(limits, limits.embed_text_bytes) });
  const { model, dimensions } = request;
  const texts = textsOf(request.input);
  const wanted = parseEmbedInput({ texts, model, dimensions }, limits, 'input');
  const asker = { client: clientOf(req) };
  const embedding = await runtime.embeddings
    .embed(wanted, asker, answerEndSignal(context))
    .catch((error: unknown) => {
      if (res.destroyed) return null;
      throw error;
    });
  if (embedding === null) return;
  await sendLarge(context, async () => answerOf(embedding, request.encoding_format ?? 'float'));
}

function answerOf(
  { vectors, input_tokens, provider, model }: EmbeddingRecord,
  format: 'float' | 'base64',
): v.InferOutput<typeof embeddingsAnswer> {
  return {
    object: 'list',
    data: vectors.map((vector, index) => ({
      object: 'embedding',
      index,
      embedding: format === 'float' ? vector : toBase64(vector),
    })),
    model: `${provider}/${model}`,
    ...(input_tokens === null
      ? {}
      : { usage: { prompt_tokens: input_tokens, total_tokens: input_tokens } }),
  };
}

function toBase64(vector: readonly number[]): string {
  const bytes = Buffer.alloc(vector.length * FLOAT_BYTES);
  for (const [at, number] of vector.entries()) bytes.writeFloatLE(number, at * FLOAT_BYTES);
  return bytes.toString('base64');
}

const FLOAT_BYTES = 4;
