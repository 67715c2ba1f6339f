import { hash } from 'node:crypto';
import type { EventRow } from './row.ts';

/** The hash before the first event. */
export const GENESIS = '0'.repeat(64);

/**
 * The hash of an event: SHA-256, in hex, over three lines.
 * The lines are the previous hash, the fields except `data` as a JSON array, and the stored data.
 * JSON text has no raw line breaks, so two different events never have the same lines.
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
