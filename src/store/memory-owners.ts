import type { WantedFile } from './fleet.ts';

/** Who has a run of a fleet in memory. */
export interface Owner {
  /** When it was released. */
  since: number;
  node_id: string | null;
  waits: boolean;
  kept: Kept | null;
}

/** A run that is kept for a file, and how long. */
export type Kept = WantedFile & { until: number };

export function own(node_id: string): Owner {
  return { since: 0, node_id, waits: false, kept: null };
}

export function isSame(one: WantedFile, other: WantedFile): boolean {
  return one.provider === other.provider && one.model === other.model && one.file === other.file;
}

export function firstOfEach(all: readonly Kept[]): WantedFile[] {
  return all
    .filter((kept, index) => all.findIndex((one) => isSame(one, kept)) === index)
    .map(({ provider, model, file }) => ({ provider, model, file }));
}
