import type { FinishReason } from '../../../machines/run/context.ts';
import { asOpaque } from '../../contract/messages/opaque-forms.ts';
import { THOUGHT } from '../../contract/messages/parts.ts';
import { asRecord } from '../../json.ts';
import {
  argumentsOf,
  EventAnswer,
  type Fields,
  firstOf,
  isSet,
  listOf,
  noMedia,
  unreadableError,
} from '../remote/event-answer.ts';
import { sum, usageOf } from '../remote/finish.ts';

/**
 * Reads the chunks of Gemini, or a list of them. Some servers give a finish reason with every
 * chunk, so that alone does not end the answer: see `provider_end_ms`.
 */
export class GeminiAnswer extends EventAnswer {
  document(value: unknown): boolean {
    const chunks = [value].flat().map(asRecord);
    const isAnswer = ({ candidates, promptFeedback, error }: Fields) =>
      isSet(candidates) || isSet(promptFeedback) || isSet(error);
    if (!chunks.some(isAnswer)) return false;
    for (const chunk of chunks) this.read(chunk);
    return true;
  }

  protected event(chunk: Fields): void {
    const { candidates, usageMetadata, promptFeedback } = chunk;
    if (isSet(usageMetadata)) this.usage = usageMetadata;
    const { blockReason } = asRecord(promptFeedback);
    if (isSet(blockReason) && blockReason !== 'BLOCK_REASON_UNSPECIFIED')
      this.reason = 'PROHIBITED_CONTENT';
    if (Array.isArray(candidates)) this.takeCandidate(firstOf(candidates) ?? {});
    else if (isSet(candidates)) throw unreadableError();
    else if (!isSet(usageMetadata)) this.foreignEvent(chunk);
  }

  protected reasonOf(raw: string) {
    return REASONS[raw.toUpperCase()];
  }

  protected readUsage() {
    const usage = asRecord(this.usage);
    return usageOf({
      input: sum(usage.promptTokenCount, usage.toolUsePromptTokenCount),
      output: sum(usage.candidatesTokenCount, usage.thoughtsTokenCount),
      cached: usage.cachedContentTokenCount,
      reasoning: usage.thoughtsTokenCount,
    });
  }

  private takeCandidate({ content, finishReason }: Fields): void {
    for (const part of listOf(asRecord(content).parts)) this.takePart(asRecord(part));
    if (typeof finishReason === 'string' && finishReason !== '') this.reason = finishReason;
  }

  /** Tools of the server, such as a search, are not part of the answer. */
  private takePart(part: Fields): void {
    const { text, thought, functionCall, inlineData, fileData, thoughtSignature } = part;
    const kind = thought === true ? 'reasoning' : 'text';
    this.text(kind, text);
    if (!isSet(functionCall)) this.opaque(kind, THOUGHT, thoughtSignature);
    const file = asRecord(inlineData ?? fileData);
    if (isSet(inlineData ?? fileData)) throw noMedia(`a file (${file.mimeType})`);
    if (!isSet(functionCall)) return;
    const { id, name, args, partialArgs } = asRecord(functionCall);
    if (isSet(partialArgs)) throw unreadableError();
    const call = this.beginCall(id, name, asOpaque(THOUGHT, thoughtSignature));
    this.callText(call, argumentsOf(args));
  }
}

const REASONS: Partial<Record<string, FinishReason>> = {
  STOP: 'stop',
  MAX_TOKENS: 'length',
  SAFETY: 'content_filter',
  RECITATION: 'content_filter',
  BLOCKLIST: 'content_filter',
  PROHIBITED_CONTENT: 'content_filter',
  SPII: 'content_filter',
  IMAGE_SAFETY: 'content_filter',
};
