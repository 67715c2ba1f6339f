import { SCHEMA_VERSION } from '../../../machines/events.ts';
import { upcast } from '../../../machines/upcast.ts';
import { SvcError } from '../../errors.ts';
import { eventOf, type RunValues, runValues } from './columns.ts';
import { type EmbeddingUsage, embeddingUsage } from './embedding-usage.ts';
import { CONFLICT, type Commit, type RunRow, type StoredEvent } from './port.ts';
import { headsOf } from './short-run.ts';
import type { RunUsage } from './usage.ts';

/** An event as it is stored. `data` is the exact JSON text that the hash chain covers. */
export type EventRow = Omit<StoredEvent, 'data'> & { data: string };

/** A run as it is stored: the row as JSON text, and the columns for searches. */
export type RunLine = RunValues & { data: string; usage: RunUsage | null };

export interface CommitRows {
  events: EventRow[];
  runs: RunLine[];
  /** What its events say of embeddings. */
  embeddings: EmbeddingUsage[];
}

/**
 * Converts a commit to its stored form. `whole`: no row leaves its messages to its first event.
 * Throws store_conflict if a value cannot be stored.
 */
export function toRows({ events, runs }: Commit, whole = true): CommitRows {
  return {
    events: events.map(toEventRow),
    runs: runs.map((row) => toRunLine(row, whole)),
    embeddings: events.map(embeddingUsage).filter((usage) => usage !== null),
  };
}

/** The event in the present schema. Throws store_corrupt. */
export function fromEventRow(row: EventRow): StoredEvent {
  const { schema, type, data, seq } = row;
  return {
    ...eventOf(row),
    schema: SCHEMA_VERSION,
    data: upcast(schema, type, parse(data, `The event ${seq}`) as StoredEvent['data']),
  };
}

export function fromRunData(data: string): RunRow {
  const { heads: _, ...row } = parse(data, 'A record of a run') as RunRow & { heads?: unknown };
  // Records of the first version have no digest.
  return { ...row, request_digest: row.request_digest ?? null };
}

/** The error of a commit that was refused and changed nothing. */
export function conflict(message: string, cause?: unknown): Error {
  return Object.assign(new Error(message, { cause }), { code: CONFLICT });
}

function toEventRow(event: StoredEvent): EventRow {
  return { ...eventOf(event), data: stringify(event.data, `the event ${event.seq}`) };
}

export function toRunLine(row: RunRow, whole = true): RunLine {
  const { cloud: _, client: __, due_at: ___, opening: ____, usage, repeats, ...stored } = row;
  const heads = headsOf(row.record);
  const isLeft = repeats === true && !whole;
  const record = isLeft ? { ...row.record, messages: LEFT } : row.record;
  // Before the record, so that a reader of the text knows them there.
  const fields = { ...(heads === null ? {} : { heads }), ...stored, record };
  const json = stringify(fields, `the run ${row.run_id}`);
  const data = isLeft ? json.replace(LEFT_JSON, OF_REQUEST) : json;
  return { ...runValues(row), data, usage: usage ?? null };
}

/** No text has it: a quotation mark of a text is escaped, and nothing before has such a field. */
const LEFT = '\0';
const LEFT_JSON = `"messages":${JSON.stringify(LEFT)}`;
/** In the data of a run: the messages of its first event. No JSON has it, as with references. */
export const OF_REQUEST = '"messages":\t[]';

/** JSON escapes NUL characters and lone surrogates, so that any text survives. */
function stringify(value: object, name: string): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw conflict(`The data of ${name} cannot be written as JSON.`, error);
  }
}

function parse(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SvcError('store_corrupt', `${name} cannot be read: its data is damaged.`, {
      cause: error,
    });
  }
}
