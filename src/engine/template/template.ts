import { createHash, randomBytes } from 'node:crypto';
import {
  CALLS,
  type CallRow,
  callsText,
  GENERIC,
  KEY,
  learnCalls,
  learnThoughts,
  PROBES,
  type Probe,
  PYTHONIC_FENCE,
  rowOf,
  type Shown,
  THOUGHTS,
  type ThoughtRow,
} from '../../answer-forms/index.ts';
import type { Message, Tool } from '../../contract/messages/parts.ts';
import { textOf } from '../../contract/messages/parts.ts';
import { argumentsObject } from '../../json.ts';
import { splitCalls } from './apart.ts';
import { resultText, toolsText } from './generic-tools.ts';
import { JinjaTemplate } from './jinja.ts';
import { refusalOf } from './refusal.ts';

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

/** The forms in which templates take the parts of a conversation. They are tried once. */
interface Forms {
  /** Contents are lists of parts. */
  parts: boolean;
  /** Arguments of calls are JSON text, not objects. */
  texts: boolean;
  /** Ids of calls have nine letters and digits. */
  short: boolean;
}

/**
 * The chat template of a model: the form of its prompts and of its answers.
 *
 * 1. A conversation is rendered as it is. Only if the template refuses it, turns of one role become
 *    one, and a system text becomes a text of the user. At last each call has its turn.
 * 2. The forms of calls and of reasoning are those of the family whose marks the template has. A
 *    template of no family shows them in conversations that are made once.
 */
export class ChatTemplate {
  /** The forms in which its answers call tools. The first one is requested of the model. */
  readonly calls: readonly [CallRow, ...CallRow[]];
  /** The template writes tools. If not, they are written as a system text. */
  readonly hasTools: boolean;
  readonly thoughts: ThoughtRow | null;
  /** What ends an answer. */
  readonly end: string;
  /** The template writes calls. If not, they are a part of the text of their turn. */
  private readonly hasCalls: boolean;
  private readonly template: JinjaTemplate;
  private readonly tokens: Variables;
  private forms: Forms = { parts: false, texts: false, short: false };

  /** Throws Error with the reason why the template cannot be rendered. */
  constructor(source: string, { bos_token, eos_token }: { bos_token: string; eos_token: string }) {
    this.template = new JinjaTemplate(source);
    this.tokens = { bos_token, eos_token };
    const [probe] = PROBES;
    const conversation = [user(probe.question)];
    const answers = { add_generation_prompt: true };
    const plain = catchError(() => this.renderTurns(conversation, answers));
    const isRead = typeof plain === 'string' && plain.includes(probe.question);
    if (!isRead && this.tryForms({ parts: true }, conversation, answers)?.includes(probe.question))
      this.forms = { ...this.forms, parts: true };
    else if (plain instanceof Error) throw plain;
    else if (!isRead) throw new Error('it leaves out the message of the user');
    this.hasCalls = this.findCallForms(probe);
    const native = this.nativeCalls(source, probe);
    this.hasTools = native !== null;
    const own = rowOf(CALLS, source);
    this.calls =
      native === null ? [GENERIC, PYTHONIC_FENCE, ...(own === null ? [] : [own])] : [native];
    this.thoughts = rowOf(THOUGHTS, source) ?? learnThoughts(this.showProbes());
    this.end = this.showProbe(probe).end;
  }

  /** The text up to the answer. Throws capability_missing if the template refuses it. */
  render({ messages, tools, reasoning_effort: effort, now, plain }: Asking): string {
    const isContinued = messages.at(-1)?.role === 'assistant';
    const read = this.turnsOf(messages);
    const isNative = this.hasTools && tools.length > 0;
    const asText = this.hasTools || tools.length === 0 ? read : withToolsText(read, tools);
    const turns = this.withCalls(eachText(asText, plain) as Turn[]);
    if (isContinued) {
      const last = turns.at(-1) as Turn;
      turns[turns.length - 1] = { ...last, content: `${last.content}${HERE}` };
    }
    const variables = {
      ...(isContinued ? {} : { add_generation_prompt: true }),
      ...(isNative ? { tools: eachText(tools.map(describeTool), plain) } : {}),
      ...effortValues(effort),
    };
    const write = (these: Turn[]) => catchError(() => this.renderTurns(these, variables, now));
    const whole = write(turns);
    const text = whole instanceof Error ? write(splitCalls(turns)) : whole;
    if (typeof text !== 'string') throw refusalOf(text);
    if (!isContinued) return text;
    const end = text.lastIndexOf(HERE);
    if (end < 0) throw refusalOf(new Error('it has no place for the beginning of an answer'));
    return text.slice(0, end);
  }

  /** Tries to render it as it is, then in the forms that more templates take. */
  private renderTurns(turns: readonly Turn[], variables: Variables, now = new Date()): string {
    const values = { ...this.tokens, ...variables };
    const write = (these: readonly Turn[]) =>
      this.template.render(
        { ...values, messages: these.map((turn) => this.applyForms(turn)) },
        now,
      );
    let first: unknown;
    for (const change of [asIs, joinTurns, withoutSystem])
      try {
        const text = write(change(turns));
        if (
          turns.every(
            ({ role, content }) => role !== 'system' || text.includes(trimContent(content)),
          )
        )
          return text;
        first ??= new Error('it leaves out the system text');
      } catch (thrown) {
        first ??= thrown;
      }
    throw first;
  }

  private applyForms(turn: Turn): Turn {
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

  /** Calls that the template does not write become a part of the text of their turn. */
  private withCalls(turns: readonly Turn[]): Turn[] {
    return turns.map((turn) => {
      const { tool_calls: calls, ...rest } = turn;
      if (calls === undefined || (this.hasTools && this.hasCalls)) return turn;
      const made = callsText(
        this.calls[0],
        calls.map((call) => call.function),
      );
      const texts = [String(rest.content), made].filter((text) => text !== '');
      return { ...rest, content: texts.join('\n') };
    });
  }

  /** Finds the forms in which the template takes calls. False: it writes none. */
  private findCallForms(probe: Probe): boolean {
    for (const forms of CALL_FORMS) {
      const text = this.tryForms(forms, callTurns(probe, 1), { tools: toolsOf(probe) });
      if (text?.includes(probe.names[0]) !== true || !text.includes(probe.value)) continue;
      this.forms = { ...this.forms, ...forms };
      return true;
    }
    return false;
  }

  /** Null: the template writes no tools, or calls in no form that is known. */
  private nativeCalls(source: string, probe: Probe): CallRow | null {
    const tools = { tools: toolsOf(probe), add_generation_prompt: true };
    if (!this.tryForms({}, [user(probe.question)], tools)?.includes(probe.names[0])) return null;
    return rowOf(CALLS, source) ?? (this.hasCalls ? learnCalls(this.showProbes()) : null);
  }

  private showProbes(): [Shown, Shown] {
    const [a, b] = PROBES;
    return [this.showProbe(a), this.showProbe(b)];
  }

  private showProbe(probe: Probe): Shown {
    const { question, answer: content, thought } = probe;
    const turn = { role: 'assistant', content };
    const reasoned = { ...turn, reasoning_content: thought, thinking: thought };
    const tools = { tools: toolsOf(probe) };
    const plain = this.tryForms({}, [user(question), turn], {}) ?? '';
    const at = plain.lastIndexOf(content);
    return {
      prompt: this.tryForms({}, [user(question)], { ...tools, add_generation_prompt: true }),
      plain: this.tryForms({}, [user(question), turn], tools),
      calls: [
        this.tryForms({}, callTurns(probe, 1), tools),
        this.tryForms({}, callTurns(probe, 2), tools),
      ],
      reasoned: this.tryForms({}, [user(question), reasoned], tools),
      end: at < 0 ? '' : plain.slice(at + content.length),
    };
  }

  /** Null: the template refuses it in these forms. */
  private tryForms(
    forms: Partial<Forms>,
    turns: readonly Turn[],
    variables: Variables,
  ): string | null {
    const before = this.forms;
    this.forms = { ...before, ...forms };
    try {
      return this.renderTurns(turns, variables);
    } catch {
      return null;
    } finally {
      this.forms = before;
    }
  }
}

/** A question, and an answer of so many calls. */
function callTurns({ question, names, ids, value }: Probe, count: 1 | 2): Turn[] {
  const tool_calls = names
    .slice(0, count)
    .map((name, at) => ({
      id: ids[at] as string,
      type: 'function' as const,
      function: { name, arguments: { [KEY]: value } },
    }));
  return [user(question), { role: 'assistant', content: '', tool_calls }];
}

function toolsOf({ names, about }: Probe): object[] {
  const parameters = {
    type: 'object',
    properties: { [KEY]: { type: 'string', description: about } },
  };
  return names.map((name) => describeTool({ name, description: about, parameters }));
}

const CALL_FORMS: readonly Partial<Forms>[] = [
  {},
  { short: true },
  { texts: true },
  { texts: true, short: true },
];

/** Where the answer continues. No text has it by chance. */
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

/** The tools are a part of the system text, so that they are sent once. */
function withToolsText(turns: readonly Turn[], tools: readonly Tool[]): Turn[] {
  const text = toolsText(tools.map(describeTool));
  const [first, ...others] = turns;
  return first?.role === 'system'
    ? [{ ...first, content: `${first.content}\n\n${text}` }, ...others]
    : [{ role: 'system', content: text }, ...turns];
}

function describeTool({ name, description, parameters }: Tool): object {
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

const trimContent = (content: Turn['content']) => String(content).trim();

const asIs = (turns: readonly Turn[]) => turns;
const withoutSystem = (turns: readonly Turn[]) => alternateTurns(turns, true);
const joinTurns = (turns: readonly Turn[]) => alternateTurns(turns, false);

/** Turns of one role become one, and the first one is of the user. */
function alternateTurns(turns: readonly Turn[], withoutSystem: boolean): Turn[] {
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

/** The variables of a template for an effort. Without an effort it gets those of llama-server. */
function effortValues(effort: string | undefined): Variables {
  if (effort === undefined) return {};
  if (effort === 'none') return { enable_thinking: false, thinking: false };
  return { reasoning_effort: effort, reasoning_strength: effort, thinking: true };
}

function catchError(work: () => string): string | Error {
  try {
    return work();
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  }
}

function shortId(id: string): string {
  if (/^[a-zA-Z0-9]{9}$/.test(id)) return id;
  return createHash('sha256').update(id).digest('hex').slice(0, 9);
}
