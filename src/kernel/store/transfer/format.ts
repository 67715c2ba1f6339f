import { SCHEMA_VERSION } from '../../../../machines/events.ts';
import { SvcError } from '../../../errors.ts';
import type { EmbeddingUsage } from '../embedding-usage.ts';
import type { EventRow } from '../row.ts';
import type { LogHead, UsageRow } from './port.ts';

/**
 * A whole log as lines of JSON: a header, the events in their order, what the log has besides, and
 * an end.
 *
 * 1. The hash of an event covers its stored text, and the event before it in the file. A position
 *    that is missing between two events was removed from the history.
 * 2. The end has the number of events and the SHA-256 of all lines between the header and itself.
 *    So a file that was cut or changed is noticed.
 * 3. A text to which events refer has a line, before the first event or text that needs it.
 * 4. Two stores with the same events have the same lines, apart from the header.
 */
export const FORMAT = 'svc-log';
/** The second one has texts. A file without any is of the first one. */
export const [FIRST_VERSION, FORMAT_VERSION] = [1, 2];

export interface Header extends Pick<LogHead, 'store' | 'log_id' | 'events' | 'last_seq'> {
  format: typeof FORMAT;
  format_version: number;
  /** The version of svc that wrote the file. */
  program: string;
  exported_at: string;
}

export interface End {
  events: number;
  last_seq: number;
  digest: string;
}

export type Line =
  | { kind: 'event'; row: EventRow; hash: string }
  | { kind: 'text'; text: string }
  /** The record of the run that ended with the event before: its output is not in its events. */
  | { kind: 'record'; run_id: string; record: Record<string, unknown> }
  | { kind: 'usage'; row: UsageRow }
  | { kind: 'embeddings'; row: EmbeddingUsage }
  | { kind: 'end'; end: End };

export function eventLine(row: EventRow, hash: string): string {
  const { seq, stream, version, type, schema, at, boot_id, data } = row;
  const fields = JSON.stringify({ seq, stream, version, type, schema, at, boot_id, hash });
  return `${fields.slice(0, -1)}${DATA}${data}}\n`;
}

export function otherLine(line: Header | OtherLine): string {
  return `${JSON.stringify(line)}\n`;
}

/** Throws import_invalid: this is not an export file, or a newer svc wrote it. */
export function readHeader(text: string): Header {
  const header = parse(text) as Partial<Header> | null;
  if (header?.format !== FORMAT || typeof header.format_version !== 'number')
    throw new SvcError('import_invalid', 'This is not a log that svc export has written.');
  if (header.format_version > FORMAT_VERSION)
    throw newer(`its format is ${header.format_version}, and this svc knows ${FORMAT_VERSION}`);
  if (!isCount(header.events) || !isCount(header.last_seq))
    throw new SvcError('import_invalid', 'The header of the log is damaged.');
  return header as Header;
}

/** Null: this is not a line of the format. Throws import_invalid: a newer svc wrote it. */
export function readLine(text: string): Line | null {
  if (text.startsWith('{"seq":')) return readEvent(text);
  const line = parse(text) as OtherLine | null;
  if (line === null) return null;
  if ('record' in line && isObject(line.record) && typeof line.run_id === 'string')
    return { kind: 'record', run_id: line.run_id, record: line.record };
  if ('text' in line && typeof line.text === 'string') return { kind: 'text', text: line.text };
  if ('usage' in line && isObject(line.usage)) return { kind: 'usage', row: line.usage };
  if ('embeddings' in line && isObject(line.embeddings))
    return { kind: 'embeddings', row: line.embeddings };
  if ('end' in line && isObject(line.end)) return { kind: 'end', end: line.end };
  return null;
}

/** The lines after the header, apart from events. */
export type OtherLine =
  | { text: string }
  | { run_id: string; record: Record<string, unknown> }
  | { usage: UsageRow }
  | { embeddings: EmbeddingUsage }
  | { end: End };

/** What comes before the data. No text of a field has it: a quote in a text has a backslash. */
const DATA = ',"data":';

/** The data stays the text that it is, for its hash. */
function readEvent(text: string): Line | null {
  const at = text.indexOf(DATA);
  if (at < 0 || !text.endsWith('}')) return null;
  const fields = parse(`${text.slice(0, at)}}`);
  if (!isObject(fields)) return null;
  const { seq, stream, version, type, schema, at: time, boot_id, hash } = fields;
  const names = [stream, type, boot_id, hash].every((name) => typeof name === 'string');
  if (!names || ![seq, version, schema].every(isCount) || typeof time !== 'number') return null;
  if ((schema as number) > SCHEMA_VERSION)
    throw newer(`event ${seq} has the schema ${schema}, and this svc knows ${SCHEMA_VERSION}`);
  const data = text.slice(at + DATA.length, -1);
  const row = { seq, stream, version, type, schema, at: time, boot_id, data } as EventRow;
  return { kind: 'event', row, hash: hash as string };
}

function newer(why: string): SvcError {
  return new SvcError('import_invalid', `A newer svc wrote this log: ${why}.`, {
    hint: 'Install that version of svc here first: svc upgrade',
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isObject<T>(value: T | undefined): value is T & Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
