import type { LanguageModelV4CallOptions } from '@ai-sdk/provider';
import type { RunRequest } from '../../../machines/messages.ts';
import { promptOf, systemOf } from '../../../machines/messages.ts';
import type { ProviderConfig } from '../../config/provider.ts';

/**
 * Converts a run for the AI SDK. Only an explicit seed is sent: some servers refuse unknown
 * parameters.
 */
export function callOptions({
  messages,
  max_tokens,
  temperature,
  seed,
  seed_asked,
}: RunRequest): LanguageModelV4CallOptions {
  const system = systemOf({ messages });
  return {
    prompt: [
      ...(system === null ? [] : [{ role: 'system', content: system } as const]),
      { role: 'user', content: [{ type: 'text', text: promptOf({ messages }) }] },
    ],
    ...(max_tokens === null ? {} : { maxOutputTokens: max_tokens }),
    ...(temperature === null ? {} : { temperature }),
    ...(seed_asked ? { seed } : {}),
  };
}

/** OpenAI's newer models refuse `max_tokens`; all other servers know only that name. */
export function adaptBody({
  base_url,
}: ProviderConfig): ((body: Record<string, unknown>) => Record<string, unknown>) | null {
  if (new URL(base_url).hostname !== 'api.openai.com') return null;
  return ({ max_tokens, ...body }) =>
    max_tokens === undefined ? body : { ...body, max_completion_tokens: max_tokens };
}
