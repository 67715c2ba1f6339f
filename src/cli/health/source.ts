/** The health of the daemon; null for fields that the transport does not have. */
export interface Answer {
  live: boolean;
  ready: boolean;
  status: 'pass' | 'warn' | 'fail';
  state: string | null;
  state_path: string | null;
  since: string | null;
  reason: string | null;
  output?: string | null;
  version: string | null;
}

export interface Source {
  /** Throws if the daemon cannot be reached. */
  ask(address: string): Promise<Answer>;
  /** Yields now and at each change, until the connection ends or the signal aborts. */
  watch(address: string, signal: AbortSignal): AsyncIterable<Answer>;
}

/** Longest wait for an answer, which the daemon has in memory. */
export const ANSWER_MS = 3_000;
