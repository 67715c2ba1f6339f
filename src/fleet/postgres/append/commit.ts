import type { QueryConfig } from 'pg';
import { formatOf } from '../../../../machines/events.ts';
import { checkContinuity } from '../../../kernel/store/continuity.ts';
import type { Commit, RunRow } from '../../../kernel/store/port.ts';
import { type CommitRows, type EventRow, toRows } from '../../../kernel/store/row.ts';
import { compactEvent, compactRun, hasReferences } from '../../../kernel/store/texts.ts';
import { countedOnce } from '../../../kernel/store/usage.ts';
import { ROW_BYTES } from '../columns.ts';
import type { KnownTexts, NewText } from '../texts.ts';
import { vectorOf } from '../tokens.ts';
import { APPEND, type AppendedRun, type AppendValues } from './append-statement.ts';

/** One commit as the parameters of its statement. */
export interface PreparedCommit {
  /** `known`: what the log has of its texts. Null: it is written without references. */
  statement(lease: Epoch, known: KnownTexts | null): QueryConfig & { texts: readonly NewText[] };
  /** Its rows refer to texts. */
  refers: boolean;
  /** Its first event; null if it has none. */
  first: EventRow | null;
  last: EventRow | null;
  /** The format of a log with these events; null for that of the tables. */
  format: number | null;
  /** How many events it has. */
  events: number;
}

/** A node, and the epoch in which it may write. */
export interface Epoch {
  node_id: string;
  epoch: number;
}

/**
 * Checks a commit, and converts it at once, so that later changes of its values do not count.
 * Throws store_conflict.
 *
 * The log assigns the positions, so no stored text has one. A row has its position in a column, as
 * the offset from the first event.
 */
export function prepareCommit(commit: Commit): PreparedCommit {
  const rows = toRows({ events: commit.events, runs: commit.runs.map(withoutSeq) });
  return prepareRows(rows, commit.runs);
}

/**
 * The same of rows in their stored form, with the runs that they are of. `compact`: of the data of
 * an event.
 */
export function prepareRows(
  rows: CommitRows,
  runs: readonly RunRow[],
  compact = compactEvent,
): PreparedCommit {
  const { events } = rows;
  const before = (events[0]?.seq ?? 1) - 1;
  const newest = Math.max(0, ...events.map(({ type }) => formatOf(type) ?? 0));
  const first = firstVersions(events);
  checkContinuity(rows, before, (stream) => (first.get(stream) ?? 2) - 1);
  const parts = {
    events: events.map(({ data }) => compact(data)),
    runs: rows.runs.map(({ data }) => compactRun(data)),
  };
  const compacted = {
    ...rows,
    events: events.map((event, at) => ({ ...event, data: parts.events[at]?.text ?? event.data })),
    runs: rows.runs.map((line, at) => ({ ...line, data: parts.runs[at]?.text ?? line.data })),
  };
  const valuesOf = (stored: CommitRows, added: Pick<AppendValues, 'texts' | 'uses'>) =>
    APPEND.valuesOf({
      first,
      earlier_runs: rows.runs.map(({ run_id }) => run_id).filter((run_id) => !first.has(run_id)),
      events: stored.events,
      bytes: stored.events.reduce((sum, { data }) => sum + Buffer.byteLength(data) + ROW_BYTES, 0),
      runs: toAppendedRuns(runs, stored, before),
      usage: rows.runs.flatMap(({ usage }) => (usage === null ? [] : countedOnce(usage))),
      embeddings: rows.embeddings,
      streams: streamsText(first),
      ...added,
    });
  const all = [...parts.events, ...parts.runs];
  return {
    statement: ({ node_id, epoch }, known) => {
      const added = known === null ? { texts: [], uses: [] } : known.newOf(all);
      const values = valuesOf(known === null ? rows : compacted, added);
      const { texts } = added;
      return { name: 'svc_append', text: APPEND.text, values: [node_id, epoch, ...values], texts };
    },
    refers: all.some(({ text }) => hasReferences(text)),
    first: events[0] ?? null,
    last: events.at(-1) ?? null,
    format: newest === 0 ? null : newest,
    events: events.length,
  };
}

/** The row without its position. The key stays, so that the order of the keys does. */
export function withoutSeq(row: RunRow): RunRow {
  const { record } = row;
  return {
    ...row,
    seq: 0,
    record: record !== null && 'seq' in record ? { ...record, seq: 0 } : record,
  };
}

/** The row with its position again. */
export function withSeq(row: RunRow, seq: number): RunRow {
  row.seq = seq;
  if (row.record !== null && 'seq' in row.record) row.record.seq = seq;
  return row;
}

/** The version with which each stream of the commit begins. */
function firstVersions(events: readonly EventRow[]): Map<string, number> {
  const first = new Map<string, number>();
  for (const { stream, version } of events) if (!first.has(stream)) first.set(stream, version);
  return first;
}

/** The last row of each run, in the order of the commit. */
function toAppendedRuns(
  rows: readonly RunRow[],
  { events, runs }: CommitRows,
  before: number,
): AppendedRun[] {
  const last = new Map(runs.map((line, index) => [line.run_id, { line, row: rows[index] }]));
  return [...last.values()].flatMap(({ line, row }) => {
    if (row === undefined) return [];
    const { run_id } = line;
    const first = events.findIndex(({ stream, version }) => stream === run_id && version === 1) + 1;
    const place = row.seq - before;
    const event = events[place - 1];
    return {
      line: { ...line, seq: row.seq },
      accepted_place: first || null,
      seq_place: event === undefined ? null : place,
      ended_at: event?.at ?? null,
      prompt: row.finished ? vectorOf(row.record?.prompt) : null,
      answer: row.finished ? vectorOf(row.record?.output) : null,
    };
  });
}

/** The streams of a notice. It has at most 8000 bytes. */
function streamsText(streams: ReadonlyMap<string, number>): string {
  const text = JSON.stringify([...streams.keys()]);
  return Buffer.byteLength(text) > NOTICE_BYTES_MAX ? '"all"' : text;
}

const NOTICE_BYTES_MAX = 7000;
