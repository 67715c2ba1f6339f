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
 * reports it.
 */
export function shortData(data: string): string {
  if (data.length <= SHORT_CHARACTERS) return data;
  try {
    const row = JSON.parse(data) as { record: Record<string, unknown> | null };
    return row.record === null ? data : JSON.stringify({ ...row, record: shortRecord(row.record) });
  } catch {
    return data;
  }
}
