import type { ChatHistoryItem, ChatWrapper, LlamaModel, LlamaText, Token } from 'node-llama-cpp';
import { SvcError } from '../../../errors.ts';
import type { LoadedModel } from './load.ts';

export interface Asked {
  prompt: string;
  system: string | null;
}

/** The tokens that ask the model. Throws context_length_exceeded when they leave no room for an answer: nothing is ever cut. */
export function fittingPrompt(
  { model, wrapper, context_length, token_bytes_max, rendered }: LoadedModel,
  asked: Asked,
): Token[] {
  const least = Math.ceil(Buffer.byteLength(asked.prompt + (asked.system ?? '')) / token_bytes_max);
  if (least >= context_length) throw tooLong(`at least ${least}`, context_length);
  const tokens = rendered(() => promptTokens(model, wrapper, asked));
  if (tokens.length >= context_length) throw tooLong(`${tokens.length}`, context_length);
  return tokens;
}

function tooLong(tokens: string, context_length: number): SvcError {
  return new SvcError(
    'context_length_exceeded',
    `The prompt has ${tokens} tokens; the context holds ${context_length}, the answer included.`,
  );
}

/**
 * The tokens that ask the model, in the form of its own chat template, up to where its answer begins. What the user wrote
 * becomes plain text only: a control token spelled out in it stays text. There is no system text unless one is given.
 */
export function promptTokens(model: LlamaModel, wrapper: ChatWrapper, asked: Asked): Token[] {
  return contextOf(wrapper, asked).contextText.tokenize(model.tokenizer);
}

/** Tokens that end an answer besides those of the model file: the control tokens at which its template ends one. */
export function stopTokens(model: LlamaModel, wrapper: ChatWrapper): ReadonlySet<Token> {
  const triggers = contextOf(wrapper, { prompt: '', system: null }).stopGenerationTriggers;
  const single = triggers
    .map((trigger: LlamaText) => trigger.tokenize(model.tokenizer))
    .filter((tokens) => tokens.length === 1);
  return new Set(single.flat().filter((token) => model.isSpecialToken(token)));
}

/** Most bytes that one token of the model stands for: a text of more bytes than that for each token cannot fit. */
export function tokenBytesMax(model: LlamaModel): number {
  const pieces: readonly string[] = model.fileInfo.metadata.tokenizer?.ggml?.tokens ?? [];
  return pieces.reduce((most, piece) => Math.max(most, Buffer.byteLength(piece)), 4);
}

function contextOf(
  wrapper: ChatWrapper,
  { prompt, system }: Asked,
): ReturnType<ChatWrapper['generateContextState']> {
  const chatHistory: ChatHistoryItem[] = [
    ...(system === null ? [] : [{ type: 'system' as const, text: system }]),
    { type: 'user', text: prompt },
    { type: 'model', response: [] },
  ];
  return wrapper.generateContextState({ chatHistory });
}
