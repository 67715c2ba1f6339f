import { randomBytes } from 'node:crypto';
import { decodeTime } from 'ulid';
import {
  type Message,
  promptOf,
  shortMessages,
  systemOf,
  textOf,
} from '../contract/messages/parts.ts';
import { SvcError } from '../errors.ts';
import { callableTools, checkCapabilities, effortOf, templateFor, thoughtRow } from './form.ts';
import type { LoadedModel } from './load.ts';
import {
  CONTROL,
  type Model,
  type SpecialToken,
  type Token,
  UNKNOWN,
  USER_DEFINED,
} from './native/model.ts';
import type { RunOrder } from './protocol/messages.ts';

/** The prompt of a model. */
export interface Prompt {
  tokens: Token[];
  /** The answer begins inside of reasoning. */
  isReasoning: boolean;
}

/**
 * Returns the tokens of the prompt. Throws context_length_exceeded if they leave no room for an
 * answer: a conversation is never cut. Throws capability_missing.
 */
export function fitPrompt(loaded: LoadedModel, order: RunOrder): Prompt {
  const { context_length, model } = loaded;
  const bytes = shownMessages(loaded, order)
    .flatMap(({ content }) => content.map(textOf))
    .reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  // Only then the longest token matters, which is found in the whole vocabulary.
  const least = bytes < context_length ? 0 : Math.ceil(bytes / model.tokenBytesMax);
  if (least >= context_length) throw tooLong(`at least ${least}`, context_length);
  const prompt = promptOfOrder(loaded, order);
  const { length } = prompt.tokens;
  if (length >= context_length) throw tooLong(`${length}`, context_length);
  return prompt;
}

/**
 * The text of the request as it is, or the conversation in the chat template of the model, up to
 * the answer. Throws capability_missing.
 */
export function promptOfOrder(loaded: LoadedModel, order: RunOrder): Prompt {
  checkCapabilities(loaded, order);
  const { model, structure } = loaded;
  const messages = shownMessages(loaded, order);
  const template = templateFor(loaded, order);
  const { suffix } = order.options;
  if (suffix !== undefined)
    return { tokens: middlePrompt(loaded, messages, suffix), isReasoning: false };
  if (template === null)
    return {
      // Only a text that is continued without a template may spell control tokens.
      tokens: withBegin(model, model.tokenize(bareText(messages), order.options.raw === true)),
      isReasoning: false,
    };
  return loaded.rendered(() => {
    const text = template.render({
      messages,
      tools: callableTools(order),
      reasoning_effort: effortOf(order),
      now: timeOf(order),
      plain: (text) => structure.cut(text),
    });
    const begun = thoughtRow(loaded, order)?.reasoning?.begun.trim() ?? '';
    const isReasoning = begun !== '' && text.trimEnd().endsWith(begun);
    return { tokens: withBegin(model, structure.tokenize(model, text)), isReasoning };
  }, order.id);
}

function shownMessages({ built_in }: LoadedModel, order: RunOrder): readonly Message[] {
  // The built-in model was trained on questions without a history.
  return built_in ? shortMessages(promptOf(order), systemOf(order)) : order.messages;
}

/**
 * The prompt for the text between two other texts. They are not read for control tokens.
 *
 * 1. The last message is the text before. Earlier messages are files that belong to it.
 * 2. A message of several parts has the name of its file first. With a name, files come in the form
 *    of llama-server: those before it, then the beginning of the whole prompt.
 */
function middlePrompt(
  { model, structure }: LoadedModel,
  messages: readonly Message[],
  after: string,
): Token[] {
  const { prefix, suffix, middle, repository, file } = model.tokens.infill;
  const tokens = (text: string) => structure.tokenize(model, structure.cut(text));
  const files = messages.map(({ content }) => filePartsOf(content.map(textOf)));
  const last = files.pop() ?? filePartsOf([]);
  const nameOfFile = (name: string | null, otherwise: Token[]) =>
    file === null ? otherwise : [file, ...tokens(`${name ?? OTHER_FILE}\n`)];
  const others = [
    ...(repository === null ? [] : [repository, ...tokens(REPOSITORY)]),
    ...files.flatMap(({ name, texts }) => [
      ...nameOfFile(name, tokens(SNIPPET)),
      ...texts.flatMap(tokens),
    ]),
    ...nameOfFile(last.name, []),
  ];
  const parts = (mark: Token | null, texts: readonly string[]) =>
    mark === null ? [] : [mark, ...texts.flatMap(tokens)];
  // A model without a token for the middle expects the text after it first.
  const both =
    middle === null
      ? [...parts(suffix, [after]), ...parts(prefix, last.texts)]
      : [...parts(prefix, last.texts), ...parts(suffix, [after]), middle];
  const isAlone = files.length === 0 && last.name === null;
  return [...(isAlone ? [] : others), ...withBegin(model, both)];
}

/** What llama-server writes where nothing says it, and before a file without a mark. */
const REPOSITORY = 'myproject\n';
const OTHER_FILE = 'tmp';
const SNIPPET = '\n\n--- snippet ---\n\n';

function filePartsOf(texts: readonly string[]): { name: string | null; texts: readonly string[] } {
  const [name = null, ...rest] = texts;
  return rest.length === 0 ? { name: null, texts } : { name, texts: rest };
}

function bareText(messages: readonly Message[]): string {
  return messages.map(({ content }) => content.map(textOf).join('')).join('\n');
}

/** The time of the run is in its id, so that a resumed answer has the same prompt. */
function timeOf({ call_key }: RunOrder): Date {
  try {
    return new Date(decodeTime(call_key));
  } catch {
    return new Date();
  }
}

/** The prompt begins with the token that the file asks for, once. */
export function withBegin({ tokens }: Model, prompt: Token[]): Token[] {
  const { bos, addsBos } = tokens;
  return bos === null || !addsBos || prompt[0] === bos ? prompt : [bos, ...prompt];
}

export function tooLong(tokens: string, context_length: number): SvcError {
  return new SvcError(
    'context_length_exceeded',
    `The prompt has ${tokens} tokens; the context holds ${context_length}, the answer included.`,
    { param: 'messages' },
  );
}

/**
 * The spellings of tokens that have a meaning beside their text: all control tokens, and those
 * user-defined ones that the template uses, or that look like control tokens.
 *
 * 1. llama.cpp reads them in any text. A text that spells one is therefore cut inside of the
 *    spelling, and each piece is tokenized alone.
 * 2. Other user-defined tokens, such as `<table>` or several line breaks, are text of the model.
 */
export class Structure {
  private readonly lengths: readonly number[];
  /** Most characters of a text begin no spelling. */
  private readonly beginnings: ReadonlySet<string | undefined>;
  private readonly spellings: ReadonlySet<string>;

  constructor({ special }: Pick<Model, 'special'>, template: string) {
    const isStructure = ({ text, type }: SpecialToken) =>
      type === UNKNOWN ||
      type === CONTROL ||
      (type === USER_DEFINED &&
        (MARKUP.test(text) || (text.trim() !== '' && template.includes(text))));
    this.spellings = new Set(
      [...special.values()]
        .filter((token) => token.text.length > 1 && isStructure(token))
        .map(({ text }) => text),
    );
    this.lengths = [...new Set([...this.spellings].map(({ length }) => length))];
    this.beginnings = new Set([...this.spellings].map((text) => text[0]));
  }

  /** Marks where the text spells a token. */
  cut(text: string): string {
    let made = '';
    let from = 0;
    for (let at = 0; at < text.length; at += 1) {
      if (!this.beginnings.has(text[at])) continue;
      if (!this.lengths.some((length) => this.spellings.has(text.slice(at, at + length)))) continue;
      made += text.slice(from, at + 1) + CUT;
      from = at + 1;
    }
    return made + text.slice(from);
  }

  tokenize(model: Model, text: string): Token[] {
    const [first = '', ...others] = text.split(CUT);
    return [
      ...model.tokenize(first, true),
      ...others.flatMap((piece) => model.tokenize(piece, true, true)),
    ];
  }
}

/** No text has it by chance. */
const CUT = `svc${randomBytes(12).toString('hex')}x`;

const MARKUP = /^<[|｜].*[|｜]>$|^<\/?(think|tool_call|tool_response|fim_\w+)>$/;

/** The control token with which the chat template ends an answer. */
export function stopTokens({ model, template }: Pick<LoadedModel, 'model' | 'template'>) {
  const end = model.tokenize(template?.end.trimStart() ?? '', true);
  const [first] = end.filter((token) => model.isControl(token));
  return new Set(first === undefined ? [] : [first]);
}

/** How each control token is spelled. */
export function controlTextsOf({ special }: Model): ReadonlyMap<number, string> {
  const controls = [...special].filter(([, { type, text }]) => type === CONTROL && text !== '');
  return new Map(controls.map(([token, { text }]) => [token, text]));
}
