import type { FinishReason, Usage } from '../../../machines/run/context.ts';
import { asOpaque } from '../../contract/messages/opaque-forms.ts';
import type { Opaque, RunRequest } from '../../contract/messages/parts.ts';
import { SvcError } from '../../errors.ts';
import { isRecord } from '../../json.ts';
import type { Limits } from '../../limits.ts';
import type { OutputPart } from '../../ports/providers.ts';
import { type Call, ToolCalls } from './calls.ts';
import {
  garbledError,
  type RequestContext,
  readJson,
  toFailure,
  truncatedError,
} from './failure.ts';
import { finishPart } from './finish.ts';
import { type Output, Pieces } from './pieces.ts';
import { statusOf } from './sdk-error.ts';
import { parseUpstreamError, type Secrets } from './upstream-error.ts';

export interface EventAnswerContext extends RequestContext {
  run_id: string;
  request: Pick<RunRequest, 'logprobs' | 'stop'>;
  secrets: Secrets;
  limits: Pick<Limits, 'provider_answer_bytes' | 'provider_answer_parts'>;
  /** A tool that the adapter added: its arguments are the text of the answer. */
  json_tool?: string | null;
}

/**
 * How far an answer has come.
 *
 * 1. `reason`: it has its finish reason, and the usage may follow.
 * 2. `usage`: it has both, and only a mark of the end may follow.
 * 3. `ended`: it has that mark. Nothing after it is read.
 */
export type Stage = 'open' | 'reason' | 'usage' | 'ended';

/**
 * Reads the events of one answer. It owns the answer, as far as it has come. A subclass knows the
 * protocol.
 *
 * 1. Each event is checked once: the fields that are used, and no others. An unknown event is left
 *    out. An unreadable event with text of the answer fails the answer.
 * 2. An answer is complete only with a finish reason that is known, and without an error.
 * 3. Nothing is read after an error: text behind a gap is not an answer.
 */
export abstract class EventAnswer {
  protected readonly context: EventAnswerContext;
  protected readonly pieces: Pieces;
  protected readonly calls: ToolCalls;
  /** As the server says it. */
  protected reason: string | null = null;
  protected usage: unknown;
  protected stop: string | null = null;
  /** Tokens a second, as the server measured it. */
  protected speed: number | null = null;
  private hasEnded = false;
  /** Texts beside the tool of the adapter. They count if it is not called. */
  private beside = '';
  private isJsonCalled = false;

  constructor(context: EventAnswerContext) {
    this.context = context;
    this.pieces = new Pieces(context.limits, context.secrets.key);
    this.calls = new ToolCalls(context.run_id, this.pieces);
  }

  get stage(): Stage {
    if (this.hasEnded) return 'ended';
    if (this.reason === null) return 'open';
    return this.usage === undefined ? 'reason' : 'usage';
  }

  /** The outputs since the last call, in order. */
  outputs(): readonly Output[] {
    return this.pieces.take();
  }

  /** Takes the data of one event. Throws SvcError. */
  take(data: string): void {
    // The usual end. The error of the parser has a stack, which costs more than most answers.
    if (data === '[DONE]') this.hasEnded = true;
    if (this.hasEnded) return;
    const event = data.length > SMALL ? readJson(data, 'one event') : tryParse(data);
    if (event === undefined) {
      if (data.trim() !== '[DONE]' && this.reason === null) throw unreadableError();
      this.hasEnded = true;
    }
    if (isRecord(event)) this.read(event);
    else if (isSet(event)) throw unreadableError();
  }

  /** Takes the whole answer of a server that does not stream. False if it is not such an answer. */
  abstract document(value: unknown): boolean;

  /** Adds the last outputs. Throws stream_truncated for an answer that was cut off. */
  end(): void {
    this.pieces.end();
    if (this.reason === null) throw truncatedError();
    if (!this.isJsonCalled && this.beside !== '') this.pieces.add('text', this.beside);
    this.calls.end();
    this.pieces.endLogprobs();
  }

  /** The last part. Throws stream_truncated for a reason of an incomplete answer. */
  finish(): OutputPart {
    const { reason: raw, context, calls, stop, speed } = this;
    const reason = this.reasonOf(raw ?? '');
    const isJson = this.isJsonCalled && calls.count === 0 && reason === 'tool_calls';
    return finishPart(
      { reason: isJson ? 'stop' : reason, raw, usage: this.readUsage(), speed },
      { secrets: context.secrets, calls: calls.count, stop },
    );
  }

  protected read(event: Fields): void {
    if (isSet(event.error)) throw this.reportedFailure(event.error);
    this.event(event);
  }

  protected abstract event(event: Fields): void;
  protected abstract reasonOf(raw: string): FinishReason | undefined;
  protected abstract readUsage(): Usage;

  protected markEnd(): void {
    this.hasEnded = true;
  }

  protected text(kind: 'text' | 'reasoning' | 'refusal', text: unknown): void {
    if (typeof text !== 'string' || text === '') return;
    if (kind !== 'text' || this.context.json_tool == null) this.pieces.add(kind, text);
    else {
      this.pieces.count(text);
      this.beside += text;
    }
  }

  /** Ends a part with what only its author can read. */
  protected opaque(kind: 'text' | 'reasoning', form: string, data: unknown): void {
    const opaque = asOpaque(form, data);
    if (opaque === undefined || (kind === 'text' && this.context.json_tool != null)) return;
    this.pieces.addOpaque(kind, opaque);
  }

  /** Null: its arguments are the text of the answer. `opaque`: what only its author can read. */
  protected beginCall(id: unknown, name: unknown, opaque?: Opaque): Call | null {
    if (typeof name !== 'string' || name === '') throw unreadableError();
    if (name !== this.context.json_tool)
      return this.calls.begin(typeof id === 'string' ? id : '', name, opaque);
    this.isJsonCalled = true;
    return null;
  }

  protected callText(call: Call | null, text: string): void {
    if (text === '') return;
    if (call === null) this.pieces.add('text', text);
    else this.calls.add(call, text);
  }

  /** An event outside the protocol: an error, or an event without a part of the answer. */
  protected foreignEvent(event: Fields): void {
    const reported = parseUpstreamError(event, this.context.secrets);
    if (reported.message !== null) throw toFailure(reported, this.context);
    if (TEXTS.some((name) => isSet(event[name]) && event[name] !== '')) throw unreadableError();
  }

  /** An error inside the stream. Some servers put a status of HTTP in it. */
  protected reportedFailure(error: unknown) {
    const { secrets } = this.context;
    return (
      statusOf(error, this.context) ??
      toFailure(parseUpstreamError({ error }, secrets), this.context)
    );
  }
}

export type Fields = Record<string, unknown>;

/** Where an event of another protocol has its text. */
const TEXTS = [
  'delta',
  'text',
  'content',
  'output',
  'response',
  'message',
  'candidates',
  'choices',
  'content_block',
];

/** No shorter text has so many levels or values that they take time or stack. */
const SMALL = 1024;

function tryParse(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}

export function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}

export function unreadableError() {
  return garbledError(
    'The provider sent an event that cannot be understood, so its answer is not complete.',
  );
}

/** svc has no place for media in an answer, and an answer without them would be incomplete. */
export function noMedia(what: string): SvcError {
  return new SvcError(
    'capability_missing',
    `The model answers with ${what.slice(0, MEDIA_MAX)}, which svc does not take.`,
  );
}

const MEDIA_MAX = 100;

/** The first of these that has the number 0. Further ones are not requested. */
export function firstOf(choices: readonly unknown[]): Fields | undefined {
  for (const choice of choices) {
    if (choice === null) continue;
    if (!isRecord(choice)) throw unreadableError();
    if (Number(choice.index ?? 0) === 0) return choice;
  }
  return undefined;
}

/** The missing rest of a text that came in pieces, and then whole. */
export function restOf(came: string, whole: string): string {
  if (whole.startsWith(came)) return whole.slice(came.length);
  if (whole.length > came.length) throw unreadableError();
  return '';
}

export function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Arguments as a text. Some servers send an object. */
export function argumentsOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return isRecord(value) && Object.keys(value).length > 0 ? JSON.stringify(value) : '';
}
