import { createHash, randomBytes } from 'node:crypto';
import type { Message, Tool } from '../../../../../machines/messages.ts';
import { textOf } from '../../../../../machines/messages.ts';
import { argumentsObject } from '../../../../json.ts';
import { type CallMarks, callText, GENERIC_CALLS, resultText, toolsText } from './generic-tools.ts';
import { JinjaTemplate } from './jinja.ts';
import { refused } from './refusal.ts';

/** What is around the reasoning of an answer. */
export interface ThoughtMarks {
  readonly open: string;
  readonly close: string;
  /** What an answer without reasoning begins with. It is no text of the answer. */
  readonly none: string;
}

/** What of a request changes its prompt. */
export interface Asking {
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  readonly reasoning_effort?: string | undefined;
  /** The time that the template may write. */
  readonly now: Date;
  /** Marks what of a text must not become a control token. */
  plain(text: string): string;
}

/** A message as templates take it. */
interface Turn {
  role: string;
  content: string | readonly { type: 'text'; text: string }[];
  reasoning_content?: string;
  /** As gpt-oss calls it. */
  thinking?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: unknown } }[];
  tool_call_id?: string;
  name?: string;
}
type Variables = Readonly<Record<string, unknown>>;

/** The forms in which templates take what a conversation has. They are tried once. */
interface Forms {
  /** Contents are lists of parts. */
  parts: boolean;
  /** Arguments of calls are JSON text, not objects. */
  texts: boolean;
  /** Ids of calls have nine letters and digits. */
  short: boolean;
}

/**
 * The chat template of a model: what it is asked with, and what its answers look like.
 *
 * 1. A conversation is rendered as it is. Only if the template refuses it, turns of one role become
 *    one, and a system text becomes a text of the user.
 * 2. The marks of calls and of reasoning are read once, from conversations that show them.
 */
export class ChatTemplate {
  /** Null: calls cannot be read from its answers. */
  readonly calls: CallMarks | null;
  /** The template has a form of tool calls. If not, the tools are written as a system text. */
  readonly hasTools: boolean;
  readonly thoughts: ThoughtMarks | null;
  /** What ends an answer. */
  readonly end: string;
  /** A question, up to its answer. */
  private readonly question: string;
  private readonly template: JinjaTemplate;
  private readonly tokens: Variables;
  private forms: Forms = { parts: false, texts: false, short: false };

  /** Throws Error with the reason why the template cannot be rendered. */
  constructor(source: string, { bos_token, eos_token }: { bos_token: string; eos_token: string }) {
    this.template = new JinjaTemplate(source);
    this.tokens = { bos_token, eos_token };
    const conversation = [user(QUESTION)];
    const answers = { add_generation_prompt: true };
    const plain = caught(() => this.written(conversation, answers));
    const isRead = typeof plain === 'string' && plain.includes(QUESTION);
    if (!isRead && this.tried({ parts: true }, conversation, answers)?.includes(QUESTION))
      this.forms = { ...this.forms, parts: true };
    else if (plain instanceof Error) throw plain;
    else if (!isRead) throw new Error('it leaves out the message of the user');
    this.question = this.tried({}, conversation, answers) ?? '';
    const calls = this.readCalls();
    this.hasTools = calls !== null;
    // A model that writes in channels does so for its calls too.
    this.calls = calls ?? (source.includes('<|channel|>') ? null : GENERIC_CALLS);
    this.thoughts = this.readThoughts();
    this.end = this.readEnd();
  }

  /** The text up to the answer. Throws capability_missing if the template refuses it. */
  render({ messages, tools, reasoning_effort: effort, now, plain }: Asking): string {
    const goesOn = messages.at(-1)?.role === 'assistant';
    const read = this.turnsOf(messages);
    const isNative = this.hasTools && tools.length > 0;
    const asText = this.hasTools || tools.length === 0 ? read : withToolsText(read, tools);
    const turns = eachText(asText, plain) as Turn[];
    if (goesOn) {
      const last = turns.at(-1) as Turn;
      turns[turns.length - 1] = { ...last, content: `${last.content}${HERE}` };
    }
    const variables = {
      ...(goesOn ? {} : { add_generation_prompt: true }),
      ...(isNative ? { tools: eachText(tools.map(described), plain) } : {}),
      ...effortValues(effort),
    };
    const text = caught(() => this.written(turns, variables, now));
    if (typeof text !== 'string') throw refused(text);
    if (!goesOn) return text;
    const end = text.lastIndexOf(HERE);
    if (end < 0) throw refused(new Error('it has no place for the beginning of an answer'));
    return text.slice(0, end);
  }

  /** Tries to render it as it is, then in the forms that more templates take. */
  private written(turns: readonly Turn[], variables: Variables, now = new Date()): string {
    const values = { ...this.tokens, enable_thinking: true, ...variables };
    const write = (these: readonly Turn[]) =>
      this.template.render({ ...values, messages: these.map((turn) => this.formed(turn)) }, now);
    let first: unknown;
    for (const change of [asIs, joined, withoutSystem])
      try {
        const text = write(change(turns));
        if (
          turns.every(({ role, content }) => role !== 'system' || text.includes(trimmed(content)))
        )
          return text;
        first ??= new Error('it leaves out the system text');
      } catch (thrown) {
        first ??= thrown;
      }
    throw first;
  }

  private formed(turn: Turn): Turn {
    const { parts, texts, short } = this.forms;
    const id = (long: string) => (short ? shortId(long) : long);
    return {
      ...turn,
      ...(parts && typeof turn.content === 'string'
        ? { content: [{ type: 'text', text: turn.content }] }
        : {}),
      ...(turn.tool_call_id === undefined ? {} : { tool_call_id: id(turn.tool_call_id) }),
      ...(turn.tool_calls === undefined
        ? {}
        : {
            tool_calls: turn.tool_calls.map((call) => ({
              ...call,
              id: id(call.id),
              function: {
                ...call.function,
                ...(texts ? { arguments: JSON.stringify(call.function.arguments) } : {}),
              },
            })),
          }),
    };
  }

  private turnsOf(messages: readonly Message[]): Turn[] {
    const turns: Turn[] = [];
    const names = new Map<string, string>();
    for (const { role, content } of messages) {
      if (role !== 'tool') {
        const text = content.flatMap((part) => (part.type === 'text' ? part.text : [])).join('');
        const calls = content.filter((part) => part.type === 'tool_call');
        const thought = content.flatMap((part) => (part.type === 'reasoning' ? part.text : []));
        for (const { id, name } of calls) names.set(id, name);
        turns.push(this.turn(role, text, thought.join(''), calls));
        continue;
      }
      for (const part of content)
        if (part.type === 'tool_result') turns.push(this.result(part.id, names, textOf(part)));
    }
    return turns;
  }

  private turn(
    role: string,
    text: string,
    thought: string,
    calls: readonly { id: string; name: string; arguments: string }[],
  ): Turn {
    if (role !== 'assistant') return { role, content: text };
    const inText = thought === '' ? THOUGHT_IN_TEXT.exec(text) : null;
    const reasoning = inText?.[1] ?? thought;
    const content = inText === null ? text : text.slice(inText[0].length);
    const reasoned = reasoning === '' ? {} : { reasoning_content: reasoning, thinking: reasoning };
    if (calls.length === 0) return { role, content, ...reasoned };
    if (!this.hasTools) {
      const texts = [content, ...calls.map(callText)];
      return { role, content: texts.filter((text) => text !== '').join('\n') };
    }
    const tool_calls = calls.map(({ id, name, arguments: json }) => ({
      id,
      type: 'function' as const,
      function: { name, arguments: argumentsObject(json) },
    }));
    return { role, content, ...reasoned, tool_calls };
  }

  /** A template without calls has no results either: they are texts of the user. */
  private result(id: string, names: ReadonlyMap<string, string>, content: string): Turn {
    if (!this.hasTools) return user(resultText(content));
    return { role: 'tool', content, tool_call_id: id, name: names.get(id) ?? '' };
  }

  private readCalls(): CallMarks | null {
    for (const forms of CALL_FORMS) {
      const one = this.callMarks(forms, 1);
      if (one === null) continue;
      this.forms = { ...this.forms, ...forms };
      return { ...one, between: this.callMarks(forms, 2)?.between ?? null };
    }
    return null;
  }

  /** The marks of the first call of so many. Null: it is not written as name and JSON. */
  private callMarks(forms: Partial<Forms>, count: number): CallMarks | null {
    const calls = NAMES.slice(0, count).map((name, at) => ({
      id: `call_probe_${at}`,
      type: 'function' as const,
      function: { name, arguments: { [KEY]: VALUE } },
    }));
    const tools = NAMES.map((name) =>
      described({ name, description: ABOUT, parameters: { type: 'object', properties: {} } }),
    );
    const prompt = this.tried(forms, [user(QUESTION)], { tools, add_generation_prompt: true });
    const turn = { role: 'assistant', content: '', tool_calls: calls };
    const whole = this.tried(forms, [user(QUESTION), turn], { tools });
    if (prompt === null || whole === null || !prompt.includes(ABOUT)) return null;
    // An answer may begin with a mark that says that it has no reasoning.
    const plain = this.tried(forms, [user(QUESTION), { role: 'assistant', content: ANSWER }], {
      tools,
    });
    const begin = Math.max(sameLength(prompt, whole), sameLength(plain ?? '', whole));
    const places = NAMES.slice(0, count).map((name) => placeOf(whole, begin, name));
    const [first, second] = places;
    // A model that writes in channels puts the name of a tool elsewhere than its template.
    if (first == null || second === null || whole.includes('<|channel|>')) return null;
    return {
      prefix: withoutId(whole.slice(begin, first.name)),
      middle: withoutId(whole.slice(first.nameEnd, first.json)),
      end: withoutId(this.beforeEnd(whole.slice(first.jsonEnd))),
      between: second === undefined ? null : withoutId(whole.slice(first.jsonEnd, second.name)),
    };
  }

  /** The end of a call is followed by the end of the answer, which is no text. */
  private beforeEnd(text: string): string {
    const end = this.readEnd().trim();
    const at = end === '' ? -1 : text.indexOf(end);
    return at < 0 ? text : text.slice(0, at);
  }

  private readThoughts(): ThoughtMarks | null {
    const turn = { role: 'assistant', content: ANSWER };
    const reasoned = { ...turn, reasoning_content: THOUGHT, thinking: THOUGHT };
    const whole = this.tried({}, [user(QUESTION), reasoned], {}) ?? '';
    const thought = whole.indexOf(THOUGHT);
    const answer = whole.indexOf(ANSWER, thought);
    if (thought < 0 || answer < 0) return null;
    const opened = whole.slice(0, thought);
    const close = whole.slice(thought + THOUGHT.length, answer);
    // What an answer begins with may have opened it.
    const same = sameLength(this.question, opened);
    const tag = opened.lastIndexOf('<', same);
    const open = opened.slice(/^<[^>]*$/.test(opened.slice(tag, same)) ? tag : same).trim();
    const without = this.tried({}, [user(QUESTION), turn], {}) ?? '';
    const begin = sameLength(this.question, without);
    const none = without.slice(begin, without.indexOf(ANSWER, begin));
    if (close.trim() === '') return null;
    return { open: open === '' ? (/\S+\s*$/.exec(opened)?.[0] ?? '').trim() : open, close, none };
  }

  private readEnd(): string {
    const turn = { role: 'assistant', content: ANSWER };
    const whole = this.tried({}, [user(QUESTION), turn], {}) ?? '';
    const at = whole.lastIndexOf(ANSWER);
    return at < 0 ? '' : whole.slice(at + ANSWER.length);
  }

  /** Null: the template refuses it in these forms. */
  private tried(
    forms: Partial<Forms>,
    turns: readonly Turn[],
    variables: Variables,
  ): string | null {
    const before = this.forms;
    this.forms = { ...before, ...forms };
    try {
      return this.written(turns, variables);
    } catch {
      return null;
    } finally {
      this.forms = before;
    }
  }
}

/** What a conversation says that shows the marks of a template. No template has these words. */
const [QUESTION, ANSWER, THOUGHT, ABOUT] = ['Qzwhat', 'Qzbecause', 'Qzperhaps', 'Qzabout'];
const NAMES = ['qzfirst', 'qzsecond'];
const [KEY, VALUE] = ['qzkey', 'qzvalue'];
const CALL_FORMS: readonly Partial<Forms>[] = [
  {},
  { short: true },
  { texts: true },
  { texts: true, short: true },
];

/** Where the answer goes on. No text has it by chance. */
const HERE = `svc${randomBytes(12).toString('hex')}x`;
/** An answer of another program, with its reasoning in tags. */
const THOUGHT_IN_TEXT = /^\s*<think>(.*?)<\/think>\s*/s;

/** A copy of a value of JSON with its texts changed. */
function eachText(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((each) => eachText(each, change));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [change(key), eachText(each, change)]),
  );
}

function user(content: string): Turn {
  return { role: 'user', content };
}

/** The tools are a part of the system text, so that they are said once. */
function withToolsText(turns: readonly Turn[], tools: readonly Tool[]): Turn[] {
  const text = toolsText(tools.map(described));
  const [first, ...others] = turns;
  return first?.role === 'system'
    ? [{ ...first, content: `${first.content}\n\n${text}` }, ...others]
    : [{ role: 'system', content: text }, ...turns];
}

function described({ name, description, parameters }: Tool): object {
  return {
    type: 'function',
    function: {
      name,
      ...(description === null ? {} : { description }),
      parameters:
        Object.keys(parameters).length === 0 ? { type: 'object', properties: {} } : parameters,
    },
  };
}

const trimmed = (content: Turn['content']) => String(content).trim();

const asIs = (turns: readonly Turn[]) => turns;
const withoutSystem = (turns: readonly Turn[]) => alternating(turns, true);
const joined = (turns: readonly Turn[]) => alternating(turns, false);

/** Turns of one role become one, and the first one is of the user. */
function alternating(turns: readonly Turn[], withoutSystem: boolean): Turn[] {
  const made: Turn[] = [];
  for (const turn of turns) {
    const isFirst = made.every(({ role }) => role === 'system');
    const role = turn.role === 'system' && (withoutSystem || !isFirst) ? 'user' : turn.role;
    const last = made.at(-1);
    const isSame = last?.role === role && role !== 'tool' && last.tool_calls === undefined;
    if (last !== undefined && isSame)
      made[made.length - 1] = { ...turn, role, content: `${last.content}\n\n${turn.content}` };
    else {
      if (role === 'assistant' && isFirst) made.push(user(''));
      made.push({ ...turn, role });
    }
  }
  if (!made.some(({ role }) => role !== 'system')) made.push(user(''));
  return made;
}

/** What a template knows of an effort. Without one it has what llama-server gives it. */
function effortValues(effort: string | undefined): Variables {
  if (effort === undefined) return {};
  if (effort === 'none') return { enable_thinking: false, thinking: false };
  return { reasoning_effort: effort, reasoning_strength: effort, thinking: true };
}

function caught(work: () => string): string | Error {
  try {
    return work();
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  }
}

/** The length of what both texts begin with. */
function sameLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length += 1;
  return length;
}

/** Where a call has its name and its arguments. Null: they are not written as JSON. */
function placeOf(
  text: string,
  from: number,
  name: string,
): { name: number; nameEnd: number; json: number; jsonEnd: number } | null {
  const at = text.indexOf(name, from);
  const key = text.indexOf(`"${KEY}"`, at);
  const json = text.lastIndexOf('{', key);
  const end = text.indexOf('}', key) + 1;
  if (at < 0 || key < 0 || json < at || end === 0) return null;
  if (withoutId(text.slice(at, json)).length > MARK_MAX) return null;
  try {
    if ((JSON.parse(text.slice(json, end)) as Record<string, unknown>)[KEY] !== VALUE) return null;
  } catch {
    return null;
  }
  return { name: at, nameEnd: at + name.length, json, jsonEnd: end };
}
const MARK_MAX = 200;

/** Removes the id of a call as a field of JSON: a model need not write one. */
function withoutId(text: string): string {
  return text.replace(/,\s*"(?:tool_call_id|call_id|id)":\s*"[^"]*"/g, '');
}

function shortId(id: string): string {
  return createHash('sha256').update(id).digest('hex').slice(0, 9);
}
