import { readFile } from 'node:fs/promises';
import { writeAtomic } from '../home/atomic-write.ts';

/** What is known of a partial file: enough to go on with it, or to see that it is part of something else. */
export interface Sidecar {
  /** Without what follows a question mark. */
  url: string;
  /** As the other side sent it; only a strong one is kept. */
  etag: string | null;
  size_bytes: number | null;
  sha256: string | null;
  /** So many bytes are surely on disk, whatever happens to the machine. */
  synced_bytes: number;
  /** Life of the operating system in which it was written: while that lasts, what was written is there. */
  host_boot_id: string | null;
}

/** Null when there is none that can be understood. */
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
  const { url, etag, size_bytes, sha256, synced_bytes, host_boot_id } = value as Record<
    string,
    unknown
  >;
  const text = (field: unknown) => field === null || typeof field === 'string';
  const count = (field: unknown) => Number.isSafeInteger(field) && (field as number) >= 0;
  return (
    typeof url === 'string' &&
    text(etag) &&
    text(sha256) &&
    text(host_boot_id) &&
    count(synced_bytes) &&
    (size_bytes === null || count(size_bytes))
  );
}
