import type { RunRequest, TokenLogprob } from '../../../machines/messages.ts';
import { asRecord, isRecord, isTooMuch } from '../../json.ts';
import type { Limits } from '../../limits.ts';
import type { OutputPart } from '../port.ts';
import { ToolCalls } from '../remote/calls.ts';
import { garbled, type RequestContext, toFailure, tooDeep, truncated } from '../remote/failure.ts';
import { finishPart, readUsage, reasonOf } from '../remote/finish.ts';
import { type Output, Pieces } from '../remote/pieces.ts';
import { statusOf } from '../remote/sdk-error.ts';
import { parseUpstreamError, type Secrets } from '../remote/upstream-error.ts';
import { CallPieces } from './call-pieces.ts';

export interface Asked extends RequestContext {
  run_id: string;
  request: Pick<RunRequest, 'logprobs' | 'stop'>;
  secrets: Secrets;
  limits: Pick<Limits, 'provider_answer_bytes' | 'provider_answer_parts'>;
}

/**
 * Reads the chunks of one chat completion. It owns the answer, as far as it has come.
 *
 * 1. Each chunk is checked once: the fields that are used, and no others.
 * 2. An answer is complete only with a finish reason that is known, and without an error.
 * 3. Nothing is read after an error: text behind a gap is not an answer.
 */
export class ChatAnswer {
  private readonly asked: Asked;
  private readonly pieces: Pieces;
  private readonly calls: ToolCalls;
  private readonly callPieces: CallPieces;
  private reason: string | null = null;
  private usage: unknown;
  private stop: string | null = null;

  constructor(asked: Asked) {
    this.asked = asked;
    this.pieces = new Pieces(asked.limits);
    this.calls = new ToolCalls(asked.run_id, this.pieces);
    this.callPieces = new CallPieces(this.calls, this.pieces);
  }

  /** The outputs since the last call, in order. */
  outputs(): readonly Output[] {
    return this.pieces.take();
  }

  /** Takes the data of one event. Throws SvcError. */
  take(data: string): void {
    if (data === '[DONE]') return;
    if (isTooMuch(data)) throw tooDeep();
    let chunk: unknown;
    try {
      chunk = JSON.parse(data);
    } catch {
      throw unreadable();
    }
    this.takeChunk(chunk);
  }

  /** Throws SvcError. */
  takeChunk(chunk: unknown): void {
    const { error, choices, usage } = asRecord(chunk);
    if (isSet(error)) throw this.reported(error);
    if (!Array.isArray(choices)) throw this.otherEvent(chunk);
    if (isSet(usage)) this.usage = usage;
    const [choice] = choices as unknown[];
    if (choice === undefined) return;
    if (!isRecord(choice)) throw unreadable();
    this.reason = optionalText(choice.finish_reason) ?? this.reason;
    this.noteStop(choice);
    if (this.asked.request.logprobs !== undefined)
      this.pieces.addLogprobs(readLogprobs(choice.logprobs, this.asked.request.logprobs));
    if (!isSet(choice.delta)) return;
    if (!isRecord(choice.delta)) throw unreadable();
    this.takeDelta(choice.delta);
  }

  /** Adds the last outputs. Throws stream_truncated for an answer that was cut off. */
  end(): void {
    this.pieces.end();
    if (this.reason === null) throw truncated();
    this.callPieces.end();
    this.calls.end();
    this.pieces.endLogprobs();
  }

  /** The last part. Throws stream_truncated for a reason of an incomplete answer. */
  finish(): OutputPart {
    const { reason: raw, asked, calls, stop } = this;
    return finishPart(
      { reason: reasonOf(raw ?? ''), raw, usage: readUsage(this.usage) },
      { secrets: asked.secrets, calls: calls.count, stop },
    );
  }

  private takeDelta(delta: Record<string, unknown>): void {
    const { content, refusal, tool_calls } = delta;
    this.text('reasoning', optionalText(delta.reasoning_content) ?? optionalText(delta.reasoning));
    if (typeof content === 'string') this.text('text', content);
    else if (Array.isArray(content)) for (const part of content) this.takePart(asRecord(part));
    else if (isSet(content)) throw unreadable();
    if (typeof refusal === 'string') this.text('refusal', refusal);
    if (!isSet(tool_calls)) return;
    if (!Array.isArray(tool_calls)) throw unreadable();
    for (const piece of tool_calls) this.takeCall(piece);
  }

  /** Some servers send a list of parts. */
  private takePart({ type, text, thinking }: Record<string, unknown>): void {
    if (type === 'text' && typeof text === 'string') this.text('text', text);
    if (type !== 'thinking' || !Array.isArray(thinking)) return;
    for (const thought of thinking) this.text('reasoning', optionalText(asRecord(thought).text));
  }

  private takeCall(piece: unknown): void {
    const { index, id, function: called } = asRecord(piece);
    if (!isRecord(called) || (isSet(index) && typeof index !== 'number')) throw unreadable();
    this.callPieces.take({
      index: typeof index === 'number' ? index : null,
      id: optionalText(id)?.trim() === '' ? '' : (optionalText(id) ?? ''),
      name: optionalText(called.name)?.trim() === '' ? '' : (optionalText(called.name) ?? ''),
      text: optionalText(called.arguments) ?? '',
    });
  }

  private text(kind: 'text' | 'reasoning' | 'refusal', text: string | null): void {
    if (text !== null && text !== '') this.pieces.add(kind, text);
  }

  /** Servers that say which stop text ended the answer have two names for it. */
  private noteStop({ stop_reason, matched_stop }: Record<string, unknown>): void {
    const said = typeof stop_reason === 'string' ? stop_reason : matched_stop;
    if (typeof said === 'string' && this.asked.request.stop?.includes(said)) this.stop = said;
  }

  /** An error inside the stream. Some servers put a status of HTTP in it. */
  private reported(error: unknown) {
    const { secrets } = this.asked;
    return (
      statusOf(error, this.asked) ?? toFailure(parseUpstreamError({ error }, secrets), this.asked)
    );
  }

  /** An event that is no chunk: it may have the message of an error. */
  private otherEvent(event: unknown) {
    const reported = parseUpstreamError(event, this.asked.secrets);
    return reported.message === null ? unreadable() : toFailure(reported, this.asked);
  }
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Null: it is not there. Throws stream_garbled for another type. */
function optionalText(value: unknown): string | null {
  if (typeof value === 'string') return value;
  if (isSet(value)) throw unreadable();
  return null;
}

function unreadable() {
  return garbled(
    'The provider sent an event that cannot be understood, so its answer is not complete.',
  );
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
