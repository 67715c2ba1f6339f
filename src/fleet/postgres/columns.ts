import { hash } from 'node:crypto';
import type { ColumnType } from '../../kernel/store/columns.ts';
import type { EventRow } from '../../kernel/store/row.ts';

/** How PostgreSQL names the types. Milliseconds are `float8`, as numbers of JavaScript. */
export const TYPES = {
  id: 'text',
  name: 'text',
  text: 'text',
  json: 'text',
  flag: 'boolean',
  whole: 'bigint',
  number: 'float8',
} as const satisfies Record<ColumnType, string>;

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

/** A value as its column has it. */
export function toParameter(type: ColumnType | 'bytea', value: unknown): unknown {
  if (value === null) return null;
  if (type === 'flag') return Boolean(value);
  return type === 'text' ? toColumn(String(value)) : value;
}

/** The digest of an event, without its position. */
export function eventDigest({
  stream,
  version,
  type,
  schema,
  at,
  boot_id,
  data,
}: EventRow): Buffer {
  return hash(
    'sha256',
    `${JSON.stringify([stream, version, type, schema, at, boot_id])}\n${data}`,
    'buffer',
  );
}

/** Bytes of an event or a row beside its data, with its index entries. */
export const ROW_BYTES = 200;
