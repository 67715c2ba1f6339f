import { hash } from 'node:crypto';

/** What one client knows of one run, for the comparison with the log afterwards. */
export interface RunSeen {
  prompt: string;
  seed: number | null;
  temperature: number | null;
  key: string | null;
  /** Every id that it was told for this run: there must be one. */
  ids: Set<string>;
  /** Every event that it was given, in the order in which it came. */
  events: { seq: number; version: number; type: string; digest: string }[];
  /** The last state that a cancel was answered with. */
  cancelled: string | null;
  /** What `svc run` printed, and how it ended. */
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

/** Of what an event carries, whatever the order of its fields. */
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
