import { hash } from 'node:crypto';

/** What one client knows of a run, to compare with the log. */
export interface RunSeen {
  prompt: string;
  seed: number | null;
  temperature: number | null;
  key: string | null;
  /** All ids that it got for this run; there must be one. */
  ids: Set<string>;
  /** All events that it received, in order. */
  events: { seq: number; version: number; type: string; digest: string }[];
  /** The last state in an answer to a cancel. */
  cancelled: string | null;
  /** Output of `svc run`, and its exit. */
  printed: { text: string; code: number | null } | null;
}

export function newSeen(asked: Pick<RunSeen, 'prompt' | 'seed' | 'temperature' | 'key'>): RunSeen {
  return { ...asked, ids: new Set(), events: [], cancelled: null, printed: null };
}

export function note(
  seen: RunSeen,
  event: { seq: number; version: number; type: string; data: unknown },
): void {
  const { seq, version, type } = event;
  seen.events.push({ seq, version, type, digest: digestOf(event.data) });
}

/** A digest of the data of an event, for any order of fields. */
export function digestOf(data: unknown): string {
  return hash(
    'sha256',
    JSON.stringify(data, (_, value) =>
      isRecord(value) ? Object.fromEntries(Object.entries(value).sort(byName)) : value,
    ),
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function byName([a]: [string, unknown], [b]: [string, unknown]): number {
  return a < b ? -1 : 1;
}
