import type { ToolCall } from '../../machines/tool-call.ts';
import type { RunRecord } from '../contract/contract.ts';
import type { OutputPart, TokenLogprob } from '../contract/messages/parts.ts';
import { sendLarge } from '../transport/http/large.ts';
import type { Context } from '../transport/http/route.ts';
import { requestOver } from '../transport/http/run-request.ts';
import { cutReasonOf, type Live, type LiveOptions, sendLive } from '../transport/stream/live.ts';
import { PIECE_BYTES } from '../transport/stream/unsent-bytes.ts';
import {
  type AnswerEnd,
  addPiece,
  followAnswer,
  type OnMove,
  type OutputPiece,
  type Piece,
} from './pieces.ts';
import { type PlacedPiece, Steady } from './steady.ts';

/** A complete answer. */
export interface Answer extends Omit<AnswerEnd, 'type'> {
  /** The run at the target that answered. */
  run: RunRecord;
  /** The text, reasoning, refusal and tool calls of the last turn, in order. */
  parts: readonly OutputPart[];
  /** Includes earlier turns and their calls, if requested. A call comes at each change. */
  said: readonly (OutputPart | ToolCall)[];
  /** All text of one kind. */
  text: string;
  reasoning: string;
  refusal: string;
  calls: readonly Extract<OutputPart, { type: 'tool_call' }>[];
  logprobs: readonly TokenLogprob[];
}

export interface AnswerOptions {
  rename?: Rename | undefined;
  /** Whether the answer has all turns, with the calls that svc carries out. */
  showsCalls?: boolean;
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
  { rename = asItIs, showsCalls = false }: AnswerOptions = {},
): Promise<Answer> {
  const { res, runtime, unsent } = context;
  const signal = requestOver(context);
  const outflow = unsent.enter(() => res.destroy());
  /** Before the last call. */
  const said: (OutputPart | ToolCall)[] = [];
  let parts: readonly OutputPart[] = [];
  let logprobs: TokenLogprob[] = [];
  let length = 0;
  let kept = 0;
  const { present, onMove } = trackTarget(run);
  const onCall = (call: ToolCall) => {
    said.push(...parts, call);
    parts = [];
    kept = length;
  };
  const options = { signal, onMove, onCall: showsCalls ? onCall : undefined };
  try {
    for await (const batch of followAnswer(runtime, run.id, options)) {
      for (const piece of batch) {
        if (piece.type === 'end') return answerOf([...said, ...parts], logprobs, piece, present());
        if (piece.type === 'restart' || (piece.type === 'turn' && !showsCalls))
          [parts, logprobs, length] = [[], [], kept];
        else if (piece.type === 'output') {
          parts = addPiece(parts, piece);
          for (const token of piece.logprobs ?? []) logprobs.push(token);
          length += lengthOf(piece);
        }
      }
      outflow.setOwnBytes(length);
    }
  } catch (thrown) {
    throw rename(thrown);
  } finally {
    outflow.leave();
  }
  throw cutReasonOf(context, 'The daemon stops. The run continues at its next start.');
}

/** The run, with the target that answers at present. */
function trackTarget(run: RunRecord): { present: () => RunRecord; onMove: OnMove } {
  let current = run;
  return {
    present: () => current,
    onMove: ({ provider, model }) => {
      current = { ...current, provider, model };
    },
  };
}

/** Characters that a kept piece counts, with its probabilities. */
function lengthOf({ text, logprobs = [] }: OutputPiece): number {
  return text.length + logprobs.length * LOGPROB_LENGTH;
}
const LOGPROB_LENGTH = 512;

/** Sends the whole answer as JSON, in the form that `describe` gives it. */
export async function sendAnswer(
  context: Context,
  run: RunRecord,
  describe: (answer: Answer) => object,
  options?: AnswerOptions,
): Promise<void> {
  const answer = await collectAnswer(context, run, options);
  await sendLarge(context, async () => describe(answer));
}

/**
 * Streams an answer: `work` writes each piece in the form of its API. The bounds are those of all
 * streams: see `stream/live.ts`. A run that fails before its first piece is an HTTP error.
 * `present`: the run, with the target of the last piece. `runs`: `work` is called for each of them,
 * and the first one is `run`. Null: it is the only one.
 */
export async function streamAnswer(
  context: Context,
  run: RunRecord,
  {
    rename = asItIs,
    runs = null,
    onCall,
    ...options
  }: Omit<LiveOptions, 'run_id' | 'begin'> & {
    rename?: Rename;
    runs?: AsyncIterable<RunRecord> | null;
    /** Its text is written at once. */
    onCall?: (call: ToolCall, present: () => RunRecord) => string;
  },
  work: (
    pieces: AsyncIterable<PlacedPiece | AnswerEnd>,
    live: Pick<Live, 'write'>,
    present: () => RunRecord,
  ) => Promise<void>,
): Promise<void> {
  const { runtime } = context;
  await sendLive(context, { ...options, run_id: run.id, begin: 'late' }, async (live) => {
    const gathered = new Gathered(live);
    const writes = { ...live, write: (text: string) => gathered.add(text) };
    const follow = (each: RunRecord) => {
      const { present, onMove } = trackTarget(each);
      const writeCall =
        onCall === undefined
          ? undefined
          : async (call: ToolCall) => {
              await gathered.add(onCall(call, present));
              await gathered.flush();
            };
      const batches = followAnswer(runtime, each.id, { ...live, onMove, onCall: writeCall });
      const answer = new Steady(onCall === undefined ? TURNS_GAP : '');
      return work(readUntilEnd(context, { batches, answer }, live, gathered), writes, present);
    };
    try {
      if (runs === null) await follow(run);
      else for await (const each of runs) await follow(each);
    } catch (thrown) {
      await gathered.flush();
      throw rename(thrown);
    }
    gathered.end();
    return null;
  });
}

/** Separates the text before tool calls from the text after them. */
const TURNS_GAP = '\n\n';

/**
 * The text of the pieces that came together. It is one write, because each write costs the system
 * far more than the text. The last one goes with the end of the answer.
 */
class Gathered {
  private readonly live: Live;
  private text = '';

  constructor(live: Live) {
    this.live = live;
  }

  async add(text: string): Promise<void> {
    this.text += text;
    if (this.text.length > PIECE_BYTES) await this.flush();
  }

  async flush(): Promise<void> {
    const { text } = this;
    this.text = '';
    if (text !== '') await this.live.write(text);
  }

  end(): void {
    this.live.last(this.text);
  }
}

/**
 * All pieces, each with its place. The output of one batch is written before the next batch is
 * read. The text so far counts: it is kept for an answer that begins again. Throws when the pieces
 * stop before the end of the answer.
 */
async function* readUntilEnd(
  context: Context,
  { batches, answer }: { batches: AsyncIterable<readonly Piece[]>; answer: Steady },
  { outflow }: Live,
  gathered: Gathered,
): AsyncGenerator<PlacedPiece | AnswerEnd, void> {
  let length = 0;
  for await (const batch of batches) {
    for (const each of batch) {
      const piece = answer.take(each);
      if (piece === null) continue;
      yield piece;
      if (piece.type === 'end') return;
      length += piece.text.length;
    }
    await gathered.flush();
    outflow.setOwnBytes(length);
  }
  throw cutReasonOf(context, 'The daemon stops. The run continues at its next start.');
}

function answerOf(
  said: readonly (OutputPart | ToolCall)[],
  logprobs: readonly TokenLogprob[],
  { type: _, ...end }: AnswerEnd,
  run: RunRecord,
): Answer {
  const parts = said.filter((one): one is OutputPart => 'type' in one);
  const textIn = (type: 'text' | 'reasoning' | 'refusal') =>
    parts.flatMap((part) => (part.type === type ? [part.text] : [])).join('');
  return {
    ...end,
    run,
    parts,
    said,
    text: textIn('text'),
    reasoning: textIn('reasoning'),
    refusal: textIn('refusal'),
    calls: parts.filter((part) => part.type === 'tool_call'),
    logprobs,
  };
}
