import type { Limits } from '../../limits.ts';
import type { ProviderKeys } from '../keys/port.ts';
import type { AttemptRequest, OutputPart, ProviderPort } from '../port.ts';
import { readAnswer } from '../remote/answer.ts';
import { askedModel } from '../remote/asked-model.ts';
import { streamFailure } from '../remote/connection-failure.ts';
import { listModels } from '../remote/list-models.ts';
import { secretTexts } from '../remote/secret-texts.ts';
import { Exchange, Upstream } from '../remote/upstream.ts';
import { openChat } from './chat.ts';
import { readChunk } from './chunk.ts';
import { embedTexts } from './embed.ts';
import { type AddressedConfig, keyHeaders } from './request-headers.ts';

export interface RemoteOptions {
  id: string;
  config: AddressedConfig;
  env: NodeJS.ProcessEnv;
  keys: ProviderKeys;
  limits: Limits;
}

/**
 * Creates the provider for a server with OpenAI's chat completions. It loads and opens nothing
 * before the first request.
 */
export function createRemoteProvider(options: RemoteOptions): ProviderPort {
  const upstream = new Upstream(options.config, options.env, options.limits);
  const models = (signal: AbortSignal) =>
    listModels(
      options,
      new Exchange(upstream),
      {
        url: `${options.config.base_url}/models`,
        headers: (key) => keyHeaders(options.config, key),
      },
      signal,
    );
  return {
    id: options.id,
    stream: (attempt, signal) => streamAnswer(options, new Exchange(upstream), attempt, signal),
    models,
    probe: async (signal) => ({ models: (await models(signal)).map(({ name }) => name) }),
    embed: (model, texts, asked, signal) =>
      embedTexts(options, new Exchange(upstream), { model, texts, options: asked }, signal),
    close: () => upstream.connections.close(),
  };
}

/**
 * Streams one answer. After an abort it closes the connection, then ends without a `finish` part.
 */
async function* streamAnswer(
  { id, config, keys, limits }: RemoteOptions,
  exchange: Exchange,
  { run_id, request }: AttemptRequest,
  signal: AbortSignal,
): AsyncGenerator<OutputPart> {
  const model = askedModel(request, config);
  const secrets = {
    key: await keys.read(config),
    texts: secretTexts(request),
  };
  let ended: 'complete' | 'broken' = 'broken';
  try {
    const stream = await openChat(
      { id, config, limits, exchange, request, model, secrets },
      signal,
    );
    const asked = { run_id, key: config.key, model, request, readRaw: readChunk, secrets, limits };
    for await (const part of readAnswer(stream, asked)) {
      if (signal.aborted) return;
      yield part;
    }
    ended = 'complete';
  } catch (thrown) {
    if (!signal.aborted) throw streamFailure(thrown);
  } finally {
    await exchange.end(ended);
  }
}
