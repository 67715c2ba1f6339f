import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import type { FinishReason, Usage } from '../../../machines/events.ts';
import { asRecord } from '../../json.ts';
import type { OutputPart } from '../port.ts';
import { truncated } from './failure.ts';
import { type Secrets, sanitize } from './upstream-error.ts';

export type Finish = Extract<LanguageModelV4StreamPart, { type: 'finish' }>;

export interface Ended {
  secrets: Secrets;
  /** Whether the usage is that of OpenAI's chat completions. */
  isChat: boolean;
  /** How many tools the answer calls. */
  calls: number;
  /** The stop text that ended the answer, if it is known. */
  stop: string | null;
}

/**
 * Converts the end of a complete answer. Throws stream_truncated for an unknown reason, which may
 * be a failure, and for tool calls that are missing.
 */
export function finishPart(
  { finishReason, usage }: Finish,
  { secrets, isChat, calls, stop }: Ended,
): OutputPart {
  const reason = reasonOf(finishReason);
  if (reason === undefined) {
    const { raw } = finishReason;
    const named = raw === undefined ? null : sanitize(raw, secrets);
    throw truncated(
      named === null
        ? undefined
        : `The provider ended its answer with the reason ${JSON.stringify(named)}, which is not one of a complete answer.`,
    );
  }
  if (reason === 'tool_calls' && calls === 0)
    throw truncated('The provider ended its answer with tool calls, but sent none.');
  return {
    type: 'finish',
    finish_reason: reason === 'stop' && calls > 0 ? 'tool_calls' : reason,
    usage: isChat ? readUsage(usage.raw) : sdkUsage(usage),
    ...(stop === null || reason !== 'stop' ? {} : { stop_sequence: stop }),
  };
}

/** The SDK reports a refusal as filtered content. */
function reasonOf({ unified, raw }: Finish['finishReason']): FinishReason | undefined {
  if (raw === 'stop') return 'stop';
  return UNIFIED[unified] ?? (unified === 'other' ? OTHER[raw?.toLowerCase() ?? ''] : undefined);
}

/** The numbers that the server sent. The SDK has 0 for those that it did not send. */
function readUsage(value: unknown): Usage {
  const usage = asRecord(value);
  const cached = whole(asRecord(usage.prompt_tokens_details).cached_tokens);
  const reasoning = whole(asRecord(usage.completion_tokens_details).reasoning_tokens);
  return {
    input_tokens: whole(usage.prompt_tokens),
    output_tokens: whole(usage.completion_tokens),
    ...(cached === null ? {} : { cached_tokens: cached }),
    ...(reasoning === null ? {} : { reasoning_tokens: reasoning }),
  };
}

/** Missing numbers are undefined. */
function sdkUsage({ inputTokens, outputTokens }: Finish['usage']): Usage {
  const cached = whole(inputTokens.cacheRead);
  const reasoning = whole(outputTokens.reasoning);
  return {
    input_tokens: whole(inputTokens.total),
    output_tokens: whole(outputTokens.total),
    ...(cached === null ? {} : { cached_tokens: cached }),
    ...(reasoning === null ? {} : { reasoning_tokens: reasoning }),
  };
}

function whole(value: unknown): number | null {
  return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : null;
}

const UNIFIED: Partial<Record<Finish['finishReason']['unified'], FinishReason>> = {
  stop: 'stop',
  length: 'length',
  'content-filter': 'content_filter',
  'tool-calls': 'tool_calls',
};

/** Reasons of servers that do not use OpenAI's names. */
const OTHER: Record<string, FinishReason> = Object.assign(Object.create(null), {
  eos: 'stop',
  eos_token: 'stop',
  end_turn: 'stop',
  stop_sequence: 'stop',
  complete: 'stop',
  max_tokens: 'length',
});
