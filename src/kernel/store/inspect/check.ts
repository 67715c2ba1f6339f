import { dirname } from 'node:path';
import type Database from 'better-sqlite3';
import { SvcError } from '../../../errors.ts';
import { EVENT_NAMES } from '../columns.ts';
import { chain, GENESIS } from '../continuity.ts';
import type { KnownMark, Mark, MarkFile } from '../files/high-water.ts';
import { Gaps, REMOVED } from '../gaps.ts';
import type { EventRow } from '../row.ts';

export const EVENTS = EVENT_NAMES.join(', ');
export type HashedRow = EventRow & { hash: unknown };

/** Events checked at each open: a crash can only harm the end. `verify` checks all. */
const TAIL_EVENTS = 1000;

/**
 * Checks the numbering and the hashes of the last events. Returns the last one. Throws
 * store_corrupt.
 */
export function checkTail(db: Database.Database): Mark {
  const { seq: last } = db
    .prepare<[], { seq: number }>('select coalesce(max(seq), 0) as seq from events')
    .get() ?? { seq: 0 };
  const gaps = new Gaps(db);
  let mark = markAt(db, gaps, Math.max(0, last - TAIL_EVENTS));
  for (const row of db
    .prepare<[number], HashedRow>(`select ${EVENTS}, hash from events where seq > ? order by seq`)
    .iterate(mark.seq)) {
    const problem = linkProblem(skipGap(gaps, mark, row.seq), row);
    if (problem !== null) refuse(problem);
    mark = { seq: row.seq, hash: hex(row.hash) };
  }
  return mark;
}

/** The last position with a known hash, at or before this one or at the end of its gap. */
function markAt(db: Database.Database, gaps: Gaps, seq: number): Mark {
  const row = db
    .prepare<[number], { seq: number; hash: unknown }>(
      'select seq, hash from events where seq <= ? order by seq desc limit 1',
    )
    .get(seq);
  const gap = gaps.lastBefore(seq);
  if (row !== undefined && (gap === null || gap.seq < row.seq))
    return { seq: row.seq, hash: hex(row.hash) };
  return gap ?? { seq: 0, hash: GENESIS };
}

/** What the chain continues from: the previous event, or the end of the gap after it. */
export function skipGap(gaps: Gaps, previous: Mark, next_seq: number): Mark {
  if (next_seq === previous.seq + 1) return previous;
  return gaps.endOf(previous.seq + 1) ?? previous;
}

/**
 * Checks that the log still reaches its mark. `log_id` is its name; null if it has none yet.
 * Throws store_tail_lost, with a hint on how to continue without the lost events.
 */
export function checkHighWater(
  last: Mark,
  { mark, accepted }: MarkFile,
  log_id: string | null,
  file: string,
  hashOf: (seq: number) => string | null,
): void {
  const problem = accepted ? null : markProblem(last, mark, log_id, hashOf);
  if (problem === null) return;
  throw new SvcError('store_tail_lost', problem, {
    hint:
      `Run svc doctor, and keep a copy of the folder ${dirname(file)}. ` +
      `To continue with the log as it is: echo accept > ${JSON.stringify(file)}`,
    details: { last_seq: last.seq, recorded_seq: mark?.seq, file },
  });
}

/** The problem between the log and its mark, as a sentence. The mark may be behind. */
export function markProblem(
  last: Mark,
  mark: KnownMark | null,
  log_id: string | null,
  hashOf: (seq: number) => string | null,
): string | null {
  if (log_id === '') return 'The event log has lost its own name.';
  if (log_id !== null && mark === null)
    return (
      'The high-water mark of the event log is gone, or cannot be read: ' +
      'its end may be missing.'
    );
  if (log_id !== null && mark?.log_id !== log_id)
    return 'The high-water mark belongs to another event log: the end of this one may be missing.';
  if (mark === null || mark.seq === 0) return null;
  if (mark.seq > last.seq)
    return `The event log ends at event ${last.seq}, and had reached event ${mark.seq}.`;
  const found = hashOf(mark.seq);
  if (found !== mark.hash && found !== REMOVED)
    return `The event ${mark.seq} of the log is not the one that was recorded.`;
  return null;
}

/** The problem between an event and the previous one, as a sentence. */
export function linkProblem(previous: Mark, row: HashedRow): string | null {
  if (row.seq !== previous.seq + 1)
    return (
      `After the event ${previous.seq} of the log comes the event ${row.seq}: ` +
      'some are missing.'
    );
  if (chain(previous.hash, row) !== hex(row.hash))
    return `The event ${row.seq} of the log (${row.type}) does not agree with its hash.`;
  return null;
}

/** The stored hash of an event; REMOVED if it was removed, null if it is missing. */
export function hashAt(db: Database.Database, seq: number): string | null {
  const row = db
    .prepare<[number], { hash: unknown }>('select hash from events where seq = ?')
    .get(seq);
  if (row !== undefined) return hex(row.hash);
  const gap = new Gaps(db).endOf(seq);
  if (gap === null) return null;
  return gap.seq === seq ? gap.hash : REMOVED;
}

export function hex(hash: unknown): string {
  return Buffer.isBuffer(hash) ? hash.toString('hex') : '';
}

function refuse(problem: string): never {
  throw new SvcError('store_corrupt', problem);
}
