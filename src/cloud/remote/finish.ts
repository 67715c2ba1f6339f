import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import type { FinishReason, Usage } from '../../../machines/run/context.ts';
import { asRecord, isRecord } from '../../json.ts';
import type { OutputPart } from '../../ports/providers.ts';
import { truncatedError } from './failure.ts';
import { type Secrets, sanitize } from './upstream-error.ts';

export type SdkFinish = Extract<LanguageModelV4StreamPart, { type: 'finish' }>;

/** How the server ended its answer. */
export interface Finish {
  /** Undefined: the reason is not one of a complete answer. */
  reason: FinishReason | undefined;
  /** As the server says it. */
  raw: string | null;
  usage: Usage;
  /** Tokens a second, by its own clock. Null: the server does not say. */
  speed?: number | null;
}

export interface Ended {
  secrets: Secrets;
  /** How many tools the answer calls. */
  calls: number;
  /** The stop text that ended the answer, if it is known. */
  stop: string | null;
}

/**
 * The last part of a complete answer. Throws stream_truncated for an unknown reason, which may be a
 * failure, and for tool calls that are missing.
 */
export function finishPart(
  { reason, raw, usage, speed = null }: Finish,
  { secrets, calls, stop }: Ended,
): OutputPart {
  if (reason === undefined) {
    const named = raw === null ? null : sanitize(raw, secrets);
    throw truncatedError(
      named === null
        ? undefined
        : `The provider ended its answer with the reason ${JSON.stringify(named)}, which is ` +
            'not one of a complete answer.',
    );
  }
  if (reason === 'tool_calls' && calls === 0)
    throw truncatedError('The provider ended its answer with tool calls, but sent none.');
  return {
    type: 'finish',
    finish_reason: reason === 'stop' && calls > 0 ? 'tool_calls' : reason,
    usage,
    ...(speed === null ? {} : { tokens_per_second: speed }),
    ...(stop === null || reason !== 'stop' ? {} : { stop_sequence: stop }),
  };
}

/** In any form of the letters. Undefined: it is not one of a complete answer. */
export function reasonOf(raw: string): FinishReason | undefined {
  return REASONS[raw.toLowerCase()];
}

/** The SDK reports a refusal as filtered content. */
export function sdkReason({ finishReason }: SdkFinish): FinishReason | undefined {
  const { unified, raw } = finishReason;
  if (raw === 'stop') return 'stop';
  return UNIFIED[unified] ?? (unified === 'other' ? reasonOf(raw ?? '') : undefined);
}

/** The numbers that the server sent. Those that it did not send are unknown. */
export function usageOf(
  counts: Record<'input' | 'output' | 'cached' | 'reasoning', unknown> & { written?: unknown },
): Usage {
  const cached = toCount(counts.cached);
  const written = toCount(counts.written);
  const reasoning = toCount(counts.reasoning);
  return {
    input_tokens: toCount(counts.input),
    output_tokens: toCount(counts.output),
    ...(cached === null ? {} : { cached_tokens: cached }),
    ...(written ? { cache_write_tokens: written } : {}),
    ...(reasoning === null ? {} : { reasoning_tokens: reasoning }),
  };
}

/**
 * The usage of a chat completion. `input_tokens` is the name of Anthropic and of the Responses API.
 * Beside numbers of the cache in Anthropic's names it lacks those tokens.
 */
export function readUsage(value: unknown): Usage {
  const usage = asRecord(value);
  const input = asRecord(usage.prompt_tokens_details ?? usage.input_tokens_details);
  const output = asRecord(usage.completion_tokens_details ?? usage.output_tokens_details);
  const read = toCount(usage.cache_read_input_tokens);
  const written = toCount(usage.cache_creation_input_tokens);
  const [total, part] = [toCount(usage.prompt_tokens), toCount(usage.input_tokens)];
  const prompt = total ?? (part === null ? null : part + (read ?? 0) + (written ?? 0));
  const answer = toCount(usage.completion_tokens) ?? toCount(usage.output_tokens);
  const reasoning = toCount(output.reasoning_tokens);
  // xAI counts the tokens of reasoning beside those of the answer. Only the total shows it.
  const isBeside =
    reasoning !== null && usage.total_tokens === (prompt ?? 0) + (answer ?? 0) + reasoning;
  return usageOf({
    input: prompt,
    output: isBeside ? (answer ?? 0) + reasoning : answer,
    cached:
      toCount(input.cached_tokens) ??
      toCount(usage.cached_tokens) ??
      toCount(usage.prompt_cache_hit_tokens) ??
      read,
    written,
    reasoning,
  });
}

/**
 * The numbers after one more chunk. Some servers say them in its choice, Groq in another field. A 0
 * replaces no number.
 */
export function usageAfter(before: Usage | null, chunk: Record<string, unknown>): Usage | null {
  const { usage, choices, x_groq } = chunk;
  const places = [usage, asRecord(x_groq).usage];
  if (Array.isArray(choices)) places.push(asRecord(choices[0]).usage);
  const numbers = places.find(isRecord);
  if (numbers === undefined) return before;
  const now = readUsage(numbers);
  const counted = Object.entries(now).filter(([, count]) => count);
  return { ...now, ...before, ...Object.fromEntries(counted) };
}

/** Missing numbers are undefined. */
export function sdkUsage({ usage: { inputTokens, outputTokens } }: SdkFinish): Usage {
  return usageOf({
    input: inputTokens.total,
    output: outputTokens.total,
    cached: inputTokens.cacheRead,
    written: inputTokens.cacheWrite,
    reasoning: outputTokens.reasoning,
  });
}

/**
 * Tokens a second, by the clock of the engine: as llama-server, Groq and Cerebras say it. Null:
 * this chunk does not say it, or there was one token.
 */
export function speedIn(chunk: Record<string, unknown>): number | null {
  const { predicted_n, predicted_ms } = asRecord(chunk.timings);
  const usage = asRecord(chunk.usage ?? asRecord(chunk.x_groq).usage);
  const seconds = usage.completion_time ?? asRecord(chunk.time_info).completion_time;
  const tokens = toCount(predicted_n) ?? toCount(usage.completion_tokens) ?? 0;
  const ms = Number(predicted_ms ?? Number(seconds) * 1000);
  const speed = (tokens / ms) * 1000;
  return tokens > 1 && ms > 0 && speed < SPEED_MAX ? speed : null;
}

/** No engine is faster. */
const SPEED_MAX = 1e6;

/** The sum of the known numbers. Undefined if no number is known. */
export function sum(...counts: unknown[]): number | undefined {
  const known = counts.filter((count) => typeof count === 'number');
  return known.length === 0 ? undefined : known.reduce((all, count) => all + count, 0);
}

function toCount(value: unknown): number | null {
  return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : null;
}

const UNIFIED: Partial<Record<SdkFinish['finishReason']['unified'], FinishReason>> = {
  stop: 'stop',
  length: 'length',
  'content-filter': 'content_filter',
  'tool-calls': 'tool_calls',
};

/** The reasons of OpenAI, and those of servers that do not use its names. */
const REASONS: Record<string, FinishReason> = Object.assign(Object.create(null), {
  stop: 'stop',
  length: 'length',
  content_filter: 'content_filter',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  eos: 'stop',
  eos_token: 'stop',
  end_turn: 'stop',
  stop_sequence: 'stop',
  complete: 'stop',
  tool_use: 'tool_calls',
  tool_call: 'tool_calls',
  max_tokens: 'length',
  model_length: 'length',
  model_context_window_exceeded: 'length',
});
