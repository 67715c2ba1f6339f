import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import type { SvcError } from '../../errors.ts';
import type { OutputPart } from '../port.ts';
import { type RequestContext, toFailure, tooLarge, truncated } from './failure.ts';
import { type Finish, finishPart } from './finish.ts';
import { parseUpstreamError, type Secrets } from './upstream-error.ts';

/**
 * Converts the stream of the AI SDK to output parts, without reasoning.
 *
 * 1. An answer is complete only after exactly one finish with a known reason, and no error.
 * 2. Nothing is delivered after an error: text behind a gap is not an answer.
 *
 * Throws SvcError, also for a text of more than `bytesMax`, and the errors of the stream.
 */
export async function* readAnswer(
  stream: ReadableStream<LanguageModelV4StreamPart>,
  asked: RequestContext,
  secrets: Secrets,
  bytesMax: number,
): AsyncGenerator<OutputPart> {
  const reader = stream.getReader();
  const text = wholeCharacters();
  let finish: Finish | null = null;
  let bytes = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (value.type === 'error') throw errorPart(value.error, asked, secrets);
      if (value.type === 'finish' && finish !== null)
        throw truncated('The provider ended its answer more than once.');
      if (value.type === 'finish') finish = value;
      if (value.type !== 'text-delta') continue;
      bytes += Buffer.byteLength(value.delta);
      if (bytes > bytesMax) throw tooLarge('an answer', bytesMax);
      yield* output(text.push(value.delta));
    }
    yield* output(text.end());
    if (finish === null) throw truncated();
    yield finishPart(finish, secrets);
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function* output(text: string): Generator<OutputPart> {
  if (text !== '') yield { type: 'output', text, token_ids: [] };
}

/** Some servers split a surrogate pair over two events. On disk each half would be lost. */
function wholeCharacters(): { push(text: string): string; end(): string } {
  let half = '';
  return {
    push: (delta) => {
      const text = half + delta;
      half = /[\uD800-\uDBFF]$/.exec(text)?.[0] ?? '';
      return text.slice(0, text.length - half.length).toWellFormed();
    },
    end: () => half.toWellFormed(),
  };
}

/**
 * An error part means one of three things:
 *
 * 1. The stream ended too early.
 * 2. An event has an unknown form, and may contain an error message.
 * 3. The provider reports an error.
 */
function errorPart(error: unknown, asked: RequestContext, secrets: Secrets): SvcError {
  if (error instanceof Error && error.name === 'AI_InvalidResponseDataError') return truncated();
  if (!(error instanceof Error)) return toFailure(parseUpstreamError({ error }, secrets), asked);
  const reported = parseUpstreamError('value' in error ? error.value : null, secrets);
  return reported.message === null
    ? truncated(
        'The provider sent an event that cannot be understood, so its answer is not complete.',
      )
    : toFailure(reported, asked);
}
