import { hash } from 'node:crypto';
import type { EventRow } from './row.ts';

/** What the first event is chained to. */
export const GENESIS = '0'.repeat(64);

/**
 * The hash of an event: SHA-256, in hex, over three lines: the hash before it, its fields but `data` as a JSON array, and its stored data.
 * JSON text has no line breaks of its own, so that no two events have the same lines.
 */
export function chain(
  previous: string,
  { seq, stream, version, type, schema, at, boot_id, data }: EventRow,
): string {
  return hash(
    'sha256',
    `${previous}\n${JSON.stringify([seq, stream, version, type, schema, at, boot_id])}\n${data}`,
  );
}
