import { TurnBudget } from '../../async/turn-budget.ts';
import { SvcError } from '../../errors.ts';
import type { Incoming } from '../../http-client/incoming.ts';
import { parseForeignJson } from '../../json.ts';
import type { Limits } from '../../limits.ts';
import type { OutputPart } from '../../ports/providers.ts';
import type { EventAnswer, EventAnswerContext, Stage } from './event-answer.ts';
import { EventReader } from './event-reader.ts';
import { readJson, toFailure } from './failure.ts';
import { parseUpstreamError } from './upstream-error.ts';

/**
 * The output parts of an answer: a stream of events, or a whole answer.
 *
 * 1. One read of the socket is one batch: its texts are as few outputs as possible.
 * 2. Outputs that came before a failure are delivered before it is thrown.
 * 3. Answers take turns, so that one turn of the event loop reads a bounded part of all of them.
 * 4. An answer with its finish reason is complete. Missing figures have a short time to come after
 *    it. A connection that breaks then does no harm to the answer.
 *
 * Throws SvcError, and the errors of the connection. A `yield*` of a list would make six promises
 * for each output.
 */
export async function* readEvents(
  body: Incoming,
  answer: EventAnswer,
  context: EventAnswerContext & { limits: Limits },
): AsyncGenerator<OutputPart> {
  const events = new EventReader(context.limits, () => noAnswer('', context));
  const take = (data: string) => answer.take(data);
  let stage: Stage = 'open';
  let until = 0;
  for (;;) {
    const read = await (stage === 'open' ? body.read() : lateRead(body, stage, until));
    if (read === null) break;
    for (const chunk of read.some(isLarge) ? read.flatMap(slices) : read) {
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
    const outputs = answer.outputs();
    for (const output of outputs) yield output;
    if (answer.stage === 'open' || (answer.stage === stage && outputs.length === 0)) continue;
    stage = answer.stage;
    const { provider_usage_ms, provider_end_ms } = context.limits;
    until = performance.now() + (stage === 'reason' ? provider_usage_ms : provider_end_ms);
  }
  const failure = failureOf(() => {
    const { document } = events;
    if (document === null) takeLast(events, answer, context);
    else if (!answer.document(readJson(document, 'an answer'))) throw noAnswer(document, context);
    answer.end();
  });
  for (const output of answer.outputs()) yield output;
  if (failure !== null) throw failure.thrown;
  yield answer.finish();
}

/** Some milliseconds. In less, answers that come together would need several commits. */
export const TURN_BYTES = 256 * 1024;
/** What follows from a small piece takes as long as the bytes of a larger one. */
export const READ_BYTES = 4 * 1024;
/** What all answers of the process read in one turn: hundreds of providers may send at one time. */
const turns = new TurnBudget({ turn_bytes: TURN_BYTES, work_bytes: READ_BYTES });
/** The parser needs about a millisecond for as many tiny events. */
const SLICE_BYTES = 16 * 1024;

function isLarge({ length }: Buffer): boolean {
  return length > SLICE_BYTES;
}

function slices(bytes: Buffer): Buffer[] {
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

/** The chunks after the finish reason. Null: there is nothing more to read. */
export async function lateRead(body: Incoming, stage: Stage, until: number) {
  if (stage === 'ended') return null;
  const ms = Math.max(0, until - performance.now());
  return (await body.readWithin(ms).catch(() => null)) ?? null;
}

/** The last event counts without an empty line. Then an error without a form may follow. */
function takeLast(events: EventReader, answer: EventAnswer, context: EventAnswerContext): void {
  const last = events.end();
  if (last !== null && (last.trim() === '[DONE]' || parseForeignJson(last) !== undefined))
    answer.take(last);
  if (answer.stage !== 'open' || events.stray === '') return;
  const reported = parseUpstreamError(parseForeignJson(events.stray), context.secrets);
  if (reported.message !== null || reported.codes.length > 0) throw toFailure(reported, context);
}

/** A success without an answer: an error without its status, or another kind of server. */
function noAnswer(text: string, context: EventAnswerContext): SvcError {
  const reported = parseUpstreamError(parseForeignJson(text), context.secrets);
  if (reported.message !== null) return toFailure(reported, context);
  return new SvcError(
    'provider_not_found',
    'The provider answers, but not with an answer of a model.',
    { retryable: false },
  );
}
