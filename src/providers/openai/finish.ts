import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import type { FinishReason } from '../../../machines/events.ts';
import type { OutputPart } from '../port.ts';
import { truncated } from './failure.ts';
import { type Secrets, sanitize } from './upstream-error.ts';

export type Finish = Extract<LanguageModelV4StreamPart, { type: 'finish' }>;

/**
 * Converts the end of a complete answer. Throws stream_truncated for an unknown reason, which may
 * be a failure.
 */
export function finishPart({ finishReason, usage }: Finish, secrets: Secrets): OutputPart {
  const { unified, raw } = finishReason;
  const reason =
    UNIFIED[unified] ?? (unified === 'other' ? OTHER[raw?.toLowerCase() ?? ''] : undefined);
  if (reason === undefined) {
    const named = raw === undefined ? null : sanitize(raw, secrets);
    throw truncated(
      named === null
        ? undefined
        : `The provider ended its answer with the reason ${JSON.stringify(named)}, which is not one of a complete answer.`,
    );
  }
  return {
    type: 'finish',
    finish_reason: reason,
    usage: {
      input_tokens: usage.inputTokens.total ?? null,
      output_tokens: usage.outputTokens.total ?? null,
    },
  };
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
