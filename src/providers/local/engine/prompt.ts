import type { ChatHistoryItem, ChatWrapper, LlamaModel, LlamaText, Token } from 'node-llama-cpp';
import {
  type Message,
  promptOf,
  shortMessages,
  systemOf,
  textOf,
} from '../../../../machines/messages.ts';
import { SvcError } from '../../../errors.ts';
import type { LoadedModel } from './load.ts';

export interface Asked {
  messages: readonly Message[];
}

/**
 * Returns the tokens of the prompt. Throws context_length_exceeded if they leave no room for an
 * answer: a prompt is never cut.
 */
export function fittingPrompt(
  { model, wrapper, context_length, bytesPerTokenMax, rendered }: LoadedModel,
  asked: Asked,
): Token[] {
  const bytes = asked.messages
    .flatMap(({ content }) => content.map(textOf))
    .reduce((sum, said) => sum + Buffer.byteLength(said), 0);
  const least = Math.ceil(bytes / bytesPerTokenMax);
  if (least >= context_length) throw tooLong(`at least ${least}`, context_length);
  const tokens = rendered(() => promptTokens(model, wrapper, asked));
  if (tokens.length >= context_length) throw tooLong(`${tokens.length}`, context_length);
  return tokens;
}

/** The number of tokens of the prompt, also of one that does not fit. */
export function countPrompt({ model, wrapper, rendered }: LoadedModel, asked: Asked): number {
  return rendered(() => promptTokens(model, wrapper, asked)).length;
}

function tooLong(tokens: string, context_length: number): SvcError {
  return new SvcError(
    'context_length_exceeded',
    `The prompt has ${tokens} tokens; the context holds ${context_length}, the answer included.`,
  );
}

/**
 * Renders the prompt with the chat template of the model, up to the start of the answer. User text
 * stays plain text, also if it spells a control token.
 */
export function promptTokens(model: LlamaModel, wrapper: ChatWrapper, asked: Asked): Token[] {
  return contextOf(wrapper, asked).contextText.tokenize(model.tokenizer);
}

/** The control tokens with which the chat template ends an answer. */
export function stopTokens(model: LlamaModel, wrapper: ChatWrapper): ReadonlySet<Token> {
  const triggers = contextOf(wrapper, { messages: shortMessages('', null) }).stopGenerationTriggers;
  const single = triggers
    .map((trigger: LlamaText) => trigger.tokenize(model.tokenizer))
    .filter((tokens) => tokens.length === 1);
  return new Set(single.flat().filter((token) => model.isSpecialToken(token)));
}

/** The most bytes of one token: a longer text for a number of tokens cannot fit. */
export function tokenBytesMax(model: LlamaModel): number {
  const pieces: readonly string[] = model.fileInfo.metadata.tokenizer?.ggml?.tokens ?? [];
  return pieces.reduce((most, piece) => Math.max(most, Buffer.byteLength(piece)), 4);
}

function contextOf(
  wrapper: ChatWrapper,
  asked: Asked,
): ReturnType<ChatWrapper['generateContextState']> {
  const system = systemOf(asked);
  const chatHistory: ChatHistoryItem[] = [
    ...(system === null ? [] : [{ type: 'system' as const, text: system }]),
    { type: 'user', text: promptOf(asked) },
    { type: 'model', response: [] },
  ];
  return wrapper.generateContextState({ chatHistory });
}
