/**
 * Texts in columns. PostgreSQL has no NUL character and no lone surrogates. Such a text is stored
 * as JSON, behind a mark.
 */
const MARK = '\u0001';

export function toColumn(text: string): string {
  const isPlain = !text.includes('\0') && !text.startsWith(MARK) && text.isWellFormed();
  return isPlain ? text : MARK + JSON.stringify(text);
}

export function fromColumn(column: string): string {
  return column.startsWith(MARK) ? (JSON.parse(column.slice(MARK.length)) as string) : column;
}
