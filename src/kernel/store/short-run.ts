import { hasReferences, memberOf, withMembers } from './texts.ts';

/** Characters of each text in a list of short runs. */
export const SHORT_CHARACTERS = 200;

const TEXTS = ['prompt', 'system', 'output'] as const;
/** Lists of a record that may hold long texts. */
const LISTS = [
  'messages',
  'tools',
  'response_format',
  'output_parts',
  'turns',
  'tool_calls',
] as const;

/** Lists with the input of a run. */
const ASKED = ['messages', 'tools', 'response_format'] as const;

/** How the conversation of a run began, by the request of the run. */
export interface Opening {
  /** The beginning of its first question. */
  question: string;
  /** How many questions it has, with that of the run. */
  questions: number;
}

/**
 * The beginnings of the long texts of a finished run. They are in its row, so a list reads no other
 * text. A text has one character more than a list shows, so that the list says that it was cut.
 */
export type Heads = Partial<Record<(typeof TEXTS)[number], string>> & { opening?: Opening };

type Fields = Readonly<Record<string, unknown>>;

/** Null: the record has no long texts. */
export function headsOf(record: Fields | null): Heads | null {
  if (record === null) return null;
  const heads: Heads = {};
  for (const name of TEXTS) {
    const value = record[name];
    if (typeof value === 'string' && value.length > SHORT_CHARACTERS)
      heads[name] = value.slice(0, SHORT_CHARACTERS + 1);
  }
  if (record.messages !== undefined) heads.opening = openingOf(record);
  return Object.keys(heads).length === 0 ? null : heads;
}

/** Of a record with all its messages. */
export function openingOf({ prompt, messages }: Fields): Opening {
  const said = Array.isArray(messages) ? (messages as Asked[]) : [];
  const asked = said.filter(({ role }) => role === 'user');
  const parts = asked.flatMap(({ content }) => content);
  const first = parts.find(({ type }) => type === 'text')?.text ?? prompt;
  const question = typeof first === 'string' ? first.slice(0, SHORT_CHARACTERS) : '';
  return { question, questions: Math.max(1, asked.length) };
}

interface Asked {
  role: string;
  content: readonly { type: string; text?: unknown }[];
}

/** A record with shortened texts, and without its long lists. `shortened` marks it. */
export function shortRecord<R extends object>(record: R): R & { shortened?: true } {
  const short = { ...record } as Record<string, unknown>;
  let isCut = false;
  for (const name of [...TEXTS, ...LISTS]) {
    const value = short[name];
    if (lengthOf(value) <= SHORT_CHARACTERS) continue;
    isCut = true;
    if (typeof value === 'string') short[name] = value.slice(0, SHORT_CHARACTERS);
    else delete short[name];
  }
  return isCut ? ({ ...short, shortened: true } as R & { shortened: true }) : record;
}

/** Characters of the texts and lists of a record. */
export function recordLength(record: object): number {
  const values = record as Record<string, unknown>;
  return [...TEXTS, ...LISTS].reduce((sum, name) => sum + lengthOf(values[name]), 0);
}

function lengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  return value == null ? 0 : JSON.stringify(value).length;
}

/** How the stored data of a run are read: first with references, then without. */
export interface RunForm {
  /** The needed part of the data. References outside it are not followed. */
  needs(data: string): string;
  /** The result, from the needed part. */
  read(needed: string): string;
}

export const WHOLE_RUN: RunForm = { needs: (data) => data, read: (data) => data };

/** The record alone. */
export const RECORD_ALONE: RunForm = {
  needs: (data) => memberOf(data, 'record') ?? 'null',
  read: (record) => record,
};

/** The texts of the record are whole, and its long lists are not there. */
export const TEXTS_ALONE: RunForm = {
  needs: (data) => (hasReferences(data) ? withoutLong(data, LISTS) : data),
  read: (data) => data,
};

/** Without the long lists of the input. */
const ANSWER_ALONE: RunForm = {
  needs: (data) => (hasReferences(data) ? withoutLong(data, ASKED, 'null') : data),
  read: (data) => data,
};

export function formOf(only: 'answer' | undefined): RunForm {
  return only === 'answer' ? ANSWER_ALONE : WHOLE_RUN;
}

/**
 * With shortened texts. Data that cannot be read stay, so that the reader reports them. A list with
 * references is long, so it is left out without a look.
 */
export const SHORT_RUN: RunForm = {
  needs: (data) => (hasReferences(data) ? withoutLong(data, [...TEXTS, ...LISTS]) : data),
  read(data) {
    if (data.length <= SHORT_CHARACTERS) return data;
    try {
      const { heads, ...row } = JSON.parse(data) as ShortRow;
      if (row.record === null) return data;
      const opening = heads?.opening ?? openingOf(row.record);
      return JSON.stringify({ ...row, opening, record: shortRecord(row.record) });
    } catch {
      return data;
    }
  },
};

interface ShortRow {
  heads?: Heads;
  record: Fields | null;
}

/** In the place of a long list: as long as one. */
const LONG = JSON.stringify(['.'.repeat(SHORT_CHARACTERS)]);

/** The data of a run. In the place of these long members are `list`, and the heads of texts. */
function withoutLong(data: string, names: readonly string[], list = LONG): string {
  let heads: Heads = {};
  const head = (name: string) => {
    const text = heads[name as keyof Heads];
    return typeof text === 'string' ? JSON.stringify(text) : null;
  };
  return withMembers(data, (field, value) => {
    if (field === 'heads') heads = JSON.parse(value) as Heads;
    if (field !== 'record' || !value.startsWith('{')) return null;
    return withMembers(value, (name, member) => {
      if (!names.includes(name) || !hasReferences(member)) return null;
      return isList(name) ? list : head(name);
    });
  });
}

function isList(name: string): boolean {
  return (LISTS as readonly string[]).includes(name);
}
