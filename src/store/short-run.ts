import { hasReferences, withMembers } from './texts.ts';

/** Characters of each text in a list of short runs. */
export const SHORT_CHARACTERS = 200;

const TEXTS = ['prompt', 'system', 'output'] as const;
/** Lists of a record that may hold long texts. */
const LISTS = ['messages', 'tools', 'response_format', 'output_parts'] as const;

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
export function textLength(record: object): number {
  const values = record as Record<string, unknown>;
  return [...TEXTS, ...LISTS].reduce((sum, name) => sum + lengthOf(values[name]), 0);
}

function lengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  return value == null ? 0 : JSON.stringify(value).length;
}

/**
 * The stored data of a run with shortened texts. Unreadable data stays, so that the reader
 * reports it. A list with references is long, so it is left out without a look.
 */
export function shortData(data: string, expand = (text: string) => text): string {
  if (data.length <= SHORT_CHARACTERS) return data;
  const whole = textsOnly(data, expand);
  try {
    const row = JSON.parse(whole) as { record: Record<string, unknown> | null };
    return row.record === null
      ? whole
      : JSON.stringify({ ...row, record: shortRecord(row.record) });
  } catch {
    return whole;
  }
}

/** The stored data of a run without the lists that have references. */
export function textsOnly(data: string, expand: (text: string) => string): string {
  return hasReferences(data) ? expand(withoutLists(data)) : data;
}

/** In the place of a long list: as long as one. */
const LONG = JSON.stringify('.'.repeat(SHORT_CHARACTERS + 1));

function withoutLists(data: string): string {
  const isList = (name: string) => (LISTS as readonly string[]).includes(name);
  return withMembers(data, (field, record) =>
    field === 'record' && record.startsWith('{')
      ? withMembers(record, (name, value) => (isList(name) && hasReferences(value) ? LONG : null))
      : null,
  );
}
