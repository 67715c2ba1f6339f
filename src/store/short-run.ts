/** Characters of each text in a list of short runs. */
export const SHORT_CHARACTERS = 200;

/** A record with shortened texts. `shortened` marks it. */
export function shortRecord<R extends Record<string, unknown>>(
  record: R,
): R & { shortened?: true } {
  const texts = (['prompt', 'system', 'output'] as const).flatMap((name) => {
    const text = record[name];
    return typeof text === 'string' && text.length > SHORT_CHARACTERS
      ? [[name, text.slice(0, SHORT_CHARACTERS)]]
      : [];
  });
  return texts.length === 0 ? record : { ...record, ...Object.fromEntries(texts), shortened: true };
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
