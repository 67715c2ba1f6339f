import type { PullSource } from '../../machines/events.ts';

/** How one attempt tells what it did. Each resolves once the fact is durable, and throws when nobody wants the attempt any more. */
export interface Report {
  resolved(source: PullSource, offset_bytes: number): Promise<void>;
  progressed(bytes: number): Promise<void>;
  downloaded(bytes: number, existing: boolean): Promise<void>;
  hashed(bytes: number): Promise<void>;
  verified(sha256: string, compared: boolean): Promise<void>;
  completed(path: string): Promise<void>;
}

/** Calls at most once in `every_ms`. */
export function paced(
  every_ms: number,
  call: (bytes: number) => Promise<void>,
): (bytes: number) => Promise<void> {
  let last = performance.now();
  return async (bytes) => {
    const now = performance.now();
    if (now - last < every_ms) return;
    last = now;
    await call(bytes);
  };
}
