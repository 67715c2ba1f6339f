import { readFile } from 'node:fs/promises';
import { writeAtomic } from '../home/atomic-write.ts';
import { type Interval, isIntervals } from './intervals.ts';

/** The identity of a partial file, and how much of it is durable. */
export interface Sidecar {
  /** Without the query. */
  url: string;
  /** Only a strong ETag is kept. */
  etag: string | null;
  size_bytes: number | null;
  sha256: string | null;
  /** Bytes that survive a power cut. Null: `synced_parts` says it. */
  synced_bytes: number | null;
  /** The downloaded parts, of a download with several connections. */
  parts?: Interval[];
  /** Those of them that survive a power cut. */
  synced_parts?: Interval[];
  /** Boot of the host that wrote it. In the same boot all written bytes are there. */
  host_boot_id: string | null;
}

/** Null: there is none, or it is unreadable. */
export async function readSidecar(path: string): Promise<Sidecar | null> {
  try {
    const value = JSON.parse(await readFile(path, 'utf8')) as unknown;
    return isSidecar(value) ? value : null;
  } catch {
    return null;
  }
}

export async function writeSidecar(path: string, sidecar: Sidecar): Promise<void> {
  await writeAtomic(path, `${JSON.stringify(sidecar)}\n`, { draft: `${path}.new` });
}

function isSidecar(value: unknown): value is Sidecar {
  if (typeof value !== 'object' || value === null) return false;
  const { url, etag, size_bytes, sha256, synced_bytes, host_boot_id, parts, synced_parts } =
    value as Record<string, unknown>;
  const text = (field: unknown) => field === null || typeof field === 'string';
  const count = (field: unknown) => Number.isSafeInteger(field) && (field as number) >= 0;
  return (
    typeof url === 'string' &&
    text(etag) &&
    text(sha256) &&
    text(host_boot_id) &&
    (parts === undefined ? count(synced_bytes) : isIntervals(parts) && isIntervals(synced_parts)) &&
    (size_bytes === null || count(size_bytes))
  );
}
