import type { PullSource } from '../../machines/pull.ts';

/**
 * Appends the events of one attempt. Each call resolves after the commit, and throws once the
 * attempt is not wanted.
 */
export interface Report {
  resolved(source: PullSource, offset_bytes: number): Promise<void>;
  progressed(bytes: number): Promise<void>;
  downloaded(bytes: number, existing: boolean): Promise<void>;
  hashed(bytes: number): Promise<void>;
  verified(sha256: string, compared: boolean): Promise<void>;
  completed(path: string): Promise<void>;
}
