import { type OutputPart, textOf } from '../contract/messages/parts.ts';
import { rowOf } from '../contract/run-events.ts';
import { redactor } from '../pattern.ts';
import type { Commit, EventStore, RunRow, StoredEvent } from './store/port.ts';

/** Which texts are stored; `redact` are regular expressions. */
export interface ContentSettings {
  prompts: 'keep' | 'omit';
  outputs: 'keep' | 'omit';
  redact: readonly string[];
}

/** Whether prompts and outputs are stored in full. If not, runs cannot resume after a crash. */
export function keepsContent({ prompts, outputs, redact }: ContentSettings): boolean {
  return prompts === 'keep' && outputs === 'keep' && redact.length === 0;
}

/**
 * Removes texts from a commit before it is stored. Live followers see them. The chain of hashes
 * covers what is stored.
 *
 * 1. An omitted prompt or output is in no field of a stored event, row or error.
 * 2. The origin of a run is in no stored event or row.
 * 3. With patterns, output events are stored without their text, because they may split a secret.
 *    The finished record has the whole output, redacted.
 */
export function stripper(settings: ContentSettings): (commit: Commit) => Commit {
  if (keepsContent(settings)) return (commit) => commit;
  const texts = new Texts(settings);
  return ({ events, runs }) => ({
    events: events.map((event) => stripEvent(event, texts)),
    runs: runs.map((row) => stripRow(row, texts)),
  });
}

/** The answer so far of a run in memory. */
export interface Answer {
  output: string;
  parts: readonly OutputPart[];
}

/** The text of one part of an answer; without its index, the text of the answer. */
function partText({ output, parts }: Answer, index: unknown): string {
  if (typeof index !== 'number') return output;
  const part = parts[index];
  return part === undefined ? '' : textOf(part);
}

/** The store of the kernel, which may strip texts from commits. */
export type KernelStore = EventStore & { omitsOutput?: boolean };

export function strippingStore(store: EventStore, settings: ContentSettings): KernelStore {
  const strip = stripper(settings);
  return {
    ...store,
    append: async (commit) => store.append(strip(commit)),
    omitsOutput: !new Texts(settings).keepsPieces,
  };
}

/**
 * An output event with its text, restored from the run in memory if it was stored without. Null
 * when the text is lost.
 */
export function withText(event: StoredEvent, answer: Answer): StoredEvent | null {
  const { chars, ...data } = event.data;
  if (event.type !== 'run.output_appended' || typeof chars !== 'number') return event;
  const begin = Number(data.offset);
  const text = partText(answer, data.part).slice(begin, begin + chars);
  return text.length === chars ? { ...event, data: { ...data, text } } : null;
}

class Texts {
  private readonly settings: ContentSettings;
  private readonly redacted: (text: string) => string;

  constructor(settings: ContentSettings) {
    this.settings = settings;
    this.redacted = redactor(settings.redact);
  }

  /** Strips the input from the fields of a request or a record. */
  stripQuestion(fields: Fields): Fields {
    return this.settings.prompts === 'omit'
      ? omitFields(fields, QUESTION_FIELDS)
      : this.redactFields(fields, QUESTION_FIELDS);
  }

  /** Strips the output from the fields of a record. */
  stripAnswer(fields: Fields): Fields {
    return this.settings.outputs === 'omit'
      ? omitFields(fields, ANSWER_FIELDS)
      : this.redactFields(fields, ANSWER_FIELDS);
  }

  /** Strips the arguments and the result of a tool call. */
  ofTool(fields: Fields): Fields {
    const { media: _, ...texts } = fields;
    return this.keepsPieces ? fields : change(texts, TOOL_FIELDS, () => '');
  }

  /** Whether output events keep their text. */
  get keepsPieces(): boolean {
    return this.settings.outputs === 'keep' && this.settings.redact.length === 0;
  }

  redact(text: unknown): string {
    return this.redacted(String(text));
  }

  private redactFields(fields: Fields, names: ReadonlySet<string>): Fields {
    if (this.settings.redact.length === 0) return fields;
    const redact = (value: unknown): unknown => {
      if (typeof value === 'string') return this.redact(value);
      if (Array.isArray(value)) return value.map(redact);
      if (!isObject(value)) return value;
      // Opaque data may repeat the text.
      const entries = Object.entries(value).filter(([, inner]) => !isOpaque(inner));
      return Object.fromEntries(
        entries.map(([name, inner]) => [name, OURS.has(name) ? inner : redact(inner)]),
      );
    };
    return change(fields, names, redact);
  }
}

type Fields = Record<string, unknown>;

/** The fields of the input and the output, in a request, in a record and beside the request. */
const QUESTION_FIELDS: ReadonlySet<string> = new Set([
  'prompt',
  'system',
  'messages',
  'tools',
  'tool_choice',
  'response_format',
  'stop',
  'suffix',
  'regex',
  'choice',
  'grammar',
  'logit_bias',
  'metadata',
  'asked_as',
]);
const ANSWER_FIELDS: ReadonlySet<string> = new Set([
  'output',
  'output_parts',
  'turns',
  'tool_calls',
  'stop_sequence',
  'form_problem',
]);
const TOOL_FIELDS: ReadonlySet<string> = new Set(['arguments', 'text']);

/** Fields inside of messages that have our words, or an image. */
const OURS: ReadonlySet<string> = new Set(['type', 'role', 'media_type', 'data', 'api']);

/** Fields that every record or event has: they become empty. The other ones are removed. */
const EMPTY: Readonly<Record<string, (value: unknown) => unknown>> = {
  prompt: () => '',
  system: () => null,
  output: () => '',
  // The name of the API reveals nothing of the input.
  asked_as: (value) => (isObject(value) ? { ...value, fields: {} } : value),
};

function omitFields(fields: Fields, names: ReadonlySet<string>): Fields {
  const kept = Object.entries(fields).filter(([name]) => !names.has(name) || name in EMPTY);
  return change(Object.fromEntries(kept), names, (value, name) => EMPTY[name]?.(value));
}

function change(
  fields: Fields,
  names: ReadonlySet<string>,
  to: (value: unknown, name: string) => unknown,
): Fields {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      names.has(name) && value !== null ? to(value, name) : value,
    ]),
  );
}

function stripEvent(event: StoredEvent, texts: Texts): StoredEvent {
  const data = stripData(event, texts);
  return data === event.data ? event : { ...event, data };
}

function stripData({ type, data }: StoredEvent, texts: Texts): Record<string, unknown> {
  if (type === 'run.accepted') {
    const { origin: _, ...rest } = data;
    const request = texts.stripQuestion(data.request as Fields);
    return {
      ...texts.stripQuestion(rest),
      request: { ...request, messages: request.messages ?? [] },
      content: 'omitted',
    };
  }
  if (type === 'run.output_appended')
    return texts.keepsPieces
      ? data
      : { ...withoutTokens(data), text: '', token_ids: [], chars: String(data.text).length };
  const whose = rowOf(type)?.texts;
  if (whose === 'answer') return texts.stripAnswer(data);
  if (whose === 'tool') return texts.ofTool(data);
  return isObject(data.error) ? { ...data, error: stripError(data.error, texts) } : data;
}

function stripRow(whole: RunRow, texts: Texts): RunRow {
  if (whole.record === null && whole.origin === undefined) return whole;
  const { origin: _, repeats: __, ...row } = whole;
  if (row.record === null) return row;
  const { origin: _place, ...record } = row.record;
  const stripped = texts.stripAnswer(texts.stripQuestion(record));
  const { error } = stripped;
  return {
    ...row,
    record: { ...stripped, error: isObject(error) ? stripError(error, texts) : error },
  };
}

function withoutTokens({ logprobs: _, opaque: _opaque, ...data }: Fields): Fields {
  return data;
}

function stripError(error: Record<string, unknown>, texts: Texts): Record<string, unknown> {
  const { message, hint } = error;
  return {
    ...error,
    message: texts.redact(message),
    ...(hint === undefined ? {} : { hint: texts.redact(hint) }),
  };
}

function isOpaque(value: unknown): boolean {
  return isObject(value) && typeof value.form === 'string' && typeof value.data === 'string';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
