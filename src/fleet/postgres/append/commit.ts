import { hash } from 'node:crypto';
import type { QueryConfig } from 'pg';
import { checkContinuity } from '../../../store/continuity.ts';
import type { Commit, RunRow } from '../../../store/port.ts';
import { type CommitRows, type EventRow, toRows } from '../../../store/row.ts';
import { dataDigest } from '../../../store/run-digest.ts';
import { countedOnce } from '../../../store/usage.ts';
import { toColumn } from '../columns.ts';
import { vectorOf } from '../tokens.ts';
import { listsOf, USED_BY_EMBEDDINGS, USED_BY_RUNS } from '../usage.ts';
import { APPEND } from './append-statement.ts';

/** One commit as the parameters of its statement. */
export interface PreparedCommit {
  statement(lease: Epoch): QueryConfig;
  /** Its first event; null if it has none. */
  first: EventRow | null;
  last: EventRow | null;
  /** How many events it has. */
  events: number;
}

/** A node, and the epoch in which it may write. */
export interface Epoch {
  node_id: string;
  epoch: number;
}

/** Bytes of an event or a row beside its data, with its index entries. */
export const ROW_BYTES = 200;

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

/** The same of rows in their stored form, with the runs that they are of. */
export function prepareRows(rows: CommitRows, runs: readonly RunRow[]): PreparedCommit {
  const { events } = rows;
  const before = (events[0]?.seq ?? 1) - 1;
  const known = firstVersions(events);
  checkContinuity(rows, before, (stream) => (known.get(stream) ?? 2) - 1);
  const parameters = [
    [...known.keys()],
    [...known.values()],
    unknownRuns(rows, known),
    events.length,
    events.reduce((sum, { data }) => sum + Buffer.byteLength(data) + ROW_BYTES, 0),
    ...eventColumns(events),
    ...runColumns(runs, rows, before),
    ...listsOf(
      USED_BY_RUNS,
      rows.runs.flatMap(({ usage }) => (usage === null ? [] : countedOnce(usage))),
    ),
    ...listsOf(USED_BY_EMBEDDINGS, rows.embeddings),
    streamsText(known),
  ];
  return {
    statement: ({ node_id, epoch }) => ({
      name: 'svc_append',
      text: APPEND,
      values: [node_id, epoch, ...parameters],
    }),
    first: events[0] ?? null,
    last: events.at(-1) ?? null,
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

/** What an event says, without its position. */
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

/** The version with which each stream of the commit begins. */
function firstVersions(events: readonly EventRow[]): Map<string, number> {
  const first = new Map<string, number>();
  for (const { stream, version } of events) if (!first.has(stream)) first.set(stream, version);
  return first;
}

/** Rows whose runs must have events in the log. */
function unknownRuns({ runs }: CommitRows, known: ReadonlyMap<string, number>): string[] {
  return runs.map(({ run_id }) => run_id).filter((run_id) => !known.has(run_id));
}

function eventColumns(events: readonly EventRow[]): unknown[] {
  return [
    events.map(({ stream }) => stream),
    events.map(({ version }) => version),
    events.map(({ type }) => type),
    events.map(({ schema }) => schema),
    events.map(({ at }) => at),
    events.map(({ boot_id }) => boot_id),
    events.map(({ data }) => data),
    events.map(eventDigest),
  ];
}

/** The last row of each run, in the order of the commit. */
function runColumns(given: readonly RunRow[], { events, runs }: CommitRows, before: number) {
  const last = new Map(runs.map((line, index) => [line.run_id, { line, row: given[index] }]));
  const rows = [...last.values()].flatMap(({ line, row }) =>
    row === undefined ? [] : { line, row },
  );
  const offset = (seq: number) => {
    const index = seq - before;
    return index >= 1 && index <= events.length ? index : null;
  };
  const lines = rows.map(({ line }) => line);
  return [
    lines.map(({ run_id }) => run_id),
    lines.map(
      ({ run_id }) =>
        events.findIndex(({ stream, version }) => stream === run_id && version === 1) + 1 || null,
    ),
    lines.map(({ idempotency_key }) => idempotency_key),
    lines.map(({ finished }) => finished === 1),
    rows.map(({ row }) => events[(offset(row.seq) ?? 0) - 1]?.at ?? null),
    lines.map(({ state }) => toColumn(state)),
    lines.map(({ provider }) => toColumn(provider)),
    rows.map(({ row }) => toColumn(row.model)),
    lines.map(({ client }) => toColumn(client ?? '')),
    lines.map(({ cloud }) => cloud === 1),
    lines.map(({ conversation }) => toOptional(conversation)),
    lines.map(({ origin }) => toOptional(origin)),
    rows.map(({ row }) => offset(row.seq)),
    rows.map(({ row }) => row.seq),
    lines.map(({ data }) => data),
    lines.map(({ run_id, data }) => dataDigest(run_id, data)),
    rows.map(({ row }) => (row.finished ? vectorOf(row.record?.prompt) : null)),
    rows.map(({ row }) => (row.finished ? vectorOf(row.record?.output) : null)),
    lines.map(({ due_at }) => due_at),
  ];
}

function toOptional(text: string | null): string | null {
  return text === null ? null : toColumn(text);
}

/** The streams of a notice. It has at most 8000 bytes. */
function streamsText(streams: ReadonlyMap<string, number>): string {
  const text = JSON.stringify([...streams.keys()]);
  return Buffer.byteLength(text) > NOTICE_BYTES_MAX ? '"all"' : text;
}

const NOTICE_BYTES_MAX = 7000;
