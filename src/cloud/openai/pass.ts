import { SvcError } from '../../errors.ts';
import { asRecord, parseForeignJson } from '../../json.ts';
import type { PassedRequest } from '../../ports/providers.ts';
import { streamFailure } from '../remote/connection-failure.ts';
import { tokensSoFar } from '../remote/embed-request.ts';
import type { Listing } from '../remote/list-models.ts';
import { readSecrets } from '../remote/read-secrets.ts';
import type { Exchange } from '../remote/upstream.ts';
import { withoutSplitKey } from './passed-events.ts';
import { keyHeader, settingHeaders } from './request-headers.ts';

/**
 * Passes a request to a server of OpenAI's API, and its answer on as it comes. Throws SvcError.
 * After an abort it closes the connection and throws.
 */
export async function passOn(
  remote: Listing,
  exchange: Exchange,
  { path, model, content_type, body, texts, take }: PassedRequest,
  signal: AbortSignal,
): Promise<{ input_tokens: number | null }> {
  const { config } = remote;
  const secrets = await readSecrets(remote, texts);
  let ended: 'complete' | 'broken' = 'broken';
  try {
    const { headers, body: answer } = await exchange.send({
      method: 'POST',
      url: `${config.base_url}${path}`,
      headers: {
        ...settingHeaders(config),
        'content-type': content_type,
        ...keyHeader(config, secrets.key),
      },
      body,
      model,
      secrets,
      signal,
    });
    const kept: Uint8Array[] = [];
    const { 'content-type': type = '' } = headers;
    const { passed_answer_bytes, provider_answer_bytes } = remote.limits;
    const shown = type.includes('event-stream')
      ? withoutSplitKey(answer, secrets.key, provider_answer_bytes)
      : answer;
    await take({ content_type: type, body: keepShortAnswer(shown, kept, passed_answer_bytes) });
    ended = 'complete';
    const { usage } = asRecord(parseForeignJson(Buffer.concat(kept).toString()));
    return { input_tokens: tokensSoFar(0, asRecord(usage).input_tokens) };
  } catch (thrown) {
    throw signal.aborted ? thrown : toPathFailure(streamFailure(thrown), path);
  } finally {
    await exchange.end(ended);
  }
}

/** Keeps a short answer, which may be JSON with the tokens of the request. */
async function* keepShortAnswer(
  body: AsyncIterable<Uint8Array>,
  kept: Uint8Array[],
  bytesMax: number,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.length;
    if (bytes <= bytesMax) kept.push(piece);
    else kept.length = 0;
    yield piece;
  }
}

/** A server without a path lacks the capability of that path. */
export function toPathFailure(failure: SvcError, path: string): SvcError {
  if (failure.code !== 'provider_not_found') return failure;
  return new SvcError('capability_missing', `The provider has no path ${path} at its base_url.`, {
    param: 'model',
    cause: failure,
  });
}
