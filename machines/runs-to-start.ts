import { makeRoom, type Resident, type RoomBounds } from './engine-room.ts';

/**
 * The policy of the scheduler: which queued runs start now.
 *
 * 1. Runs start in the order of the queue, within the concurrency limits.
 * 2. Runs of one local model share its engine. An isolated run shares it with no other run, nor
 *    the server of its provider.
 * 3. A local run whose model is not in memory starts when there is room. Models without work make
 *    room: those that are not wanted, and those whose turn is over.
 * 4. While it waits, later runs of the models in memory may start before it. So two clients with
 *    two models do not load them in turn for each run.
 * 5. After its turn a model gets no new run while an earlier run waits for its memory. The model
 *    then ends its work. Turns have a bound, so no model starves another.
 * 6. While a run waits for the end of turns, no later run takes the memory of a model.
 * 7. Runs at which several boots ended start one after the other. So the next end has one cause.
 * 8. All tokens together leave a place for the home, so their hanging runs do not block it.
 */

export interface QueuedRun {
  run_id: string;
  provider: string;
  model: string;
  /** The engine died while it computed this run. */
  isolated?: boolean;
  /** Several boots in a row ended while they worked on it. */
  suspect?: boolean;
  /** Name of the token that started it. Absent or null: the home did. */
  asker?: string | null;
}

export interface ActiveRun extends Omit<QueuedRun, 'run_id'> {
  /** The run ends without having started, such as by a cancel, so it needs no model in memory. */
  unstarted?: boolean;
}

/** A model in memory, by its key. */
export interface Occupant extends Omit<Resident, 'wanted'> {
  /** Its next run is likely now. */
  resting: boolean;
}

/** Where a model belongs, and what it needs. */
export interface ModelNeeds {
  key: string;
  bytes: number;
  /** Its runs at one time. Absent: as many as any model has. */
  runs?: number;
}

/** The memory for local models. */
export interface Room extends RoomBounds {
  /** Undefined: not known yet, so its runs wait. */
  find(model: string): ModelNeeds | undefined;
  /** The models that are in memory at this time. */
  residents(now: number): readonly Occupant[];
}

/** How many runs may be active at one time. */
export interface Concurrency {
  /** All providers together. */
  total: number;
  /** One provider, unless it has its own limit. */
  perProvider: number;
  /** The configured limit of one provider. */
  ofProvider?(provider: string): number | undefined;
  /** One model of the local engine, which answers all its runs in one context. */
  local: number;
  /** Local runs that a node takes from a fleet: as many as each model has. Absent: `local`. */
  claimed?: number;
  /**
   * Places that tokens leave to the home wherever there are more: of all, of a provider, of a local
   * model. Absent: none.
   */
  kept?: number;
  /** Absent: there is room for one local model. */
  room?: Room;
}

/** The runs to start now, in order. */
export function runsToStart(
  queue: readonly QueuedRun[],
  active: readonly ActiveRun[],
  limits: Concurrency,
  now = 0,
): string[] {
  const started: string[] = [];
  // Mostly no local run waits.
  let known: LocalPlaces | null = null;
  const places = () => {
    known ??= new LocalPlaces({ queue, active, limits, now });
    return known;
  };
  const running = Map.groupBy(active, ({ provider }) => provider);
  const taken: ActiveRun[] = [...active];
  /** Providers whose runs must end before an isolated run starts. */
  const closed = new Set<string>();
  for (const run of queue) {
    if (taken.length >= limits.total) break;
    const { provider } = run;
    const peers = running.get(provider) ?? [];
    const isFree =
      !(run.suspect === true && taken.some(({ suspect }) => suspect === true)) &&
      !closed.has(provider) &&
      !isKept(run, taken, limits.total, limits) &&
      (provider === LOCAL
        ? places().take(run)
        : hasPlace(run, peers, limits.ofProvider?.(provider) ?? limits.perProvider, limits));
    if (!isFree && run.isolated === true && provider !== LOCAL) closed.add(provider);
    if (!isFree) continue;
    running.set(provider, [...peers, run]);
    taken.push(run);
    started.push(run.run_id);
  }
  return started;
}

type Kept = Pick<Concurrency, 'kept'>;

function hasPlace(run: ActiveRun, peers: readonly ActiveRun[], limit: number, kept: Kept) {
  const isAlone = peers.every((other) => canShare(run, other));
  return isAlone && peers.length < limit && !isKept(run, peers, limit, kept);
}

/** Whether the places that are left beside these runs are kept for the home. */
function isKept(
  { asker }: ActiveRun,
  peers: readonly ActiveRun[],
  limit: number,
  { kept = 0 }: Kept,
): boolean {
  if (asker == null || kept === 0 || limit <= kept) return false;
  return peers.filter((peer) => peer.asker != null).length >= limit - kept;
}

/** How many more runs of a provider may be active beside the known ones. */
export function freePlaces(
  known: readonly { provider: string }[],
  { total, local, claimed = local, perProvider, ofProvider }: Concurrency,
  provider: string,
): number {
  const peers = known.filter((run) => run.provider === provider).length;
  const limit = provider === LOCAL ? claimed : (ofProvider?.(provider) ?? perProvider);
  return Math.max(0, Math.min(total - known.length, limit - peers));
}

export const LOCAL = 'local';

const ONE_MODEL: Room = {
  bytes: 1,
  models: 1,
  find: (key) => ({ key, bytes: 1 }),
  residents: () => [],
};

interface Decision {
  queue: readonly QueuedRun[];
  active: readonly ActiveRun[];
  limits: Concurrency;
  now: number;
}

/** The local models and their runs, while one decision is made. */
class LocalPlaces {
  private readonly room: Room;
  private readonly limits: Concurrency;
  private readonly queue: readonly QueuedRun[];
  private readonly residents = new Map<string, Occupant>();
  private readonly running = new Map<string, ActiveRun[]>();
  /** Models that get no later run. */
  private readonly closed = new Set<string>();
  /** The state of a model that is not in memory yet. Without a room, turns have no length. */
  private readonly arriving: Omit<Occupant, 'model' | 'bytes'>;
  /** A run waits for the end of turns. */
  private waits = false;
  private queued: Set<string> | null = null;

  constructor({ queue, active, limits, now }: Decision) {
    const { room } = limits;
    this.room = room ?? ONE_MODEL;
    this.limits = limits;
    this.queue = queue;
    const never = Number.POSITIVE_INFINITY;
    const times = { used_at: never, loaded_at: never };
    this.arriving = { ...times, busy: true, in_turn: room !== undefined, resting: false };
    for (const resident of this.room.residents(now)) this.residents.set(resident.model, resident);
    for (const run of active) {
      const needsModel = run.provider === LOCAL && run.unstarted !== true;
      const found = needsModel ? this.room.find(run.model) : undefined;
      if (found !== undefined) this.note(run, found.key, found.bytes);
    }
  }

  /** Whether the run starts now. */
  take(run: QueuedRun): boolean {
    const found = this.room.find(run.model);
    if (found === undefined || this.closed.has(found.key)) return false;
    const { key, bytes, runs = Number.POSITIVE_INFINITY } = found;
    const peers = this.running.get(key) ?? [];
    const { limits } = this;
    const most = Math.min(limits.local, runs);
    // The place is kept for a run of the home, so this run does not block later ones.
    if (isKept(run, peers, most, limits)) return false;
    const isFull = peers.length >= most || peers.some((other) => !canShare(run, other));
    if (isFull || !(this.residents.has(key) || this.hasRoom(key, bytes))) {
      this.closed.add(key);
      return false;
    }
    this.note(run, key, bytes);
    return true;
  }

  private note(run: ActiveRun, key: string, bytes: number): void {
    this.running.set(key, [...(this.running.get(key) ?? []), run]);
    const known = this.residents.get(key) ?? { ...this.arriving, model: key, bytes };
    this.residents.set(key, { ...known, busy: true });
  }

  /** Drops the models that make room. False: the run waits. */
  private hasRoom(key: string, bytes: number): boolean {
    const residents = [...this.residents.values()].map((resident) => ({
      ...resident,
      wanted: resident.resting || this.isQueued(resident.model),
    }));
    const free = (each: Resident) => !this.waits && !(each.wanted && each.in_turn);
    const leaving = makeRoom(bytes, residents.map(markBusyUnless(free)), this.room);
    if (leaving !== null) {
      for (const { model } of leaving) this.residents.delete(model);
      return true;
    }
    if (this.waits) return false;
    // The choice must not change while these models end their work.
    const over = residents.map((each) => ({ ...each, busy: each.in_turn, wanted: true }));
    const ending = makeRoom(bytes, over, this.room);
    if (ending === null) this.waits = true;
    else {
      for (const { model } of ending) this.closed.add(model);
      this.residents.set(key, { ...this.arriving, in_turn: true, model: key, bytes });
    }
    return false;
  }

  private isQueued(key: string): boolean {
    this.queued ??= new Set(
      this.queue
        .filter(({ provider }) => provider === LOCAL)
        .map(({ model }) => this.room.find(model)?.key ?? ''),
    );
    return this.queued.has(key);
  }
}

/** Models that are not free count as busy. */
function markBusyUnless(free: (each: Resident) => boolean) {
  return (each: Resident): Resident => ({ ...each, busy: each.busy || !free(each) });
}

/** Whether the engine may compute both runs of its model at the same time. */
function canShare(run: ActiveRun, other: ActiveRun): boolean {
  return run.isolated !== true && other.isolated !== true;
}
