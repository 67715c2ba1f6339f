import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import { asOpaque } from '../../contract/messages/opaque-forms.ts';
import { ITEM, type Opaque } from '../../contract/messages/parts.ts';
import type { SvcError } from '../../errors.ts';
import { asRecord } from '../../json.ts';
import type { Limits } from '../../limits.ts';
import type { OutputPart } from '../../ports/providers.ts';
import { type Returns, refuseUnsupported } from './call-options.ts';
import { type Call, ToolCalls, unassignedPieceError } from './calls.ts';
import { noMedia, unreadableError } from './event-answer.ts';
import { type RequestContext, toFailure, truncatedError } from './failure.ts';
import { finishPart, type SdkFinish, sdkReason, sdkUsage } from './finish.ts';
import { Pieces } from './pieces.ts';
import { statusOf } from './sdk-error.ts';
import { parseUpstreamError, type Secrets } from './upstream-error.ts';

export interface AnswerContext extends RequestContext {
  run_id: string;
  /** Where the package has the data that the provider must get back. */
  returns?: Returns | null;
  secrets: Secrets;
  limits: Pick<Limits, 'provider_answer_bytes' | 'provider_answer_parts'>;
}

/**
 * Converts the stream of the AI SDK to output parts.
 *
 * 1. An answer is complete only after exactly one finish with a known reason, and no error.
 * 2. Nothing is delivered after an error: text behind a gap is not an answer.
 * 3. A wish that the SDK leaves out of the request fails the run before any output.
 *
 * Throws SvcError, and the errors of the stream.
 */
export async function* readAnswer(
  stream: ReadableStream<LanguageModelV4StreamPart>,
  context: AnswerContext,
): AsyncGenerator<OutputPart> {
  const reader = stream.getReader();
  const answer = new Answer(context);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (value.type === 'error') throw errorPart(value.error, context);
      answer.take(value);
      yield* answer.pieces.take();
    }
    const finish = answer.end();
    yield* answer.pieces.take();
    yield finish();
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

type ToolCall = Extract<LanguageModelV4StreamPart, { type: 'tool-call' }>;
/** Of a text or of reasoning. Its end may have no text. */
type Piece = { delta?: string } & Pick<ToolCall, 'providerMetadata'>;

/** One answer, as far as it has come. */
class Answer {
  readonly pieces: Pieces;
  private readonly context: AnswerContext;
  private readonly calls: ToolCalls;
  /** By the id that the SDK uses. */
  private readonly byId = new Map<string, Call>();
  /** Ids of calls that have come whole. Some servers give several calls one id. */
  private readonly whole = new Set<string>();
  private finish: SdkFinish | null = null;

  constructor(context: AnswerContext) {
    this.context = context;
    this.pieces = new Pieces(context.limits, context.secrets.key);
    this.calls = new ToolCalls(context.run_id, this.pieces);
  }

  take(part: LanguageModelV4StreamPart): void {
    switch (part.type) {
      case 'stream-start':
        refuseUnsupported(part.warnings);
        break;
      case 'text-delta':
      case 'text-end':
        this.addPiece('text', part);
        break;
      case 'reasoning-delta':
      case 'reasoning-end':
        this.addPiece('reasoning', part);
        break;
      case 'tool-input-start':
        this.beginCall(part.id, part.toolName);
        break;
      case 'tool-input-delta':
        this.calls.add(this.callOf(part.id), part.delta);
        break;
      case 'tool-call':
        this.takeCall(part);
        break;
      case 'file':
      case 'reasoning-file':
        throw noMedia(`a file (${part.mediaType})`);
      case 'finish':
        if (this.finish !== null)
          throw truncatedError('The provider ended its answer more than once.');
        this.finish = part;
    }
  }

  /** Returns what makes the last part, after the last outputs. */
  end(): () => OutputPart {
    this.pieces.end();
    const { finish, context, calls } = this;
    if (finish !== null) calls.end();
    return () => {
      if (finish === null) throw truncatedError();
      return finishPart(
        {
          reason: sdkReason(finish),
          raw: finish.finishReason.raw ?? null,
          usage: sdkUsage(finish),
        },
        { secrets: context.secrets, calls: calls.count, stop: null },
      );
    };
  }

  private callOf(sdkId: string): Call {
    const call = this.byId.get(sdkId);
    if (call === undefined) throw unassignedPieceError();
    return call;
  }

  private addPiece(kind: 'text' | 'reasoning', { delta = '', providerMetadata }: Piece): void {
    if (delta !== '') this.pieces.add(kind, delta);
    const opaque = this.opaqueIn(providerMetadata);
    if (opaque !== undefined) this.pieces.addOpaque(kind, opaque);
  }

  /** The data that the provider must get back, at the place where its package has it. */
  private opaqueIn(metadata: unknown): Opaque | undefined {
    if (metadata === undefined) return undefined;
    const { options = '', forms = [] } = this.context.returns ?? {};
    const { itemId: id, ...own } = asRecord(asRecord(metadata)[options]);
    const all = forms.map((form) => asOpaque(form, own[form]));
    const opaque = all.find((each) => each !== undefined);
    if (opaque?.form !== ITEM) return opaque;
    return { form: ITEM, data: JSON.stringify({ id, encrypted_content: opaque.data }) };
  }

  private beginCall(sdkId: string, name: string, opaque?: Opaque): Call {
    const call = this.calls.begin(sdkId, name, opaque);
    this.byId.set(sdkId, call);
    return call;
  }

  /** Some providers send a call in pieces and then whole, others its name and then all of it. */
  private takeCall({ toolCallId, toolName, input, providerMetadata }: ToolCall): void {
    const begun = this.whole.has(toolCallId) ? undefined : this.byId.get(toolCallId);
    const opaque = this.opaqueIn(providerMetadata);
    const call = begun ?? this.beginCall(toolCallId, toolName, opaque);
    if (begun !== undefined && opaque !== undefined) this.calls.addOpaque(call, opaque);
    this.whole.add(toolCallId);
    if (call.isBlank) this.calls.add(call, input);
  }
}

/**
 * An error part means one of three things:
 *
 * 1. The stream ended too early.
 * 2. An event has an unknown form, and may contain an error message.
 * 3. The provider reports an error, mostly with the status that it means.
 */
function errorPart(error: unknown, context: AnswerContext): SvcError {
  const { secrets } = context;
  if (error instanceof Error && error.name === 'AI_InvalidResponseDataError')
    return truncatedError();
  const reported = statusOf(error, context);
  if (reported !== null) return reported;
  if (!(error instanceof Error)) return toFailure(parseUpstreamError({ error }, secrets), context);
  const inside = parseUpstreamError('value' in error ? error.value : null, secrets);
  return inside.message === null ? unreadableError() : toFailure(inside, context);
}
