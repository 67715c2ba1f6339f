import { randomBytes } from 'node:crypto';
import type {
  ChatHistoryItem,
  ChatModelFunctionCall,
  ChatModelFunctions,
  ChatModelResponse,
  LlamaText,
} from 'node-llama-cpp';
import {
  type Message,
  promptOf,
  systemOf,
  type Tool,
  type ToolCallPart,
  textOf,
} from '../../../../machines/messages.ts';
import type { LoadedModel } from './load.ts';

/**
 * A conversation in the form of the library.
 *
 * 1. Texts of the conversation stay plain text, also if they spell a control token. Templates write
 *    tools and arguments as their own text. So a spelling in them becomes a word, which `plain`
 *    replaces after the template is rendered.
 */
export class Conversation {
  private readonly hidden: Hidden[] = [];
  private readonly controlTexts: readonly string[];

  constructor({ controlTexts }: Pick<LoadedModel, 'controlTexts'>) {
    this.controlTexts = [...controlTexts.values()];
  }

  /** The last item is the answer: empty, or the message of the assistant that it continues. */
  history(messages: readonly Message[]): ChatHistoryItem[] {
    const items: ChatHistoryItem[] = [];
    const calls = new Map<string, ChatModelFunctionCall>();
    for (const message of messages) {
      if (message.role === 'system' || message.role === 'user')
        items.push({ type: message.role, text: message.content.map(textOf).join('') });
      else if (message.role === 'assistant') this.addAnswer(answerAt(items), message, calls);
      else
        for (const part of message.content) {
          const call = part.type === 'tool_result' ? calls.get(part.id) : undefined;
          if (call !== undefined) call.result = this.hide(textOf(part), 'whole');
        }
    }
    answerAt(items);
    return items;
  }

  functions(tools: readonly Tool[]): ChatModelFunctions {
    return Object.fromEntries(
      tools.map(({ name, description, parameters }) => [
        name,
        this.hideIn({
          ...(description === null ? {} : { description }),
          params:
            Object.keys(parameters).length === 0 ? { type: 'object', properties: {} } : parameters,
        }),
      ]),
    ) as ChatModelFunctions;
  }

  /** Replaces the words by what they stand for, as plain text. */
  plain(text: LlamaText, { library }: Pick<LoadedModel, 'library'>): LlamaText {
    if (this.hidden.length === 0) return text;
    return text.mapValues((value) => {
      const isSpecial = value instanceof library.SpecialTokensText;
      if (typeof value !== 'string' && !isSpecial) return value;
      const said = isSpecial ? value.value : value;
      const parts = said.split(WORD);
      if (parts.length === 1) return value;
      const isAlone = !isSpecial && /^[\\"]*$/.test(`${parts[0]}${parts.at(-1)}`);
      return parts.flatMap((part, index) => {
        if (index % 2 === 1) return this.hidden[Number(part)]?.text(isAlone) ?? '';
        if (part === '' || isAlone) return [];
        return isSpecial ? new library.SpecialTokensText(part) : part;
      });
    });
  }

  private addAnswer(
    answer: ChatModelResponse,
    { content }: Message,
    calls: Map<string, ChatModelFunctionCall>,
  ): void {
    let startsNewChunk = true;
    for (const part of content) {
      if (part.type === 'tool_call') {
        const call = this.call(part, startsNewChunk);
        startsNewChunk = false;
        calls.set(part.id, call);
        answer.response.push(call);
      } else if (part.type === 'reasoning')
        answer.response.push({
          type: 'segment',
          segmentType: 'thought',
          text: part.text,
          ended: true,
        });
      else answer.response.push(textOf(part));
    }
  }

  private call({ name, arguments: said }: ToolCallPart, startsNewChunk: boolean) {
    return {
      type: 'functionCall' as const,
      name,
      params: this.hideIn(parsedOr(said)),
      result: undefined as unknown,
      startsNewChunk,
    };
  }

  /** A copy of a JSON value in which control tokens are not spelled. */
  private hideIn(value: unknown): unknown {
    if (typeof value === 'string') return this.hideSpellings(value);
    if (Array.isArray(value)) return value.map((each) => this.hideIn(each));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [this.hideSpellings(key), this.hideIn(each)]),
    );
  }

  private hideSpellings(text: string): string {
    return this.controlTexts.reduce(
      (said, control) =>
        said.includes(control) ? said.replaceAll(control, () => this.hide(control, 'json')) : said,
      text,
    );
  }

  private hide(text: string, form: 'whole' | 'json'): string {
    const inJson = JSON.stringify(text).slice(1, -1);
    const word = `${WORD_START}${this.hidden.length}x`;
    this.hidden.push({ text: (isAlone) => (isAlone && form === 'whole' ? text : inJson) });
    return word;
  }
}

interface Hidden {
  /** `isAlone`: nothing but quotation marks is around it. */
  text(isAlone: boolean): string;
}

/** No text has it by chance. */
const WORD_START = `svc${randomBytes(12).toString('hex')}x`;
const WORD = new RegExp(`${WORD_START}(\\d+)x`);

/**
 * The conversation for the built-in model: the last prompt, because it was trained on questions
 * without a history.
 */
export function lastQuestion(asked: { readonly messages: readonly Message[] }): Message[] {
  const system = systemOf(asked);
  const text = (said: string) => [{ type: 'text' as const, text: said }];
  return [
    ...(system === null ? [] : [{ role: 'system' as const, content: text(system) }]),
    { role: 'user', content: text(promptOf(asked)) },
  ];
}

/** The answer at the end of the history. Tools answer inside of it. */
function answerAt(items: ChatHistoryItem[]): ChatModelResponse {
  const last = items.at(-1);
  if (last?.type === 'model') return last;
  const answer: ChatModelResponse = { type: 'model', response: [] };
  items.push(answer);
  return answer;
}

function parsedOr(said: string): unknown {
  try {
    return JSON.parse(said);
  } catch {
    return said;
  }
}
