import type { Calls } from '../store.ts';
import type { ThrownError } from './thrown-error.ts';

/** The messages between the threads. */
export interface Call {
  id: number;
  method: keyof Calls;
  args: unknown[];
}

export type Reply = { id: number; result: unknown } | { id: number; error: ThrownError };

/** Sent without a call: the log can no longer be written. */
export type Alarm = { alarm: ThrownError };

/** Sent without a call: the log was written again, since a page was damaged. */
export type Notice = { reindexed: true };
