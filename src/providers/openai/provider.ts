import type { Limits } from '../../limits.ts';
import type { ProviderKeys } from '../keys/port.ts';
import type { AttemptRequest, OutputPart, ProviderPort } from '../port.ts';
import { askedModel } from '../remote/asked-model.ts';
import { streamFailure } from '../remote/connection-failure.ts';
import { listModels } from '../remote/list-models.ts';
import { readEvents } from '../remote/read-events.ts';
import { readSecrets } from '../remote/read-secrets.ts';
import { RequestForms } from '../remote/request-form.ts';
import { secretTexts } from '../remote/secret-texts.ts';
import { Exchange, Upstream } from '../remote/upstream.ts';
import { chatBody } from './body.ts';
import { ChatAnswer } from './chat-answer.ts';
import { embedTexts } from './embed.ts';
import { type AddressedConfig, JSON_TYPE, keyHeader, settingHeaders } from './request-headers.ts';

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
  const forms = new RequestForms();
  const models = (signal: AbortSignal) =>
    listModels(
      options,
      new Exchange(upstream),
      {
        url: `${options.config.base_url}/models`,
        headers: (key) =>
          new Headers({ ...settingHeaders(options.config), ...keyHeader(options.config, key) }),
      },
      signal,
    );
  return {
    id: options.id,
    stream: (attempt, signal) =>
      streamAnswer({ ...options, forms }, new Exchange(upstream), attempt, signal),
    models,
    probe: async (signal) => ({ models: (await models(signal)).map(({ name }) => name) }),
    embedsTokens: true,
    embed: (model, texts, asked, signal) =>
      embedTexts(options, new Exchange(upstream), { model, texts, options: asked }, signal),
    close: () => upstream.connections.close(),
  };
}

/**
 * Streams one answer: what came in one read goes on together. After an abort it closes the
 * connection, then ends without a `finish` part.
 */
async function* streamAnswer(
  options: RemoteOptions & { forms: RequestForms },
  exchange: Exchange,
  { run_id, request }: AttemptRequest,
  signal: AbortSignal,
): AsyncGenerator<OutputPart> {
  const { config, limits, forms } = options;
  const model = askedModel(request, config);
  const plain = chatBody(config, model, request);
  const secrets = await readSecrets(options, secretTexts(request));
  const asked = { run_id, key: secrets.place, model, request, secrets, limits };
  let ended: 'complete' | 'broken' = 'broken';
  try {
    const answered = await exchange.send({
      method: 'POST',
      url: `${config.base_url}/chat/completions`,
      headers: { ...settingHeaders(config), ...JSON_TYPE, ...keyHeader(config, secrets.key) },
      body: forms.body(model, plain),
      model,
      secrets,
      signal,
      instead: forms.instead(model, plain),
    });
    for await (const part of readEvents(answered.body, new ChatAnswer(asked), asked)) {
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
