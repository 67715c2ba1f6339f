import { type FinishReason, isTerminalEvent, type Usage } from '../../machines/run/context.ts';
import type { ToolCall } from '../../machines/tool-call.ts';
import type { Target } from '../contract/events.ts';
import {
  type CallName,
  type Opaque,
  type OutputKind,
  type OutputPart,
  partsAfter,
  type RunOutput,
  type TokenLogprob,
} from '../contract/messages/parts.ts';
import { formError, SvcError } from '../errors.ts';
import type { Runtime } from '../operations/port.ts';
import { eventData } from '../transport/stream/event-forms.ts';
import type { Outflow } from '../transport/stream/unsent-bytes.ts';
import { isShown, ServedCalls } from './served-calls.ts';

/** One recorded piece of an answer. */
export interface OutputPiece {
  readonly type: 'output';
  readonly text: string;
  /** Absent: text of the answer. */
  readonly kind?: OutputKind;
  /** The tool call whose arguments the text continues. */
  readonly call?: CallName;
  readonly logprobs?: readonly TokenLogprob[];
  /** Opaque data that the provider needs back with the part that the piece ends. */
  readonly opaque?: Opaque;
  /** The tokens of the prompt, of a local model. */
  readonly prompt_tokens?: number;
}

/** The end of a complete answer. */
export interface AnswerEnd {
  readonly type: 'end';
  readonly finish_reason: FinishReason;
  readonly usage: Usage;
  /** The text of `stop` that ended it. */
  readonly stop_sequence?: string;
}

/**
 * `turn`: the model called tools of servers, and its next turn follows. `restart`: the present turn
 * begins again, and its output so far is not part of the answer.
 */
export type Piece = OutputPiece | AnswerEnd | { readonly type: 'turn' | 'restart' };

/** The run moves to another target. Later pieces come from the new target. */
export type OnMove = (target: Pick<Target, 'provider' | 'model'>) => void;

/** A call that svc carries out has begun or ended. What came before it has been used. */
export type OnCall = (call: ToolCall) => Promise<void> | void;

interface Following {
  signal: AbortSignal;
  outflow?: Outflow;
  onMove?: OnMove;
  onCall?: OnCall | undefined;
}

/**
 * The pieces of a run's answer, in order, from the log: replayed, then as they are recorded. Pieces
 * that are there at one time come together. The last one is the end. A page of events counts in
 * `outflow` until its pieces are used.
 *
 * Throws the error of a run that has no complete answer, such as run_cancelled or engine_failed.
 * Ends without a last piece when the signal aborts.
 */
export async function* followAnswer(
  runtime: Pick<Runtime, 'runs'>,
  run_id: string,
  { signal, outflow, onMove, onCall }: Following,
): AsyncGenerator<readonly Piece[], void> {
  let prompt_tokens: number | undefined;
  const calls = new ServedCalls();
  /** How many turns were complete when the present attempt began. */
  let turns = -1;
  // No piece is in the first event, which may have a long conversation.
  const following = { form: eventData, signal, after: 1 };
  for await (const { page, events } of runtime.runs.follow(run_id, following)) {
    const { body } = page;
    outflow?.hold(body);
    try {
      let pieces: Piece[] = [];
      let length = 0;
      for (const event of events) {
        const { type } = event;
        if (!WANTED.has(type) && !type.startsWith('run.tool_') && !isTerminalEvent(type)) continue;
        const { at, data: fields } = body.storedOf(event);
        // biome-ignore lint/suspicious/noExplicitAny: the data of an event of the log
        const data: any = fields;
        const shown = onCall === undefined ? [] : calls.after({ type, at, data }).filter(isShown);
        // The first output may have no text.
        if (data.prompt_parts !== undefined) prompt_tokens = sumOf(data.prompt_parts);
        const piece = toPiece(type, data, { prompt_tokens, turns });
        if (type === 'run.started') turns = data.turn ?? 0;
        if (piece !== null) pieces.push(piece);
        length += data.text?.length ?? 0;
        const isMove = type === 'run.attempt_failed' && data.next !== undefined;
        const fails = isTerminalEvent(type) && piece?.type !== 'end';
        if (pieces.length > 0 && (isMove || fails || shown.length > 0 || length > BATCH_LENGTH)) {
          yield pieces;
          pieces = [];
          length = 0;
        }
        if (isMove) onMove?.(data.next);
        for (const call of shown) await onCall?.(call);
        if (fails) throw await errorOf(runtime, run_id);
      }
      if (pieces.length > 0) yield pieces;
    } finally {
      outflow?.release(body);
    }
  }
}

/** Characters of one batch, about. */
const BATCH_LENGTH = 64 * 1024;

function toPiece(
  type: string,
  // biome-ignore lint/suspicious/noExplicitAny: the data of an event of the log
  data: any,
  { prompt_tokens, turns }: { prompt_tokens: number | undefined; turns: number },
): Piece | null {
  // svc carries out these calls itself.
  if (data.call?.server !== undefined) return null;
  if (type === 'run.output_appended')
    return data.text !== '' || (data.call ?? data.opaque) !== undefined
      ? pieceOf(data, prompt_tokens)
      : null;
  // No third-party API has a reason for it, so it is an error there.
  if (type === 'run.completed')
    return formError({ ...data, provider: '' }) !== null ? null : endOf(data);
  if (type === 'run.turn_completed') return { type: 'turn' };
  if (type === 'run.asked_again') return { type: 'restart' };
  const isAgain = type === 'run.started' && data.resumes !== true && (data.turn ?? 0) === turns;
  return isAgain ? { type: 'restart' } : null;
}

const WANTED: ReadonlySet<string> = new Set([
  'run.started',
  'run.output_appended',
  'run.attempt_failed',
  'run.turn_completed',
  'run.asked_again',
]);

/** The parts of an answer after one more piece. Here text alone is a part, too. */
export function addPiece(parts: readonly OutputPart[], piece: OutputPiece): readonly OutputPart[] {
  return parts.length === 0 && (piece.kind ?? piece.opaque) === undefined
    ? [{ type: 'text', text: piece.text }]
    : partsAfter(parts, '', piece);
}

function pieceOf(
  { text, kind, call, logprobs, opaque }: RunOutput,
  prompt_tokens: number | undefined,
): OutputPiece {
  return {
    type: 'output',
    text,
    ...(kind === undefined ? {} : { kind }),
    ...(call === undefined ? {} : { call }),
    ...(logprobs === undefined ? {} : { logprobs }),
    ...(opaque === undefined ? {} : { opaque }),
    ...(prompt_tokens === undefined ? {} : { prompt_tokens }),
  };
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

function endOf({ finish_reason, usage, stop_sequence }: Omit<AnswerEnd, 'type'>): AnswerEnd {
  return {
    type: 'end',
    // No third-party API has a word for it.
    finish_reason: finish_reason === 'repetition' ? 'length' : finish_reason,
    usage,
    ...(stop_sequence === undefined ? {} : { stop_sequence }),
  };
}

async function errorOf(runtime: Pick<Runtime, 'runs'>, run_id: string): Promise<SvcError> {
  const unnamed = () => new SvcError('run_interrupted', `The run ${run_id} has no answer.`);
  return (await runtime.runs.failure(run_id)) ?? unnamed();
}
