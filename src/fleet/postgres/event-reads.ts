import { hasCode, SvcError } from '../../errors.ts';
import { EVENT_NAMES } from '../../kernel/store/columns.ts';
import type { StoredEvent } from '../../kernel/store/port.ts';
import { type EventRow, fromEventRow } from '../../kernel/store/row.ts';
import { isSame } from '../../kernel/store/run-digest.ts';
import { USES } from '../../kernel/store/texts.ts';
import { eventDigest } from './columns.ts';
import type { Connections } from './connections.ts';
import { firstOfAsker } from './schema.ts';
import { expandRows } from './texts.ts';

type StoredRow = EventRow & { digest: Buffer };

const COLUMNS = [...EVENT_NAMES, 'digest'].join(', ');

/** Asks once every earlier commit has ended. */
export type Read = Connections['read'];

export interface ReadOptions {
  page_bytes: number;
  /** The node that reads. Throws lease_lost. */
  node_id(): string;
  /** The database must have this event from now on. */
  onEvent(event: StoredEvent): void;
}

/**
 * Reads events. Throws store_corrupt, naming the event.
 *
 * 1. Each event must match its digest.
 * 2. The versions of a stream have no gaps, and a finished run has its last event. Otherwise the
 *    read is refused.
 */
export class EventReads {
  protected readonly read: Read;
  protected readonly options: ReadOptions;

  constructor(read: Read, options: ReadOptions) {
    this.read = read;
    this.options = options;
  }

  async readStream(stream: string, fromVersion: number, limit: number): Promise<StoredEvent[]> {
    const rows = await this.page('stream = $1 and version >= $2', 'version', [
      stream,
      fromVersion,
      clampLimit(limit),
    ]);
    let version = Math.max(1, fromVersion);
    for (const row of rows) {
      if (row.version !== version)
        throw corruptError(
          row,
          `Events of ${stream} are missing in the log: version ${row.version} comes where version ${version} belongs.`,
        );
      version += 1;
    }
    if (rows.length === 0 && limit > 0) await this.checkEnd(stream);
    return this.expandEvents(rows.map(requireIntact));
  }

  async readAll(fromSeq: number, limit: number): Promise<StoredEvent[]> {
    return this.expandEvents(await this.readRows(fromSeq, limit));
  }

  /** Throws store_corrupt. */
  private async expandEvents(rows: readonly EventRow[]): Promise<StoredEvent[]> {
    const events = await expandRows(this.read, rows, this.options.page_bytes, (row, expand) => {
      const data = expandEvent(row, expand);
      return { value: fromEventRow({ ...row, data }), size: data.length };
    });
    for (const event of events) this.options.onEvent(event);
    return events;
  }

  /** The same in their stored form. */
  async readRows(fromSeq: number, limit: number): Promise<EventRow[]> {
    const values = [null, fromSeq, clampLimit(limit)];
    return (await this.page('$1::text is null and seq >= $2', 'seq', values)).map(requireIntact);
  }

  async lastEvent(stream: string, types?: readonly string[]): Promise<StoredEvent | null> {
    const [row] = await this.read<StoredRow>(
      `select ${COLUMNS} from svc_events
         where stream = $1 and ($2::text[] is null or type = any($2)) order by version desc limit 1`,
      [stream, types ?? null],
    );
    if (row === undefined) return null;
    return (await this.expandEvents([requireIntact(row)]))[0] ?? null;
  }

  async startedStreams(from_seq: number, to_seq: number, limit: number): Promise<string[]> {
    const rows = await this.read<{ stream: string }>(
      `select stream from svc_events where version = 1 and type <> 'run.accepted'
         and seq between $1 and $2 order by seq limit $3`,
      [from_seq, to_seq, clampLimit(limit)],
    );
    return rows.map(({ stream }) => stream);
  }

  /** Ids that begin with this text, in the order of ids. */
  async runsNamed(prefix: string, limit: number, asked_by?: string): Promise<string[]> {
    const values = [prefix, `${prefix}${AFTER_IDS}`, clampLimit(limit)];
    const rows = await this.read<{ stream: string }>(
      `select stream from svc_events where stream >= $1 and stream < $2 and version = 1
         ${asked_by === undefined ? '' : `and seq in (${firstOfAsker('$4')})`}
         order by stream limit $3`,
      asked_by === undefined ? values : [...values, asked_by],
    );
    return rows.map(({ stream }) => stream);
  }

  /** Rows up to a size, and at least one. The size is known before their texts are read. */
  private page(where: string, by: 'version' | 'seq', values: unknown[]): Promise<StoredRow[]> {
    return this.read<StoredRow>(
      `select ${COLUMNS} from svc_events where seq in (
         select seq from (
           select seq, row_number() over places as place, sum(bytes) over places as size
           from (select seq, version, octet_length(data) as bytes from svc_events
             where ${where} order by ${by} limit $3) as heads
           window places as (order by ${by})
         ) as sized where place = 1 or size <= ${this.options.page_bytes}
       ) order by ${by}`,
      values,
    );
  }

  /** Called when no event of the stream is left. */
  private async checkEnd(stream: string): Promise<void> {
    const [end] = await this.read<{ seq: number; last: number | null }>(
      `select seq, (select max(e.seq) from svc_events e where e.stream = run_id) as last
       from svc_runs where run_id = $1 and finished`,
      [stream],
    );
    if (end === undefined || (end.last ?? 0) >= end.seq) return;
    throw corruptError(
      { seq: end.seq, stream },
      `The end of ${stream} is missing in the log: it had come to the event ${end.seq}.`,
    );
  }
}

/** The sign sorts after each character of an id. */
const AFTER_IDS = '~';
const INTEGER_MAX = 2 ** 31 - 1;

export function clampLimit(limit: number): number {
  return Math.max(0, Math.min(Math.trunc(limit), INTEGER_MAX));
}

/** The problem of an event, as a sentence. */
export function eventProblem(row: StoredRow): string | null {
  return isSame(row.digest, eventDigest(row))
    ? null
    : `The event ${row.seq} (${row.type}) does not agree with its digest.`;
}

export const EVENT_COLUMNS = COLUMNS;
export type { StoredRow };

/** An event without references. Throws store_corrupt. */
export function toCheckedEvent(row: StoredRow): StoredEvent {
  return fromEventRow(requireIntact(row));
}

function expandEvent(row: EventRow, expand: (data: string) => string): string {
  try {
    return expand(row.data);
  } catch (error) {
    if (!hasCode(error, 'store_corrupt')) throw error;
    throw corruptError(row, `The event ${row.seq} of the log (${row.type}) ${USES}.`);
  }
}

function requireIntact(row: StoredRow): EventRow {
  const problem = eventProblem(row);
  if (problem !== null) throw corruptError(row, problem);
  return row;
}

function corruptError({ seq, stream }: { seq: number; stream: string }, problem: string): SvcError {
  return new SvcError('store_corrupt', problem, { details: { seq, stream } });
}
