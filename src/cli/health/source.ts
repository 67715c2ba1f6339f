/** What a transport says of the daemon's health; null where that transport does not tell it. */
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
  /** Throws when it cannot be reached. */
  ask(address: string): Promise<Answer>;
  /** One answer now and one at each change, until the connection ends or the signal aborts. */
  watch(address: string, signal: AbortSignal): AsyncIterable<Answer>;
}

/** For the daemon to answer; it only has to look into its memory. */
export const ANSWER_MS = 3_000;
