import type { Wishes } from '../../../machines/messages.ts';
import { unasked, type Warning } from '../remote/call-options.ts';
import type { AddressedConfig } from './request-headers.ts';

export type Body = Record<string, unknown>;

/**
 * Completes the body that the SDK builds. It throws capability_missing for what the SDK leaves out:
 * the request would be answered as if the client had not asked for it.
 *
 * OpenAI's newer models refuse `max_tokens`; all other servers know only that name. OpenAI takes no
 * reasoning in messages, and neither `top_k` nor `min_p`. Other servers take both by these names.
 */
export function adaptBody(
  { base_url, stream }: Pick<AddressedConfig, 'base_url' | 'stream'>,
  request: Wishes,
): (body: Body, warnings?: readonly Warning[]) => Body {
  const isOpenai = new URL(base_url).hostname === 'api.openai.com';
  const { logprobs, parallel_tool_calls, top_k, min_p, repeat_penalty } = request;
  if (isOpenai && min_p !== undefined) throw unasked('min_p');
  // Servers have different names for it, and ignore the others.
  if (repeat_penalty !== undefined && repeat_penalty !== 1) throw unasked('repeat_penalty');
  return ({ max_tokens, messages, stream_options, ...rest }, warnings = []) => {
    const missing = warnings.find(
      ({ type, feature }) => type === 'unsupported' && (isOpenai || feature !== 'topK'),
    );
    if (missing !== undefined) throw unasked(missing.feature ?? 'a part of the request');
    return {
      ...rest,
      ...(stream ? {} : { stream }),
      ...(stream && stream_options !== undefined ? { stream_options } : {}),
      ...(max_tokens === undefined
        ? {}
        : { [isOpenai ? 'max_completion_tokens' : 'max_tokens']: max_tokens }),
      ...(parallel_tool_calls === false ? { parallel_tool_calls } : {}),
      ...(top_k === undefined ? {} : { top_k }),
      ...(min_p === undefined ? {} : { min_p }),
      ...(logprobs === undefined ? {} : { logprobs: true }),
      ...(logprobs === undefined || logprobs === 0 ? {} : { top_logprobs: logprobs }),
      messages: isOpenai && Array.isArray(messages) ? messages.map(withoutReasoning) : messages,
    };
  };
}

function withoutReasoning({ reasoning_content: _, ...message }: Body): Body {
  return message;
}
