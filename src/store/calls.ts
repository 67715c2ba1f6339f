import type { Commit, EventStore, OpenReport, RunRow, StoredEvent } from './port.ts';
import type { CommitRows, EventRow, RunLine } from './row.ts';

/**
 * What a log answers: the methods of the port, on stored rows.
 *
 * Data stays the JSON text that is stored, so a thread can pass it on without parsing it.
 * The types follow from the port: a new method is declared there and implemented by each log.
 */
export type Calls = { [M in PlainCall]: OnRows<EventStore[M]> } & {
  /** Opens the log. `damaged`: runs whose rows a quick check found damaged. */
  open(): Opened;
  verifyPart(now: number, restart: boolean): { done: boolean; damaged: string[] };
  /** Replaces a damaged row. False if the run has newer events than `line`. */
  mendRun(line: RunLine): boolean;
};

export interface Opened {
  report: OpenReport;
  damaged: string[];
}

/** The one way to ask a log, wherever it is. */
export type Ask = <M extends keyof Calls>(
  method: M,
  ...args: Parameters<Calls[M]>
) => Promise<Awaited<ReturnType<Calls[M]>>>;

/** Calls that differ from the port only in the form of their data. */
type PlainCall = Exclude<keyof EventStore, 'open' | 'verifyPart'>;

type OnRows<F> = F extends (...args: infer A) => Promise<infer R>
  ? (...args: { [I in keyof A]: Stored<A[I]> }) => Stored<R> | Promise<Stored<R>>
  : never;

/** The form in which a value is stored. */
type Stored<T> = T extends Commit
  ? CommitRows
  : T extends StoredEvent
    ? EventRow
    : T extends RunRow
      ? string
      : T extends (infer I)[]
        ? Stored<I>[]
        : T;
