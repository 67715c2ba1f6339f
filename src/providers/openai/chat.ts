import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import type { RunRequest } from '../../../machines/messages.ts';
import { SvcError } from '../../errors.ts';
import { parseForeignJson } from '../../json.ts';
import type { Limits } from '../../limits.ts';
import { callOptions } from '../remote/call-options.ts';
import { guardEvents } from '../remote/events.ts';
import { toFailure } from '../remote/failure.ts';
import { isStrict } from '../remote/strict-schema.ts';
import type { Exchange } from '../remote/upstream.ts';
import { parseUpstreamError, type Secrets } from '../remote/upstream-error.ts';
import { adaptBody } from './body.ts';
import { type AddressedConfig, keyHeaders } from './request-headers.ts';
import { wholeAnswer } from './whole-answer.ts';

export interface Chat {
  id: string;
  config: AddressedConfig;
  limits: Limits;
  exchange: Exchange;
  request: RunRequest;
  model: string;
  secrets: Secrets;
}

/**
 * Sends the request and returns the AI SDK's stream of the answer. The SDK builds the request and
 * parses the events; the connection is ours.
 */
export async function openChat(
  chat: Chat,
  signal: AbortSignal,
): Promise<ReadableStream<LanguageModelV4StreamPart>> {
  const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
  const { id, config, request, model } = chat;
  const provider = createOpenAICompatible({
    name: id,
    baseURL: config.base_url,
    includeUsage: true,
    supportsStructuredOutputs: true,
    fetch: (url, init) => fetchEvents(chat, signal, String(url), init),
    transformRequestBody: adaptBody(config, request),
  });
  const { stream } = await provider.chatModel(model).doStream({
    ...callOptions(request),
    providerOptions: {
      openaiCompatible: { strictJsonSchema: isStrict(request.response_format?.schema ?? null) },
    },
    includeRawChunks: true,
    abortSignal: signal,
  });
  return stream;
}

async function fetchEvents(
  { config, limits, exchange, model, secrets }: Chat,
  signal: AbortSignal,
  url: string,
  init: RequestInit = {},
): Promise<Response> {
  const { body } = await exchange.send({
    method: 'POST',
    url,
    headers: keyHeaders(config, secrets.key, init.headers),
    body: String(init.body),
    model,
    secrets,
    signal,
  });
  const read = (text = '') => {
    const answer = wholeAnswer(parseForeignJson(text));
    if (answer === null) throw notEvents(text, { key: config.key, model }, secrets);
    return answer;
  };
  return new Response(body?.pipeThrough(guardEvents(limits, read)) ?? '');
}

/** A success without a stream: an error without its status, or another kind of server. */
function notEvents(
  text: string,
  asked: { key: string | null; model: string },
  secrets: Secrets,
): SvcError {
  const reported = parseUpstreamError(parseForeignJson(text), secrets);
  if (reported.message !== null) return toFailure(reported, asked);
  return new SvcError(
    'provider_rejected',
    'The provider answers, but not with an answer of a model; a base_url usually ends in /v1.',
    {
      retryable: false,
    },
  );
}
