import { costOf } from '../../../machines/price.ts';
import type { RunContext, Usage } from '../../../machines/run/context.ts';
import { sumOfUsage } from '../../../machines/run/turns.ts';
import { type RunRequest, textOf } from '../../contract/messages/parts.ts';
import type { RunUsage } from '../../kernel/store/usage.ts';
import { HOUR_MS } from '../../kernel/store/usage-sums.ts';

/** About the bytes of one token, where the provider does not say the number. */
const TOKEN_BYTES = 4;

/** Tokens of this many bytes, estimated. */
export function tokensIn(bytes: number): number {
  return Math.ceil(bytes / TOKEN_BYTES);
}

/** About the tokens of the texts of a prompt. Images have none here. */
export function estimatedTokens({
  messages,
  tools = [],
}: Pick<RunRequest, 'messages' | 'tools'>): number {
  const lengths = messages.flatMap(({ content }) => content.map((part) => textOf(part).length));
  const length = lengths.reduce((sum, one) => sum + one, 0);
  return tokensIn(length + JSON.stringify(tools).length);
}

/**
 * A provider that counts nothing may say 0. A prompt has tokens, and so has an output. A number
 * that no model reaches counts as unknown: sums of such numbers would not fit their columns.
 */
export function discardImplausibleCounts(usage: Usage, hasOutput: boolean): Usage {
  const known = Object.entries(usage).filter(([, count]) => isPossible(count));
  const { input_tokens, output_tokens, ...rest } = Object.fromEntries(known) as Partial<Usage>;
  return {
    ...rest,
    input_tokens: input_tokens || null,
    output_tokens: (hasOutput ? output_tokens || null : output_tokens) ?? null,
  };
}

/** Whether one request can have so many tokens. */
export function isPossible(tokens: number | null): boolean {
  return tokens !== null && tokens <= TOKENS_MAX;
}

const TOKENS_MAX = 1e12;

/**
 * Usage of a finished run, attributed to its last target.
 *
 * 1. The numbers are those of its provider, which reports them only with a complete answer.
 * 2. An answer that was cut costs too, so its numbers are estimated.
 * 3. An attempt without output counts nothing.
 * 4. The cost is that of its acceptance, whatever the prices are later.
 */
export function usageOf(context: RunContext): RunUsage {
  const { request, price, completion, turns, sent, attempt, outputs, ended_at } = context;
  // A complete answer counts all turns. Of an unfinished run, only its complete turns count.
  const usage = completion?.usage ?? (turns.length > 0 ? sumOfUsage(turns, NO_TOKENS) : null);
  const isCounted = usage?.input_tokens != null && usage.output_tokens != null;
  const crossed = sent.findLast((one) => one.attempt === attempt);
  const counts = isCounted || outputs > 0 || usage !== null;
  const estimateInput = () =>
    crossed?.bytes == null ? estimatedTokens(request) : tokensIn(crossed.bytes);
  const input = counts ? (usage?.input_tokens ?? estimateInput()) : 0;
  const answered =
    usage?.output_tokens ?? Math.max(context.output_tokens, tokensIn(context.output.length));
  const tokens = {
    input_tokens: input,
    output_tokens: counts ? answered : 0,
    cached_tokens: isCounted ? Math.min(usage.cached_tokens ?? 0, input) : 0,
    cache_write_tokens: isCounted ? Math.min(usage.cache_write_tokens ?? 0, input) : 0,
  };
  return {
    hour: Math.floor((ended_at ?? context.created_at) / HOUR_MS),
    provider: request.provider,
    model: request.model,
    client: context.asked_by ?? withoutShell(context.client),
    cloud: request.cloud,
    ...tokens,
    cost: price && costOf(price, tokens),
    estimated: counts && !isCounted,
  };
}

const NO_TOKENS: Usage = { input_tokens: 0, output_tokens: 0 };

/** The client without the number of its shell, which ends with the shell. */
export function withoutShell(client: string): string {
  return client.replace(/^command line \d+$/, 'command line');
}

/** Bytes of a request to a provider, without the frame of its API. */
export function bytesOf({ messages, tools, response_format, stop }: RunRequest): number {
  return Buffer.byteLength(JSON.stringify({ messages, tools, response_format, stop }));
}
