import type { Log } from '../ports/log.ts';

/**
 * Counts what the listeners refuse, for the log. It owns the counts of the present period.
 *
 * 1. The first refusal after a quiet period is logged at once. Later ones share one line each
 *    period.
 * 2. A line has counts by kind, and nothing that a client sent.
 */
export interface Refusals {
  count(kind: string): void;
  /** Logs the counts and ends. */
  close(): void;
}

/**
 * Why the listener refused a request or closed a connection: codes of errors, and cases without an
 * answer.
 */
const KINDS = [
  'unauthorised',
  'forbidden_origin',
  'headers_too_large',
  'request_timed_out',
  'body_too_large',
  'too_many_connections',
  'malformed_request',
  'open_requests',
  'connection_calls',
  'closed_for_room',
  'address_share',
  'handshake_failed',
] as const;

export type Refusal = (typeof KINDS)[number];

export function createRefusals(log: Log, every_ms: number): Refusals {
  const counts = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;
  const write = () => {
    log.warn({ refused: Object.fromEntries(counts) }, 'requests or connections were refused');
    counts.clear();
  };
  const pause = () => {
    timer = setTimeout(() => {
      timer = undefined;
      if (counts.size === 0) return;
      write();
      pause();
    }, every_ms).unref();
  };
  return {
    count(kind) {
      if (!(KINDS as readonly string[]).includes(kind)) return;
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
      if (timer !== undefined) return;
      write();
      pause();
    },
    close() {
      clearTimeout(timer);
      timer = undefined;
      if (counts.size > 0) write();
    },
  };
}
