import type { FinishReason, Usage } from '../../../machines/run/context.ts';
import { sumOfUsage } from '../../../machines/run/turns.ts';
import type { RunRecord } from '../../contract/contract.ts';
import type { TokenLogprob } from '../../contract/messages/parts.ts';
import { type ErrorBody, SvcError } from '../../errors.ts';
import type { Envelope } from '../../transport/http-error.ts';
import type { LiveOptions } from '../../transport/stream/live.ts';

/** Parts that several answers of OpenAI share. */

/** The model's name, in the form of GET /v1/models. */
export function modelOf({ provider, model }: Pick<RunRecord, 'provider' | 'model'>): string {
  return `${provider}/${model}`;
}

export function secondsOf({ created_at }: Pick<RunRecord, 'created_at'>): number {
  return Math.floor(Date.parse(created_at) / 1000);
}

/** OpenAI has no word for a reason that svc does not know. */
export function finishOf(reason: FinishReason, calls: number): string {
  const known = reason === 'other' ? 'stop' : reason;
  return known === 'stop' && calls > 0 ? 'tool_calls' : known;
}

/** The summed usage of several answers. Null: there are no answers. */
export function sumOf(usages: readonly Usage[]): Usage | null {
  const last = usages.at(-1);
  if (last === undefined) return null;
  return sumOfUsage(
    usages.slice(0, -1).map((usage) => ({ usage })),
    last,
  );
}

/** Undefined if the provider does not count. */
export function usageOf(usage: Usage): object | undefined {
  const { input_tokens, output_tokens, cached_tokens = 0, reasoning_tokens = 0 } = usage;
  const { cache_write_tokens = 0 } = usage;
  if (input_tokens === null || output_tokens === null) return undefined;
  return {
    prompt_tokens: input_tokens,
    completion_tokens: output_tokens,
    total_tokens: input_tokens + output_tokens,
    prompt_tokens_details: { cached_tokens, cache_write_tokens },
    completion_tokens_details: { reasoning_tokens },
  };
}

export function logprobOf({ token, logprob, top }: TokenLogprob): object {
  return { ...tokenOf({ token, logprob }), top_logprobs: top.map(tokenOf) };
}

function tokenOf({ token, logprob }: Omit<TokenLogprob, 'top'>): object {
  return { token, logprob, bytes: [...Buffer.from(token)] };
}

/** An error in svc's own form, which has all fields of OpenAI's. */
export const openaiError: Envelope = (error) => ({ error: bodyOf(error) });

/** Programs know one code of OpenAI by its name: that of an account without credit. */
export function bodyOf(error: SvcError): Omit<ErrorBody, 'code'> & { code: string } {
  const body = error.body();
  return { ...body, code: codeOf(body.code) };
}

export function codeOf(code: string): string {
  return code === 'provider_quota_exceeded' ? 'insufficient_quota' : code;
}

export function frame(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

export const DONE = 'data: [DONE]\n\n';
/** A line that clients skip. */
export const HEARTBEAT = ': \n\n';

/** Errors about a field of a run that an API calls by another name, without the place in it. */
export function renameParams(names: Readonly<Record<string, string>>): (error: unknown) => unknown {
  return (error) => {
    if (!(error instanceof SvcError) || error.param === null) return error;
    const [first = ''] = error.param.split('.');
    const param = Object.hasOwn(names, first) ? names[first] : undefined;
    return param === undefined ? error : error.with({ param });
  };
}

/** How an answer in chunks is sent, and how it fails. */
export const CHUNKS: Pick<LiveOptions, 'type' | 'heartbeat' | 'failure'> = {
  type: 'text/event-stream',
  heartbeat: HEARTBEAT,
  failure: (error) => frame(openaiError(error)),
};
