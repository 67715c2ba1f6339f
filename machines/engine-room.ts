import type { EngineSnapshot } from './engine.ts';
import { isIn } from './step.ts';

/**
 * The memory for local models: chooses which models leave so that another one fits.
 *
 * 1. A model with work never leaves.
 * 2. A model that is wanted leaves after the others, and one in its turn after those. Among wanted
 *    models the turn that began first ends first. Among the others, the model whose last work began
 *    first leaves.
 * 3. No model leaves without need.
 * 4. The turn of a model begins when the model is loaded. The load does not count.
 * 5. A turn is worth its load: it lasts several times as long, within a bound.
 * 6. A model that has just ended its work rests for a part of its load time. Its next run is likely
 *    then, and a load for each such run would cost more.
 */

/** A model that is in memory, or is being loaded. */
export interface Resident {
  model: string;
  bytes: number;
  /** The engine has work, or a caller waits for it. */
  busy: boolean;
  /** A run waits for it, or its next run is likely now. */
  wanted: boolean;
  /** Its turn is not over. */
  in_turn: boolean;
  /** When its last work began. */
  used_at: number;
  /** When its turn began. */
  loaded_at: number;
}

/** What may be in memory at one time. */
export interface RoomBounds {
  bytes: number;
  models: number;
}

/** The models that leave so that `bytes` more fit. Null: the busy ones leave too little room. */
export function makeRoom<R extends Resident>(
  bytes: number,
  residents: readonly R[],
  bounds: RoomBounds,
): R[] | null {
  const fitsWithout = (leaving: readonly R[]) => {
    const staying = residents.filter((resident) => !leaving.includes(resident));
    const used = staying.reduce((sum, resident) => sum + resident.bytes, 0);
    return staying.length < bounds.models && used + bytes <= bounds.bytes;
  };
  const candidates = residents.filter(({ busy }) => !busy).sort(byLeaving);
  if (!fitsWithout(candidates)) return null;
  const leaving = [...candidates];
  for (const resident of candidates.toReversed()) {
    const fewer = leaving.filter((other) => other !== resident);
    if (fitsWithout(fewer)) leaving.splice(leaving.indexOf(resident), 1);
  }
  return leaving;
}

function byLeaving(a: Resident, b: Resident): number {
  const byClass = Number(a.wanted) - Number(b.wanted) || Number(a.in_turn) - Number(b.in_turn);
  return byClass || (a.wanted ? a.loaded_at - b.loaded_at : a.used_at - b.used_at);
}

/** How long a model stays while runs wait for the memory of another one. */
export interface ModelTurn {
  /** When it was requested, loaded, and last ended its work. Null: not yet. */
  asked_at: number;
  loaded_at: number | null;
  idle_since: number | null;
}

export interface TurnLimits {
  /** Least length of a turn. */
  turn_ms: number;
  /** Greatest length of a turn that is longer because of its load. */
  turn_max_ms: number;
}

/** Before the first load. */
export const noTurn: ModelTurn = { asked_at: 0, loaded_at: null, idle_since: null };

/** The turn after an event of the engine. */
export function turnAfter(turn: ModelTurn, snapshot: EngineSnapshot | undefined): ModelTurn {
  if (snapshot === undefined) return noTurn;
  const { since } = snapshot.context;
  if (isIn(snapshot, 'starting')) return { asked_at: since, loaded_at: null, idle_since: null };
  if (isIn(snapshot, 'loading')) return turn;
  if (!isIn(snapshot, 'warm')) return { ...turn, loaded_at: null, idle_since: null };
  const loaded_at = turn.loaded_at ?? since;
  return { ...turn, loaded_at, idle_since: isIn(snapshot, 'idle') ? since : null };
}

/** When the turn of a model ends. Infinity: the model is not loaded yet. */
export function turnEnds({ asked_at, loaded_at }: ModelTurn, limits: TurnLimits): number {
  if (loaded_at === null) return Number.POSITIVE_INFINITY;
  const worth = Math.min((loaded_at - asked_at) * LOADS_OF_A_TURN, limits.turn_max_ms);
  return loaded_at + Math.max(limits.turn_ms, worth);
}

/** When the rest of a model ends. Minus infinity: it has work, or is not loaded. */
export function restEnds({ asked_at, loaded_at, idle_since }: ModelTurn): number {
  if (loaded_at === null || idle_since === null) return Number.NEGATIVE_INFINITY;
  return idle_since + (loaded_at - asked_at) * REST_OF_A_LOAD;
}

/** A turn lasts so many times its load: two models in turn load for a quarter of the time. */
const LOADS_OF_A_TURN = 3;
const REST_OF_A_LOAD = 0.25;
