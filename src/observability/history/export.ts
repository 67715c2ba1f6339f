import { createHash } from 'node:crypto';
import { streamOf } from '../../kernel/pages.ts';
import type { EventStore, StoredEvent } from '../../kernel/store/port.ts';
import { redactEvent } from './redact.ts';

/**
 * A run as a file: JSON that another machine can fold. It is made while it is read, so that it uses
 * little memory. It ends with a digest: SHA-256 of the same object without the digest, as JSON
 * without spaces.
 */

export const FORMAT = 'svc-run-export';
export const FORMAT_VERSION = 1;

export interface ExportOptions {
  redact: boolean;
  /** The version of the program that writes it. */
  version: string;
  now: number;
}

type Reader = Pick<EventStore, 'readStream'>;

/** The pieces of the file, in order. None if the log has no event of the run. */
export async function* exportRun(
  store: Reader,
  run_id: string,
  { redact, version, now }: ExportOptions,
): AsyncIterable<string> {
  const [accepted] = await store.readStream(run_id, 1, 1);
  if (accepted === undefined) return;
  const show = redact ? redactEvent : (event: StoredEvent) => event;
  const digest = createHash('sha256');
  const addToDigest = (piece: string) => {
    digest.update(piece);
    return piece;
  };
  const head = {
    format: FORMAT,
    version: FORMAT_VERSION,
    exported_at: new Date(now).toISOString(),
    program: { version },
  };
  const rest = { boot: await bootOf(store, accepted.boot_id), run_id, redacted: redact };
  yield addToDigest(`${JSON.stringify({ ...head, ...rest }).slice(0, -1)},"events":[`);
  const boots = new Set<string>();
  let comma = '';
  for await (const event of streamOf(store, run_id)) {
    boots.add(event.boot_id);
    yield addToDigest(comma + JSON.stringify(show(event)));
    comma = ',';
  }
  yield addToDigest('],"daemon_events":[');
  comma = '';
  for (const boot_id of boots) {
    for await (const event of streamOf(store, `daemon:${boot_id}`)) {
      if (!concerns(event, run_id)) continue;
      yield addToDigest(comma + JSON.stringify(show(event)));
      comma = ',';
    }
  }
  digest.update(']}');
  yield `],"digest":"${digest.digest('hex')}"}\n`;
}

/** The digest of a file with these contents. */
export function digestOf(fields: object): string {
  return createHash('sha256').update(JSON.stringify(fields)).digest('hex');
}

async function bootOf(
  store: Reader,
  boot_id: string,
): Promise<{ boot_id: string; version: unknown; at: string | null }> {
  const [started] = await store.readStream(`daemon:${boot_id}`, 1, 1);
  return {
    boot_id,
    version: started?.data.version ?? null,
    at: started === undefined ? null : new Date(started.at).toISOString(),
  };
}

/** The daemon's own events, and of runs only this one. */
function concerns({ data }: StoredEvent, run_id: string): boolean {
  return data.run_id === undefined || data.run_id === run_id;
}
