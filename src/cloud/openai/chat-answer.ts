import type { Usage } from '../../../machines/run/context.ts';
import { opaqueInExtra } from '../../contract/messages/opaque-forms.ts';
import { DETAILS, type TokenLogprob } from '../../contract/messages/parts.ts';
import { asObject, asRecord, excessOf, isRecord } from '../../json.ts';
import { jsonBudgets } from '../../limits.ts';
import {
  argumentsOf,
  EventAnswer,
  type EventAnswerContext,
  type Fields,
  firstOf,
  isSet,
  listOf,
  noMedia,
  unreadableError,
} from '../remote/event-answer.ts';
import { tooMuch } from '../remote/failure.ts';
import { reasonOf, speedIn, usageAfter } from '../remote/finish.ts';
import { CallPieces } from './call-pieces.ts';

const UNCOUNTED: Usage = { input_tokens: null, output_tokens: null };

/** Reads the chunks of one chat completion, or a whole one. */
export class ChatAnswer extends EventAnswer {
  private readonly callPieces: CallPieces;
  private counted: Usage | null = null;
  /** What came in deltas. A message after them repeats it. */
  private readonly came = { text: false, reasoning: false, calls: false, details: false };
  /** The reasoning as OpenRouter sends it. */
  private readonly details: Fields[] = [];

  constructor(context: EventAnswerContext) {
    super(context);
    this.callPieces = new CallPieces(this.calls, this.pieces);
  }

  document(value: unknown): boolean {
    const { choices } = asRecord(value);
    if (!Array.isArray(choices)) return false;
    this.read(asRecord(value));
    return true;
  }

  override end(): void {
    if (this.reason !== null) this.callPieces.end();
    this.endDetails();
    super.end();
  }

  protected event(chunk: Fields): void {
    const { choices } = chunk;
    this.counted = usageAfter(this.counted, chunk);
    this.usage = this.counted ?? undefined;
    this.speed = speedIn(chunk) ?? this.speed;
    if (Array.isArray(choices)) {
      const choice = firstOf(choices);
      if (choice !== undefined) this.takeChoice(choice);
    } else if (isSet(choices)) throw unreadableError();
    else this.foreignEvent(chunk);
  }

  protected reasonOf(raw: string) {
    return reasonOf(raw);
  }

  protected readUsage() {
    return this.counted ?? UNCOUNTED;
  }

  private takeChoice(choice: Fields): void {
    const { finish_reason: reason, delta, message, text } = choice;
    if (typeof reason === 'string' && reason !== '') this.reason = reason;
    this.noteStop(choice);
    if (this.context.request.logprobs !== undefined)
      this.pieces.addLogprobs(readLogprobs(choice.logprobs, this.context.request.logprobs));
    const { came } = this;
    if (isRecord(delta)) {
      const { content, tool_calls, function_call, reasoning_details } = delta;
      if (isSet(reasoning_details)) came.details = true;
      this.addDetails(reasoning_details);
      if (this.takeReasoning(delta)) came.reasoning = true;
      if (isSet(content) && content !== '') came.text = true;
      if (isSet(tool_calls) || isSet(function_call)) came.calls = true;
      this.takeContent(delta);
      this.takeCalls(delta);
    } else if (typeof delta === 'string') this.text('text', delta);
    else if (isSet(delta)) throw unreadableError();
    if (isRecord(message)) {
      if (!came.details) this.details.push(...objectsIn(message.reasoning_details));
      if (!came.reasoning) this.takeReasoning(message);
      if (!came.text) this.takeContent(message);
      if (!came.calls) this.takeCalls(message);
    }
    if (!came.text) this.text('text', text);
  }

  private takeContent({ content, refusal, images, audio, extra_content }: Fields): void {
    if (typeof content === 'string') this.text('text', content);
    else if (Array.isArray(content)) for (const part of content) this.takePart(part);
    else if (isSet(content)) this.takePart(content);
    this.text('refusal', refusal);
    const opaque = opaqueInExtra(extra_content);
    if (opaque !== undefined) this.opaque('text', opaque.form, opaque.data);
    if (Array.isArray(images) && images.length > 0) throw noMedia('an image');
    if (isSet(audio)) throw noMedia('a sound');
  }

  /** Some servers send a list of parts. */
  private takePart(part: unknown): void {
    const { type, text, thinking, refusal } = asRecord(part);
    if (typeof part === 'string') this.text('text', part);
    else if (type === 'thinking' || type === 'reasoning')
      this.text('reasoning', textOf(thinking ?? text));
    else if (typeof text === 'string') this.text('text', text);
    else if (typeof refusal === 'string') this.text('refusal', refusal);
    else if (type === 'text' || type === undefined) throw unreadableError();
    else if (/image|audio|file/.test(String(type))) throw noMedia('a file');
  }

  /** Servers have five names for it, and some send it under two of them. */
  private takeReasoning(delta: Fields): boolean {
    const { reasoning_content, reasoning, reasoning_text, thinking, reasoning_details } = delta;
    const text =
      textOf(reasoning_content) ||
      textOf(reasoning) ||
      textOf(reasoning_text) ||
      textOf(thinking) ||
      textOf(reasoning_details);
    this.text('reasoning', text);
    return text !== '';
  }

  /** A text comes in pieces, and its signature may follow it. Anything else is whole. */
  private addDetails(pieces: unknown): void {
    for (const piece of objectsIn(pieces)) {
      const { type, index } = piece;
      const begun = this.details.findLast((one) => one.type === type && one.index === index);
      if (begun === undefined || type === 'reasoning.encrypted') this.details.push({ ...piece });
      else
        for (const [name, value] of Object.entries(piece))
          if (isSet(value)) begun[name] = PIECED.has(name) ? `${begun[name] ?? ''}${value}` : value;
    }
  }

  /** Throws stream_oversized. */
  private endDetails(): void {
    if (this.details.length === 0) return;
    const data = JSON.stringify(this.details);
    const excess = excessOf(data, jsonBudgets.foreign);
    if (excess !== null) throw tooMuch('the reasoning_details of an answer', excess);
    this.opaque('reasoning', DETAILS, data);
  }

  private takeCalls({ tool_calls, function_call }: Fields): void {
    if (isRecord(function_call)) this.takeCall({ index: 0, function: function_call });
    if (Array.isArray(tool_calls)) for (const piece of tool_calls) this.takeCall(piece);
    else if (isRecord(tool_calls)) this.takeCall(tool_calls);
    else if (isSet(tool_calls)) throw unreadableError();
  }

  private takeCall(piece: unknown): void {
    if (!isRecord(piece) || isSet(piece.custom)) throw unreadableError();
    const { index, id, function: called } = piece;
    const { name, arguments: input } = isRecord(called) ? called : piece;
    const at = typeof index === 'string' && index.trim() !== '' ? Number(index) : index;
    this.callPieces.take({
      index: Number.isInteger(at) ? (at as number) : null,
      id: nameOf(id),
      name: nameOf(name),
      text: argumentsOf(input),
      opaque: opaqueInExtra(piece.extra_content),
    });
  }

  /** Servers that say which stop text ended the answer have two names for it. */
  private noteStop({ stop_reason, matched_stop }: Fields): void {
    const sequence = typeof stop_reason === 'string' ? stop_reason : matched_stop;
    if (typeof sequence === 'string' && this.context.request.stop?.includes(sequence))
      this.stop = sequence;
  }
}

/** Text in any form: a string, a list, or an object that has it. Other fields are not text. */
function textOf(value: unknown, depth = 0): string {
  if (typeof value === 'string') return value;
  if (!isRecord(value) || depth > TEXT_DEPTH) return '';
  if (Array.isArray(value)) return value.map((part) => textOf(part, depth + 1)).join('');
  const { text, content, summary, thinking } = value;
  return textOf(text ?? content ?? summary ?? thinking, depth + 1);
}

const TEXT_DEPTH = 4;
const objectsIn = (list: unknown): Fields[] =>
  listOf(list).flatMap<Fields>((one) => asObject(one) ?? []);
/** Fields of a detail whose pieces are one text. */
const PIECED: ReadonlySet<string> = new Set(['text', 'summary']);

function nameOf(value: unknown): string {
  if (typeof value === 'number') return String(value);
  return typeof value !== 'string' || value.trim() === '' ? '' : value;
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
