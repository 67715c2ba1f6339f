import type { RunRecord } from '../../contract/contract.ts';
import type { TokenLogprob } from '../../contract/messages/parts.ts';
import { argumentsObject, asObject, parseForeignJson } from '../../json.ts';
import type { Answer } from '../answer.ts';
import type { AnswerEnd } from '../pieces.ts';
import type { PlacedPiece } from '../steady.ts';

/** How an answer is shown: as the request named its model, with or without thoughts. */
export interface Shape {
  model: string;
  thoughts: boolean;
  /** `chat`: a message. `generate`: a text. */
  as: 'chat' | 'generate';
}

interface Piece {
  text?: string;
  thinking?: string;
  calls?: Answer['calls'];
  logprobs?: readonly TokenLogprob[] | undefined;
}

/** One object of an answer: a whole one, or a line of a stream. */
export function part({ model, as }: Shape, piece: Piece, rest: object): object {
  const { text = '', thinking = '', calls = [], logprobs } = piece;
  const thought = thinking === '' ? {} : { thinking };
  return {
    model,
    created_at: new Date().toISOString(),
    ...(as === 'generate'
      ? { response: text, ...thought }
      : {
          message: {
            role: 'assistant',
            content: text,
            ...thought,
            ...(calls.length === 0 ? {} : { tool_calls: calls.map(callOf) }),
          },
        }),
    ...(logprobs === undefined ? {} : { logprobs: logprobs.map(logprobOf) }),
    ...rest,
  };
}

/** The whole answer. */
export function wholeOf(shape: Shape, answer: Answer, run: RunRecord, wanted: boolean): object {
  const { text, refusal, reasoning, calls, logprobs } = answer;
  return part(
    shape,
    {
      text: text + refusal,
      thinking: shape.thoughts ? reasoning : '',
      calls: complete(calls, answer),
      ...(wanted ? { logprobs } : {}),
    },
    finalFieldsOf(answer, run),
  );
}

/** The lines of a streamed answer. A tool call comes whole, before the last line. */
export class Lines {
  private readonly shape: Shape;
  private readonly calls = new Map<number, { id: string; name: string; arguments: string }>();

  constructor(shape: Shape) {
    this.shape = shape;
  }

  /** Empty text: the piece is not shown yet, or not at all. */
  piece({ kind, text, call, part: place, logprobs, opaque }: PlacedPiece): string {
    if (kind === 'tool_call') {
      const before = this.calls.get(place)?.arguments ?? '';
      this.calls.set(place, {
        id: call?.id ?? '',
        name: call?.name ?? '',
        arguments: before + text,
      });
      return '';
    }
    const isHidden = kind === 'reasoning' && !this.shape.thoughts;
    if (isHidden || (text === '' && opaque !== undefined)) return '';
    return this.line(kind === 'reasoning' ? { thinking: text } : { text, logprobs });
  }

  end(end: AnswerEnd, run: RunRecord): string {
    const written = [...this.calls.values()].map(
      (call) => ({ type: 'tool_call', ...call }) as const,
    );
    const calls = complete(written, end);
    const called = calls.length === 0 ? '' : this.line({ calls });
    return called + lineOf(part(this.shape, {}, finalFieldsOf(end, run)));
  }

  private line(piece: Piece): string {
    return lineOf(part(this.shape, piece, { done: false }));
  }
}

export function lineOf(value: object): string {
  return `${JSON.stringify(value)}\n`;
}

/** The calls of the answer. One that was cut may have an incomplete one, which is left out. */
function complete(calls: Answer['calls'], end: Omit<AnswerEnd, 'type'>): Answer['calls'] {
  if (end.finish_reason !== 'length') return calls;
  const isWhole = (written: string) => asObject(parseForeignJson(written)) !== null;
  return calls.filter(({ arguments: written }) => written.trim() === '' || isWhole(written));
}

function callOf({ id, name, arguments: written }: Answer['calls'][number], index: number): object {
  return { id, function: { index, name, arguments: argumentsObject(written) } };
}

function logprobOf({ token, logprob, top }: TokenLogprob): object {
  const bytes = (text: string) => [...Buffer.from(text)];
  return {
    token,
    logprob,
    bytes: bytes(token),
    top_logprobs: top.map((one) => ({ ...one, bytes: bytes(one.token) })),
  };
}

/** The fields of the last object. Durations are in nanoseconds. Unknown values are left out. */
function finalFieldsOf({ finish_reason, usage }: Omit<AnswerEnd, 'type'>, run: RunRecord): object {
  const { created_at, started_at, first_output_at, ended_at, load_ms = 0 } = run;
  const { tokens_per_second: speed } = run;
  const seconds = speed ? (usage.output_tokens ?? 0) / speed : null;
  const load = load_ms * NANOSECONDS;
  return Object.fromEntries(
    Object.entries({
      done: true,
      done_reason: finish_reason === 'length' ? 'length' : 'stop',
      total_duration: nanosecondsBetween(created_at, ended_at),
      // With the time in the queue: there a run waits for the memory of its model.
      load_duration: plus(nanosecondsBetween(created_at, started_at), load),
      prompt_eval_count: usage.input_tokens,
      prompt_eval_duration: plus(nanosecondsBetween(started_at, first_output_at), -load),
      eval_count: usage.output_tokens,
      // Clients divide by it, so it is there only where that is the speed.
      eval_duration: seconds === null ? null : Math.round(seconds * 1e9),
    }).filter(([, value]) => value !== null),
  );
}

function plus(duration: number | null, more: number): number | null {
  return duration === null ? null : Math.max(0, duration + more);
}

function nanosecondsBetween(from: string | null, to: string | null): number | null {
  if (from === null || to === null) return null;
  return Math.max(0, Date.parse(to) - Date.parse(from)) * NANOSECONDS;
}
const NANOSECONDS = 1e6;
