import { type ErrorCode, SvcError } from '../../errors.ts';
import {
  CONFLICT,
  type DamagedRun,
  type OpenReport,
  type PruneQuery,
  type PruneReport,
  type RunHead,
  type RunQuery,
  type VerifiedReport,
  type VerifyReport,
} from '../port.ts';
import { type CommitRows, conflict, type EventRow, type RunLine } from '../row.ts';

/** What the thread of the store can be asked. Data travels as the JSON text that is stored: the thread never parses it. */
export interface Calls {
  /** With the runs whose rows are damaged, as far as a quick look tells. */
  open(): { report: OpenReport; damaged: string[] };
  append(rows: CommitRows): { full: boolean };
  reserve(): boolean;
  spendReserve(): boolean;
  readStream(stream: string, fromVersion: number, limit: number): EventRow[];
  lastEvent(stream: string): EventRow | null;
  readAll(fromSeq: number, limit: number): EventRow[];
  /** The stored data of each run, or what is wrong with it. */
  listRuns(query: RunQuery): (string | DamagedRun)[];
  getRun(run_id: string): string | null;
  /** The record as JSON. It is handed over, and no copy is made. */
  readRecord(run_id: string): Uint8Array | null;
  runHead(run_id: string): RunHead | null;
  getRunByKey(idempotency_key: string): string | null;
  unfinishedRuns(): string[];
  runsAt(seq: number, limit: number): string[];
  startedStreams(from_seq: number, to_seq: number, limit: number): string[];
  countRuns(): { finished: number; unfinished: number };
  prune(query: PruneQuery): PruneReport;
  verify(): Promise<VerifyReport>;
  verifyPart(now: number, restart: boolean): { done: boolean; damaged: string[] };
  verified(): VerifiedReport;
  /** Puts a row made from the events in the place of one that is damaged; false when the run has gone on meanwhile. */
  mendRun(line: RunLine): boolean;
  close(): void;
}

export interface Call {
  id: number;
  method: keyof Calls;
  args: unknown[];
}

export type Reply = { id: number; result: unknown } | { id: number; error: ThrownError };

/** Sent without a call: the log cannot be written any more. */
export type Alarm = { alarm: ThrownError };

/** An error on its way between the threads. */
export interface ThrownError {
  code: ErrorCode | typeof CONFLICT;
  message: string;
  hint?: string;
  details?: Record<string, unknown> | undefined;
  /** For the log. */
  cause: string;
}

export function packError(thrown: unknown): ThrownError {
  if (thrown instanceof SvcError)
    return {
      code: thrown.code,
      message: thrown.message,
      hint: thrown.hint,
      details: thrown.details,
      cause: describe(thrown.cause),
    };
  const { code, message } = thrown as Error & { code?: string };
  return code === CONFLICT
    ? { code, message, cause: '' }
    : {
        code: 'store_failed',
        message: new SvcError('store_failed').message,
        cause: describe(thrown),
      };
}

export function unpackError({ code, message, hint, details, cause }: ThrownError): Error {
  if (code === CONFLICT) return conflict(message);
  return new SvcError(code, message, {
    ...(cause ? { cause: new Error(cause) } : {}),
    ...(hint ? { hint } : {}),
    ...(details ? { details } : {}),
  });
}

function describe(cause: unknown): string {
  if (!(cause instanceof Error)) return cause === undefined ? '' : String(cause);
  const { code } = cause as { code?: unknown };
  return code === undefined ? cause.message : `${code}: ${cause.message}`;
}
