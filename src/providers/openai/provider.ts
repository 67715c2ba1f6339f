import type { MessagePart } from '../../../machines/messages.ts';
import { textOf } from '../../../machines/messages.ts';
import { SvcError } from '../../errors.ts';
import { readBounded } from '../../http-client/bounded-body.ts';
import { parseForeignJson } from '../../json.ts';
import type { Limits } from '../../limits.ts';
import type { ProviderKeys } from '../keys/port.ts';
import type { AttemptRequest, ModelRecord, OutputPart, ProviderPort } from '../port.ts';
import { readAnswer } from './answer.ts';
import { openChat } from './chat.ts';
import { streamFailure } from './connection-failure.ts';
import { embedTexts } from './embed.ts';
import { readModels } from './models.ts';
import { type AddressedConfig, Exchange, Upstream } from './upstream.ts';

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
  const models = (signal: AbortSignal) => listModels(options, new Exchange(upstream), signal);
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
  const model = request.model || config.model;
  if (model === null)
    throw new SvcError('model_unknown', 'No model is named, and the provider has no default one.', {
      retryable: false,
    });
  const secrets = {
    key: await keys.read(config),
    texts: request.messages.flatMap(({ content }) => content.map(secretOf)),
  };
  let ended: 'complete' | 'broken' = 'broken';
  try {
    const stream = await openChat(
      { id, config, limits, exchange, request, model, secrets },
      signal,
    );
    const asked = { run_id, key: config.key, model, request, secrets, limits };
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

/** What no message may repeat of a part. */
function secretOf(part: MessagePart): string {
  return part.type === 'image' ? part.data : textOf(part);
}

/** The models that the server lists. Empty for a server without a list. */
async function listModels(
  { id, config, keys, limits }: RemoteOptions,
  exchange: Exchange,
  signal: AbortSignal,
): Promise<ModelRecord[]> {
  const secrets = { key: await keys.read(config), texts: [] };
  let ended: 'complete' | 'broken' = 'broken';
  try {
    const body = await exchange.send({
      method: 'GET',
      url: `${config.base_url}/models`,
      model: null,
      secrets,
      signal,
    });
    const text = await readBounded(body, limits.provider_list_bytes);
    if (text === null)
      throw new SvcError(
        'provider_failed',
        `The provider lists more than the daemon takes (${limits.provider_list_bytes} bytes).`,
        {
          retryable: false,
        },
      );
    ended = 'complete';
    return readModels(parseForeignJson(text), {
      provider: id,
      model: config.model,
      modelsMax: limits.provider_models,
    });
  } catch (thrown) {
    if (signal.aborted)
      throw new SvcError(
        'provider_unreachable',
        `The provider at ${config.base_url} does not answer in time.`,
        { retryable: true },
      );
    if (thrown instanceof SvcError && thrown.status !== null && NO_LIST_STATUSES.has(thrown.status))
      return [];
    throw streamFailure(thrown);
  } finally {
    await exchange.end(ended);
  }
}

/** Statuses of a server that has no list of models. It can answer prompts all the same. */
const NO_LIST_STATUSES = new Set([404, 405, 501]);
