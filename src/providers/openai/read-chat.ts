import { SvcError } from '../../errors.ts';
import type { Incoming } from '../../http-client/incoming.ts';
import { isTooMuch, parseForeignJson } from '../../json.ts';
import type { Limits } from '../../limits.ts';
import type { OutputPart } from '../port.ts';
import { toFailure, tooDeep } from '../remote/failure.ts';
import { ReadTurns } from '../remote/read-turns.ts';
import { parseUpstreamError } from '../remote/upstream-error.ts';
import { type Asked, ChatAnswer } from './chat-answer.ts';
import { EventReader } from './event-reader.ts';
import { wholeAnswer } from './whole-answer.ts';

/**
 * The output parts of a chat completion: a stream of events, or a whole answer.
 *
 * 1. What one read of the socket brings is one batch: its texts are as few outputs as possible.
 * 2. What came before a failure is delivered before it is thrown.
 * 3. Answers take turns, so that one turn of the event loop reads a bounded part of all of them.
 *
 * Throws SvcError, and the errors of the connection. A `yield*` of a list would make six promises
 * for each output.
 */
export async function* readChat(
  body: Incoming,
  asked: Asked & { limits: Limits },
): AsyncGenerator<OutputPart> {
  const answer = new ChatAnswer(asked);
  const events = new EventReader(asked.limits, () => noAnswer('', asked));
  const take = (data: string) => answer.take(data);
  for (let read = await body.read(); read !== null; read = await body.read()) {
    for (const chunk of read.flatMap(slices)) {
      const turn = turns.take(chunk.length);
      if (turn !== undefined) {
        for (const output of answer.outputs()) yield output;
        await turn;
      }
      const failure = failureOf(() => events.push(chunk, take));
      if (failure === null) continue;
      for (const output of answer.outputs()) yield output;
      throw failure.thrown;
    }
    for (const output of answer.outputs()) yield output;
  }
  const { document } = events;
  const failure = failureOf(() => {
    if (document !== null) answer.takeChunk(chunkOf(document, asked));
    answer.end();
  });
  for (const output of answer.outputs()) yield output;
  if (failure !== null) throw failure.thrown;
  yield answer.finish();
}

/** Those of all answers of the process. */
const turns = new ReadTurns();
/** The parser needs about a millisecond for as many tiny events. */
const SLICE_BYTES = 16 * 1024;

function slices(bytes: Buffer): Buffer[] {
  if (bytes.length <= SLICE_BYTES) return [bytes];
  return Array.from({ length: Math.ceil(bytes.length / SLICE_BYTES) }, (_, at) =>
    bytes.subarray(at * SLICE_BYTES, (at + 1) * SLICE_BYTES),
  );
}

function failureOf(work: () => void): { thrown: unknown } | null {
  try {
    work();
    return null;
  } catch (thrown) {
    return { thrown };
  }
}

/** The whole answer of a server that does not stream. Throws SvcError. */
function chunkOf(document: string, asked: Asked): object {
  if (isTooMuch(document)) throw tooDeep();
  const chunk = wholeAnswer(parseForeignJson(document));
  if (chunk === null) throw noAnswer(document, asked);
  return chunk;
}

/** A success without an answer: an error without its status, or another kind of server. */
function noAnswer(text: string, asked: Asked): SvcError {
  const reported = parseUpstreamError(parseForeignJson(text), asked.secrets);
  if (reported.message !== null) return toFailure(reported, asked);
  return new SvcError(
    'provider_rejected',
    'The provider answers, but not with an answer of a model; a base_url usually ends in /v1.',
    { retryable: false },
  );
}
