import * as v from 'valibot';
import type { EmbeddingRecord } from '../../contract/contract.ts';
import { parseEmbedInput } from '../../contract/embed-input.ts';
import { flag, name, named, object, words } from '../../contract/vocabulary.ts';
import { sendLarge } from '../../transport/http/large.ts';
import type { Context } from '../../transport/http/route.ts';
import { clientGoneSignal, clientOf } from '../../transport/http/run-request.ts';
import { options, shared, toRequestError } from './parameters.ts';

/** POST /api/embed, and POST /api/embeddings, which is its earlier form for one text. */

const common = { model: name(), options: v.nullish(options), keep_alive: shared.keep_alive };

export const embedInput = named(
  'OllamaEmbedInput',
  object({
    ...common,
    /** Without texts the model is only looked up. */
    input: v.nullish(
      v.union(
        [words, v.array(words, 'must be a list of texts.')],
        'must be a text, or a list of texts.',
      ),
    ),
    dimensions: v.nullish(v.number('must be a whole number.')),
    /** A text that is too long is refused: an embedding of its beginning would be another one. */
    truncate: v.nullish(flag),
  }),
);
export const embeddingsInput = named(
  'OllamaEmbeddingsInput',
  object({ ...common, prompt: v.nullish(words) }),
);

export async function embed(
  context: Context<unknown, v.InferOutput<typeof embedInput>>,
): Promise<void> {
  const { model, input, dimensions } = await context.body();
  const begun = performance.now();
  const { vectors, input_tokens } = await vectorsOf(context, {
    model,
    texts: [input ?? []].flat(),
    ...(dimensions == null ? {} : { dimensions }),
  });
  await sendLarge(context, async () => ({
    model,
    embeddings: vectors,
    total_duration: Math.round((performance.now() - begun) * 1e6),
    load_duration: 0,
    ...(input_tokens === null ? {} : { prompt_eval_count: input_tokens }),
  }));
}

export async function embedOne(
  context: Context<unknown, v.InferOutput<typeof embeddingsInput>>,
): Promise<void> {
  const { model, prompt } = await context.body();
  const { vectors } = await vectorsOf(context, { model, texts: [prompt ?? []].flat() });
  await sendLarge(context, async () => ({ embedding: vectors[0] ?? [] }));
}

async function vectorsOf(
  context: Context,
  { model, ...rest }: { model: string; texts: string[]; dimensions?: number },
): Promise<Pick<EmbeddingRecord, 'vectors' | 'input_tokens'>> {
  try {
    if (rest.texts.length === 0) {
      await context.runtime.models.find(model);
      return { vectors: [], input_tokens: null };
    }
    const input = parseEmbedInput({ model, ...rest }, context.limits);
    const asker = { client: clientOf(context.req) };
    return await context.runtime.embeddings.embed(input, asker, clientGoneSignal(context));
  } catch (thrown) {
    throw toRequestError(thrown);
  }
}
