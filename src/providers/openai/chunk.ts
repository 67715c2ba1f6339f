import type { TokenLogprob } from '../../../machines/messages.ts';
import { asRecord } from '../../json.ts';
import type { RawEvent } from '../remote/answer.ts';

/** Reads an event of the stream. `top`: how many likely tokens are asked at each position. */
export function readChunk(value: unknown, top: number | undefined): RawEvent {
  const [first] = listOf(asRecord(value).choices);
  const choice = asRecord(first);
  const delta = asRecord(choice.delta);
  const calls = listOf(delta.tool_calls).map(asRecord);
  const stop = [choice.stop_reason, choice.matched_stop].find((said) => typeof said === 'string');
  return {
    refusal: textIn(delta.refusal),
    callIds: calls.map(({ id }) => textIn(id)),
    argumentLength: calls.reduce(
      (sum, call) => sum + textIn(asRecord(call.function).arguments).length,
      0,
    ),
    logprobs: top === undefined ? [] : readLogprobs(choice.logprobs, top),
    stop: stop ?? null,
  };
}

function readLogprobs(value: unknown, top: number): TokenLogprob[] {
  return listOf(asRecord(value).content).flatMap((item) =>
    readToken(item).map((token) => ({
      ...token,
      top: listOf(asRecord(item).top_logprobs).slice(0, top).flatMap(readToken),
    })),
  );
}

function readToken(item: unknown): { token: string; logprob: number }[] {
  const { token, logprob } = asRecord(item);
  return typeof token === 'string' && typeof logprob === 'number' && Number.isFinite(logprob)
    ? [{ token: token.toWellFormed(), logprob }]
    : [];
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function textIn(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
