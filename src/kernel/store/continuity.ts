import { hash } from 'node:crypto';
import { type CommitRows, conflict, type EventRow } from './row.ts';

/**
 * Checks that a commit continues the log and each of its streams.
 * It also refuses a run without its first event, and names that cannot be stored.
 * Throws store_conflict, before anything has changed.
 */
export function checkContinuity(
  { events, runs }: Pick<CommitRows, 'events' | 'runs'>,
  last_seq: number,
  lastVersion: (stream: string) => number,
): void {
  const versions = new Map<string, number>();
  let seq = last_seq;
  for (const event of events) {
    seq += 1;
    checkForm(event);
    const version = (versions.get(event.stream) ?? lastVersion(event.stream)) + 1;
    if (event.seq !== seq)
      throw conflict(`The event ${event.seq} does not continue the log: ${seq} is next.`);
    if (event.version !== version)
      throw conflict(
        `Version ${event.version} does not continue ${event.stream}: ${version} is next.`,
      );
    versions.set(event.stream, version);
  }
  for (const { run_id, idempotency_key } of runs) {
    checkName('run_id', run_id);
    if (idempotency_key !== null) checkName('idempotency_key', idempotency_key);
    if ((versions.get(run_id) ?? lastVersion(run_id)) < 1)
      throw conflict(`The run ${run_id} has no events.`);
  }
}

function checkForm({ stream, type, boot_id, at, schema }: EventRow): void {
  checkName('stream', stream);
  checkName('type', type);
  checkName('boot_id', boot_id);
  if (!Number.isFinite(at)) throw conflict('The time of an event is not a number.');
  if (!Number.isSafeInteger(schema))
    throw conflict('The schema of an event is not a whole number.');
}

/**
 * Names are stored unescaped, so that they can be searched. NUL and lone surrogates would change.
 */
function checkName(field: string, name: string): void {
  if (typeof name !== 'string' || name === '' || name.includes('\0') || !name.isWellFormed())
    throw conflict(`The ${field} ${JSON.stringify(name)} cannot be stored.`);
}

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
