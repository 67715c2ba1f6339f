/**
 * The memory for local models: which of them leave so that another one fits.
 *
 * 1. A model with work never leaves.
 * 2. A model with a waiting run leaves after the others. Then the one whose last work began first.
 * 3. No model leaves that need not.
 */

/** A model in memory, or one that is about to be. */
export interface Resident {
  model: string;
  bytes: number;
  /** It has work, or a caller waits for it. */
  busy: boolean;
  /** A run waits for it. */
  wanted: boolean;
  /** When its last work began. */
  used_at: number;
}

/** What may be in memory at one time. */
export interface RoomBounds {
  bytes: number;
  models: number;
}

/** The models that leave so that `bytes` more fit. Null: the busy ones leave too little room. */
export function makeRoom(
  bytes: number,
  residents: readonly Resident[],
  bounds: RoomBounds,
): Resident[] | null {
  const fitsWithout = (leaving: readonly Resident[]) => {
    const staying = residents.filter((resident) => !leaving.includes(resident));
    const used = staying.reduce((sum, resident) => sum + resident.bytes, 0);
    return staying.length < bounds.models && used + bytes <= bounds.bytes;
  };
  const candidates = residents
    .filter(({ busy }) => !busy)
    .sort((a, b) => Number(a.wanted) - Number(b.wanted) || a.used_at - b.used_at);
  if (!fitsWithout(candidates)) return null;
  const leaving = [...candidates];
  for (const resident of candidates.toReversed()) {
    const fewer = leaving.filter((other) => other !== resident);
    if (fitsWithout(fewer)) leaving.splice(leaving.indexOf(resident), 1);
  }
  return leaving;
}
