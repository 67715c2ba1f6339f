import type { LanguageModelV4CallOptions } from '@ai-sdk/provider';
import type { RunRequest } from '../../../machines/events.ts';
import type { ProviderConfig } from '../../config.ts';

/**
 * A run as the AI SDK takes it. The seed goes to servers on this machine only: every run has one, whether it was asked for or
 * not, and some clouds refuse a request with a parameter that they do not know.
 */
export function callOptions({ prompt, system, max_tokens, temperature, seed }: RunRequest, { kind }: ProviderConfig): LanguageModelV4CallOptions {
  return {
    prompt: [...(system === null ? [] : [{ role: 'system', content: system } as const]), { role: 'user', content: [{ type: 'text', text: prompt }] }],
    ...(max_tokens === null ? {} : { maxOutputTokens: max_tokens }),
    ...(temperature === null ? {} : { temperature }),
    ...(kind === 'local' ? { seed } : {}),
  };
}

/** OpenAI's newer models refuse the old name of this parameter; every other server knows only that one. */
export function adaptBody({ base_url }: ProviderConfig): ((body: Record<string, unknown>) => Record<string, unknown>) | null {
  if (new URL(base_url).hostname !== 'api.openai.com') return null;
  return ({ max_tokens, ...body }) => (max_tokens === undefined ? body : { ...body, max_completion_tokens: max_tokens });
}
