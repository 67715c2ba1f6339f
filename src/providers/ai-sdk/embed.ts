import { SvcError } from '../../errors.ts';
import type { Embedding } from '../port.ts';
import { type EmbedRequest, tokensSoFar } from '../remote/embed-request.ts';
import type { Listing } from '../remote/list-models.ts';
import { readSecrets } from '../remote/read-secrets.ts';
import { requestFailure } from '../remote/sdk-error.ts';
import type { Upstream } from '../remote/upstream.ts';
import type { Adapter } from './adapter.ts';
import { SdkFetch } from './fetch.ts';

/** Texts of one request where the package names no bound. */
const BATCH_TEXTS = 96;

/** Asks for vectors, one batch after the other. Throws SvcError; after an abort, anything. */
export async function embedTexts(
  listing: Listing,
  adapter: Adapter,
  upstream: Upstream,
  { texts, options: { dimensions }, ...asked }: EmbedRequest,
  signal: AbortSignal,
): Promise<Embedding> {
  const model = adapter.named(asked.model);
  const secrets = await readSecrets(listing, texts);
  const asking = { key: secrets.place, model, secrets };
  const providerOptions = dimensions === undefined ? {} : adapter.dimensions(dimensions);
  const sdk = new SdkFetch(upstream, asking, { expected: 'whole' }, signal);
  const vectors: number[][] = [];
  let input_tokens: number | null = 0;
  try {
    const provider = await adapter.provider(secrets.key, sdk.fetch);
    const embedding = provider.embeddingModel?.(model);
    if (embedding === undefined)
      throw new SvcError('capability_missing', 'The provider computes no embeddings.');
    const batch = Math.min((await embedding.maxEmbeddingsPerCall) ?? BATCH_TEXTS, BATCH_TEXTS);
    for (let from = 0; from < texts.length; from += batch) {
      const values = texts.slice(from, from + batch);
      const { embeddings, usage } = await embedding.doEmbed({
        values,
        providerOptions,
        abortSignal: signal,
      });
      if (embeddings.length !== values.length)
        throw new SvcError(
          'provider_failed',
          `The provider answers with ${embeddings.length} vectors for ${values.length} texts.`,
          { retryable: false },
        );
      vectors.push(...embeddings);
      input_tokens = tokensSoFar(input_tokens, usage?.tokens);
    }
    return { vectors, input_tokens };
  } catch (thrown) {
    throw signal.aborted ? thrown : requestFailure(thrown, asking);
  } finally {
    await sdk.end();
  }
}
