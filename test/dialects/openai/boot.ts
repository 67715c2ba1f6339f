import OpenAI, { type APIError } from 'openai';
import * as assert from 'uvu/assert';
import type { FinishReason } from '../../../src/contract/run.ts';
import type { AttemptRequest, OutputPart } from '../../../src/ports/providers.ts';
import { output } from '../../helpers/scripted-provider.ts';
import { TOKEN } from '../../transport/http/boot.ts';
import { bootReal, type Real } from '../../transport/http/real.ts';

/** The real listener and runtime, with the `openai` package as a client. */
export async function bootOpenai(
  options: Parameters<typeof bootReal>[0] = {},
): Promise<{ real: Real; client: OpenAI }> {
  const script = [output('Hello', 1), output(' you', 2), end()];
  const real = await bootReal({ script, ...options });
  return { real, client: clientOf(real) };
}

export const clientOf = (real: Real, apiKey = TOKEN) =>
  new OpenAI({ baseURL: `${real.url}/v1`, apiKey, maxRetries: 0 });
export const HI = [{ role: 'user' as const, content: 'Hi' }];
export const MODEL = 'local/svc-mini';
export const hi = { model: MODEL, messages: HI };

export function end(reason: FinishReason = 'stop'): OutputPart {
  const usage = { input_tokens: 3, output_tokens: 2, cached_tokens: 1 };
  return { type: 'finish', finish_reason: reason, usage };
}
export const call = (id: string, text: string): OutputPart => ({
  type: 'output',
  kind: 'tool_call',
  text,
  token_ids: [],
  call: { id, name: 'weather' },
});
export const think = (text: string): OutputPart => ({
  type: 'output',
  kind: 'reasoning',
  text,
  token_ids: [],
});
export const weather = {
  type: 'function' as const,
  function: {
    name: 'weather',
    description: 'Says the weather.',
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
  },
};
/** What the provider was asked last. */
export const asked = (real: Real) => (real.provider.asked.at(-1) as AttemptRequest).request;

export const errorOf = async (work: PromiseLike<unknown>) => {
  const thrown = await Promise.resolve(work).then(
    () => null,
    (error: unknown) => error,
  );
  assert.instance(thrown, OpenAI.APIError, String((thrown as Error | null)?.stack));
  const { status, code, param } = thrown as APIError;
  return [status, code, param];
};
