import type { ChatWrapper, LlamaModel, LlamaText, Token } from 'node-llama-cpp';
import { type Message, shortMessages, textOf } from '../../../../machines/messages.ts';
import { SvcError } from '../../../errors.ts';
import { Conversation, lastQuestion } from './conversation.ts';
import { callableTools, checkCapabilities } from './form.ts';
import type { LoadedModel } from './load.ts';
import type { RunOrder } from './messages.ts';

/**
 * Returns the tokens of the prompt. Throws context_length_exceeded if they leave no room for an
 * answer: a conversation is never cut. Throws capability_missing.
 */
export function fittingPrompt(loaded: LoadedModel, order: RunOrder): Token[] {
  const { context_length, bytesPerTokenMax } = loaded;
  const bytes = shownMessages(loaded, order)
    .flatMap(({ content }) => content.map(textOf))
    .reduce((sum, said) => sum + Buffer.byteLength(said), 0);
  const least = Math.ceil(bytes / bytesPerTokenMax);
  if (least >= context_length) throw tooLong(`at least ${least}`, context_length);
  const tokens = promptTokens(loaded, order);
  if (tokens.length >= context_length) throw tooLong(`${tokens.length}`, context_length);
  return tokens;
}

/**
 * Renders the conversation with the chat template of the model, up to the answer. Throws
 * capability_missing, engine_timed_out.
 */
export function promptTokens(loaded: LoadedModel, order: RunOrder): Token[] {
  checkCapabilities(loaded, order);
  const { model, rendered } = loaded;
  return rendered(() => renderedText(loaded, order).tokenize(model.tokenizer));
}

function renderedText(loaded: LoadedModel, order: RunOrder): LlamaText {
  const conversation = new Conversation(loaded);
  const tools = callableTools(order);
  const { contextText } = loaded.wrapper.generateContextState({
    chatHistory: conversation.history(shownMessages(loaded, order)),
    ...(tools.length === 0
      ? {}
      : { availableFunctions: conversation.functions(tools), documentFunctionParams: true }),
  });
  return conversation.plain(contextText, loaded);
}

function shownMessages({ built_in }: LoadedModel, order: RunOrder): readonly Message[] {
  return built_in ? lastQuestion(order) : order.messages;
}

function tooLong(tokens: string, context_length: number): SvcError {
  return new SvcError(
    'context_length_exceeded',
    `The prompt has ${tokens} tokens; the context holds ${context_length}, the answer included.`,
    { param: 'messages' },
  );
}

/** The control tokens with which the chat template ends an answer. */
export function stopTokens(model: LlamaModel, wrapper: ChatWrapper): ReadonlySet<Token> {
  const chatHistory = new Conversation({ controlTexts: new Map() }).history(
    shortMessages('', null),
  );
  const single = wrapper
    .generateContextState({ chatHistory })
    .stopGenerationTriggers.map((trigger: LlamaText) => trigger.tokenize(model.tokenizer))
    .filter((tokens) => tokens.length === 1);
  return new Set(single.flat().filter((token) => model.isSpecialToken(token)));
}

/** How each control token is spelled. */
export function controlTextsOf(model: LlamaModel): ReadonlyMap<number, string> {
  const { tokens = [], token_type: types = [] } = model.fileInfo.metadata.tokenizer?.ggml ?? {};
  const texts = new Map<number, string>();
  for (const [token, type] of types.entries())
    if (type === CONTROL && tokens[token]) texts.set(token, tokens[token]);
  return texts;
}

/** The type of control tokens in a model file. */
const CONTROL = 3;

/** The most bytes of one token: a longer text for a number of tokens cannot fit. */
export function tokenBytesMax(model: LlamaModel): number {
  const pieces: readonly string[] = model.fileInfo.metadata.tokenizer?.ggml?.tokens ?? [];
  return pieces.reduce((most, piece) => Math.max(most, Buffer.byteLength(piece)), 4);
}
