import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import type { CallName, OutputKind, RunRequest, TokenLogprob } from '../../../machines/messages.ts';
import { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import type { OutputPart } from '../port.ts';
import { refuseUnsupported } from './call-options.ts';
import { ToolCalls } from './calls.ts';
import { garbled, type RequestContext, toFailure, tooLarge, truncated } from './failure.ts';
import { type Finish, finishPart } from './finish.ts';
import { statusOf } from './sdk-error.ts';
import { parseUpstreamError, type Secrets } from './upstream-error.ts';
import { WholeCharacters } from './whole-characters.ts';

/** What the AI SDK leaves out of an event of the provider, or changes. */
export interface RawEvent {
  /** Text of a refusal. The SDK delivers it as text of the answer. */
  refusal: string;
  /** Ids of tool calls as the server sends them. The SDK invents missing ones. */
  callIds: string[];
  /** Characters of the arguments of tool calls. */
  argumentLength: number;
  logprobs: TokenLogprob[];
  /** The stop text that ended the answer, if the server says it. */
  stop: string | null;
}

export interface Asked extends RequestContext {
  run_id: string;
  request: Pick<RunRequest, 'logprobs' | 'stop'>;
  /** Reads the events of a protocol that svc knows in detail. Null: the SDK's parts say all. */
  readRaw: ((value: unknown, logprobs: number | undefined) => RawEvent) | null;
  secrets: Secrets;
  limits: Pick<Limits, 'provider_answer_bytes' | 'provider_answer_parts'>;
}

/**
 * Converts the stream of the AI SDK to output parts.
 *
 * 1. An answer is complete only after exactly one finish with a known reason, and no error.
 * 2. Nothing is delivered after an error: text behind a gap is not an answer.
 * 3. Size and number of the parts have bounds, whatever their kind.
 * 4. A wish that the SDK leaves out of the request fails the run before any output. Where the body
 *    of the request is ours, it is refused before.
 *
 * Throws SvcError, and the errors of the stream.
 */
export async function* readAnswer(
  stream: ReadableStream<LanguageModelV4StreamPart>,
  asked: Asked,
): AsyncGenerator<OutputPart> {
  const reader = stream.getReader();
  const answer = new Answer(asked);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (value.type === 'error') throw errorPart(value.error, asked);
      yield* answer.take(value);
    }
    yield* answer.end();
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

type ToolCall = Extract<LanguageModelV4StreamPart, { type: 'tool-call' }>;

/** One answer, as far as it has come. */
class Answer {
  private readonly asked: Asked;
  private readonly characters = new WholeCharacters();
  private readonly calls: ToolCalls;
  private finish: Finish | null = null;
  private bytes = 0;
  private parts = 0;
  private lastKind: OutputKind | 'text' | null = null;
  /** The refusal of the present event, which the SDK delivers as text. */
  private refusal = '';
  /** Probabilities of tokens whose text is not delivered yet. */
  private logprobs: TokenLogprob[] = [];
  private stop: string | null = null;

  constructor(asked: Asked) {
    this.asked = asked;
    this.calls = new ToolCalls(asked.run_id);
  }

  *take(part: LanguageModelV4StreamPart): Generator<OutputPart> {
    switch (part.type) {
      case 'stream-start':
        return this.asked.readRaw === null ? refuseUnsupported(part.warnings) : undefined;
      case 'raw':
        return this.takeRaw(part.rawValue);
      case 'text-delta':
        return yield* this.takeText(part.delta);
      case 'reasoning-delta':
        return yield* this.output('reasoning', part.delta);
      case 'tool-input-start':
        return yield this.beginCall(part.id, part.toolName);
      case 'tool-input-delta':
        return yield* this.takeArguments(part.id, part.delta);
      case 'tool-call':
        return yield* this.takeCall(part);
      case 'file':
      case 'reasoning-file':
        throw unreadable(part.mediaType);
      case 'finish':
        if (this.finish !== null) throw truncated('The provider ended its answer more than once.');
        this.finish = part;
    }
  }

  *end(): Generator<OutputPart> {
    for (const [key, text] of this.characters.end()) {
      const { kind, call } = JSON.parse(key) as { kind: OutputKind | 'text'; call?: CallName };
      yield* this.piece(kind, text, call);
    }
    if (this.finish === null) throw truncated();
    yield* this.calls.end();
    if (this.logprobs.length > 0) yield* this.piece('text', '');
    yield finishPart(this.finish, {
      secrets: this.asked.secrets,
      isChat: this.asked.readRaw !== null,
      calls: this.calls.count,
      stop: this.stop,
    });
  }

  private beginCall(sdkId: string, name: string): OutputPart {
    if (this.asked.readRaw === null) this.calls.expect([sdkId], 0);
    this.count(name);
    this.addPart('tool_call');
    return this.calls.begin(sdkId, name);
  }

  private *takeArguments(sdkId: string, delta: string): Generator<OutputPart> {
    if (this.asked.readRaw === null) this.calls.expect([], delta.length);
    yield* this.output('tool_call', delta, this.calls.take(sdkId, delta));
  }

  /** Some providers send a call in pieces and then whole, others only whole. */
  private *takeCall({ toolCallId, toolName, input }: ToolCall): Generator<OutputPart> {
    if (this.calls.has(toolCallId)) return;
    yield this.beginCall(toolCallId, toolName);
    yield* this.takeArguments(toolCallId, input);
  }

  private takeRaw(value: unknown): void {
    const { logprobs: top, stop = [] } = this.asked.request;
    const chunk = this.asked.readRaw?.(value, top);
    if (chunk === undefined) return;
    this.refusal = chunk.refusal;
    this.calls.expect(chunk.callIds, chunk.argumentLength);
    for (const logprob of chunk.logprobs) {
      this.count(logprob.token, TOKEN_BYTES);
      for (const { token } of logprob.top) this.count(token, NUMBER_BYTES);
      this.logprobs.push(logprob);
    }
    if (chunk.stop !== null && stop.includes(chunk.stop)) this.stop = chunk.stop;
  }

  private *takeText(delta: string): Generator<OutputPart> {
    const isRefusal = this.refusal !== '' && this.refusal === delta;
    yield* this.output(isRefusal ? 'refusal' : 'text', delta);
  }

  private *output(
    kind: OutputKind | 'text',
    delta: string,
    call?: CallName,
  ): Generator<OutputPart> {
    this.count(delta);
    if (kind !== 'tool_call' && kind !== this.lastKind) this.addPart(kind);
    const key = JSON.stringify({ kind, call });
    yield* this.piece(kind, this.characters.push(key, delta), call);
  }

  private *piece(kind: OutputKind | 'text', text: string, call?: CallName): Generator<OutputPart> {
    const logprobs = kind === 'text' ? this.logprobs : [];
    if (text === '' && logprobs.length === 0) return;
    if (kind === 'text') this.logprobs = [];
    yield {
      type: 'output',
      text,
      token_ids: [],
      ...(kind === 'text' ? {} : { kind }),
      ...(call === undefined ? {} : { call }),
      ...(logprobs.length === 0 ? {} : { logprobs }),
    };
  }

  private addPart(kind: OutputKind | 'text'): void {
    const { provider_answer_parts: partsMax } = this.asked.limits;
    this.lastKind = kind;
    this.parts += 1;
    if (this.parts > partsMax)
      throw new SvcError(
        'provider_failed',
        `The provider sends more than ${partsMax} parts in one answer.`,
        { retryable: false },
      );
  }

  private count(text: string, more = 0): void {
    const { provider_answer_bytes: bytesMax } = this.asked.limits;
    this.bytes += Buffer.byteLength(text) + more;
    if (this.bytes > bytesMax) throw tooLarge('an answer', bytesMax);
  }
}

/** A probability in the log, about. */
const NUMBER_BYTES = 16;
/** The same with its list of likely tokens. A token may have no text. */
const TOKEN_BYTES = 64;

/** svc has no place for a file in an answer, and an answer without it would be another one. */
function unreadable(media_type: string): SvcError {
  return new SvcError(
    'capability_missing',
    `The model answers with a file (${media_type.slice(0, MEDIA_MAX)}), which svc does not take.`,
  );
}

const MEDIA_MAX = 80;

/**
 * An error part means one of three things:
 *
 * 1. The stream ended too early.
 * 2. An event has an unknown form, and may contain an error message.
 * 3. The provider reports an error, mostly with the status that it means.
 */
function errorPart(error: unknown, asked: Asked): SvcError {
  const { secrets } = asked;
  if (error instanceof Error && error.name === 'AI_InvalidResponseDataError') return truncated();
  const reported = statusOf(error, asked);
  if (reported !== null) return reported;
  if (!(error instanceof Error)) return toFailure(parseUpstreamError({ error }, secrets), asked);
  const inside = parseUpstreamError('value' in error ? error.value : null, secrets);
  return inside.message === null
    ? garbled(
        'The provider sent an event that cannot be understood, so its answer is not complete.',
      )
    : toFailure(inside, asked);
}
