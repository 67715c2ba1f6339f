import type { OutputPart, TokenLogprob } from '../../../machines/messages.ts';
import type { RunRecord } from '../../runtime/contract.ts';
import { sendLarge } from '../http/large.ts';
import { type Live, type LiveOptions, sendLive, whyCut } from '../http/live.ts';
import type { Context } from '../http/route.ts';
import { clientGone } from '../http/run-request.ts';
import { type AnswerEnd, followAnswer, grow, type OnMove, type OutputPiece } from './pieces.ts';
import { type PlacedPiece, steady } from './steady.ts';

/** A complete answer. */
export interface Answer extends Omit<AnswerEnd, 'type'> {
  /** The run at the target that answered. */
  run: RunRecord;
  /** Its text, reasoning, refusal and tool calls, in order. */
  parts: readonly OutputPart[];
  /** All text of one kind. */
  text: string;
  reasoning: string;
  refusal: string;
  calls: readonly Extract<OutputPart, { type: 'tool_call' }>[];
  logprobs: readonly TokenLogprob[];
}

/** An error about the input of a run, with the names of the request that was sent. */
export type Rename = (error: unknown) => unknown;
const asItIs: Rename = (error) => error;

/**
 * Waits for the whole answer of a run. Its text counts as unsent. Throws the error of a run without
 * one, and daemon_stopping or the reason of `ended` when the request ends first.
 */
export async function collectAnswer(
  context: Context,
  run: RunRecord,
  rename: Rename = asItIs,
): Promise<Answer> {
  const { res, runtime, closing, ended, unsent } = context;
  const signal = AbortSignal.any([closing, ended, clientGone(context)]);
  const outflow = unsent.enter(() => res.destroy());
  let parts: readonly OutputPart[] = [];
  let logprobs: TokenLogprob[] = [];
  let length = 0;
  const { present, onMove } = following(run);
  try {
    for await (const piece of followAnswer(runtime, run.id, { signal, onMove })) {
      if (piece.type === 'end') return answerOf(parts, logprobs, piece, present());
      if (piece.type === 'restart') [parts, logprobs, length] = [[], [], 0];
      else {
        parts = grow(parts, piece);
        for (const token of piece.logprobs ?? []) logprobs.push(token);
        length += lengthOf(piece);
      }
      outflow.own(length);
    }
  } catch (thrown) {
    throw rename(thrown);
  } finally {
    outflow.leave();
  }
  throw whyCut(context, 'The daemon stops. The run continues at its next start.');
}

/** The run, at the target whose pieces come at present. */
function following(run: RunRecord): { present: () => RunRecord; onMove: OnMove } {
  let now = run;
  return {
    present: () => now,
    onMove: ({ provider, model }) => {
      now = { ...now, provider, model };
    },
  };
}

/** What a piece costs while an answer keeps it. */
function lengthOf({ text, logprobs = [] }: OutputPiece): number {
  return text.length + logprobs.length * LOGPROB_LENGTH;
}
const LOGPROB_LENGTH = 512;

/** Sends the whole answer as JSON, in the form that `describe` gives it. */
export async function sendAnswer(
  context: Context,
  run: RunRecord,
  describe: (answer: Answer) => object,
  rename?: Rename,
): Promise<void> {
  const answer = await collectAnswer(context, run, rename);
  await sendLarge(context, async () => describe(answer));
}

/**
 * Streams an answer: `work` writes each piece in the form of its API. The bounds are those of all
 * streams, see `http/live.ts`. A run that fails before its first piece is an HTTP error. `present`
 * is the run at the target that the last piece is of.
 */
export async function streamAnswer(
  context: Context,
  run: RunRecord,
  { rename = asItIs, ...options }: Omit<LiveOptions, 'run_id' | 'begin'> & { rename?: Rename },
  work: (
    pieces: AsyncIterable<PlacedPiece | AnswerEnd>,
    live: Live,
    present: () => RunRecord,
  ) => Promise<void>,
): Promise<void> {
  const { runtime } = context;
  await sendLive(context, { ...options, run_id: run.id, begin: 'late' }, async (live) => {
    const { present, onMove } = following(run);
    const all = steady(followAnswer(runtime, run.id, { ...live, onMove }));
    const pieces = untilEnd(context, all, live);
    await work(pieces, live, present).catch((thrown: unknown) => {
      throw rename(thrown);
    });
    return null;
  });
}

/**
 * The same pieces. The text so far counts: it is kept for an answer that begins again. Throws when
 * the pieces stop before the end of the answer.
 */
async function* untilEnd(
  context: Context,
  pieces: AsyncIterable<PlacedPiece | AnswerEnd>,
  { outflow }: Live,
): AsyncGenerator<PlacedPiece | AnswerEnd, void> {
  let length = 0;
  for await (const piece of pieces) {
    yield piece;
    if (piece.type === 'end') return;
    length += piece.text.length;
    outflow.own(length);
  }
  throw whyCut(context, 'The daemon stops. The run continues at its next start.');
}

function answerOf(
  parts: readonly OutputPart[],
  logprobs: readonly TokenLogprob[],
  { type: _, ...end }: AnswerEnd,
  run: RunRecord,
): Answer {
  const textIn = (type: 'text' | 'reasoning' | 'refusal') =>
    parts.flatMap((part) => (part.type === type ? [part.text] : [])).join('');
  return {
    ...end,
    run,
    parts,
    text: textIn('text'),
    reasoning: textIn('reasoning'),
    refusal: textIn('refusal'),
    calls: parts.filter((part) => part.type === 'tool_call'),
    logprobs,
  };
}
