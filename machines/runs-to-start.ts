import { makeRoom, type Resident, type RoomBounds } from './engine-room.ts';

/**
 * The policy of the scheduler: which queued runs start now.
 *
 * 1. Runs start in the order of the queue, within the concurrency limits.
 * 2. Runs of one local model share its engine. An isolated run shares it with no other run.
 * 3. A local run whose model is not in memory starts when there is room. Models without work make
 *    room, first those that no run waits for.
 * 4. While it waits, later runs of the models in memory may start before it. So two clients with
 *    two models do not load them in turn for each run.
 * 5. Once it is due, models that later runs want make room too. One with work gets no new run, so
 *    it ends its work. So no model starves another.
 */

export interface QueuedRun {
  run_id: string;
  provider: string;
  model: string;
  /** The engine died while it computed this run. */
  isolated?: boolean;
  /** Other models had their turn: it starts before later runs. Absent: true. */
  due?: boolean;
}

export interface ActiveRun extends Omit<QueuedRun, 'run_id' | 'due'> {
  /** It ends without having started, such as by a cancel. So it needs no model in memory. */
  unstarted?: boolean;
}

/** The memory for local models. */
export interface Room extends RoomBounds {
  /** Where the model belongs, and what it needs. Undefined: not known yet, so its runs wait. */
  find(model: string): { key: string; bytes: number } | undefined;
  /** What is in memory, by key. */
  residents(): readonly Omit<Resident, 'wanted'>[];
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
  /** Absent: there is room for one local model. */
  room?: Room;
}

/** The runs to start now, in order. */
export function runsToStart(
  queue: readonly QueuedRun[],
  active: readonly ActiveRun[],
  limits: Concurrency,
): string[] {
  const running: ActiveRun[] = [...active];
  const started: string[] = [];
  const places = new LocalPlaces(queue, active, limits);
  for (const run of queue) {
    if (running.length >= limits.total) break;
    if (run.provider === LOCAL) {
      if (!places.take(run)) continue;
    } else {
      const peers = running.filter((other) => other.provider === run.provider);
      if (peers.length >= (limits.ofProvider?.(run.provider) ?? limits.perProvider)) continue;
    }
    running.push(run);
    started.push(run.run_id);
  }
  return started;
}

const LOCAL = 'local';

const ONE_MODEL: Room = {
  ...{ bytes: 1, models: 1 },
  find: (key) => ({ key, bytes: 1 }),
  residents: () => [],
};

/** The local models and their runs, while one decision is made. */
class LocalPlaces {
  private readonly room: Room;
  private readonly limit: number;
  private readonly queue: readonly QueuedRun[];
  private readonly residents = new Map<string, Omit<Resident, 'wanted'>>();
  private readonly running = new Map<string, ActiveRun[]>();
  /** Models that get no later run. */
  private readonly held = new Set<string>();
  private queued: Set<string> | null = null;

  constructor(
    queue: readonly QueuedRun[],
    active: readonly ActiveRun[],
    { local, room = ONE_MODEL }: Concurrency,
  ) {
    this.room = room;
    this.limit = local;
    this.queue = queue;
    for (const resident of room.residents()) this.residents.set(resident.model, resident);
    for (const run of active) {
      const needsModel = run.provider === LOCAL && run.unstarted !== true;
      const found = needsModel ? room.find(run.model) : undefined;
      if (found !== undefined) this.note(run, found.key, found.bytes);
    }
  }

  /** Whether the run starts now. */
  take(run: QueuedRun): boolean {
    const found = this.room.find(run.model);
    if (found === undefined || this.held.has(found.key)) return false;
    const { key, bytes } = found;
    const peers = this.running.get(key) ?? [];
    const isFull = peers.length >= this.limit || peers.some((other) => !canShare(run, other));
    if (isFull || !(this.residents.has(key) || this.hasRoom(run, key, bytes))) {
      this.held.add(key);
      return false;
    }
    this.note(run, key, bytes);
    return true;
  }

  private note(run: ActiveRun, key: string, bytes: number): void {
    this.running.set(key, [...(this.running.get(key) ?? []), run]);
    const known = this.residents.get(key);
    this.residents.set(key, {
      model: key,
      bytes: known?.bytes ?? bytes,
      busy: true,
      used_at: known?.used_at ?? Number.POSITIVE_INFINITY,
    });
  }

  /** Drops the models that make room for the run. False: it waits. */
  private hasRoom({ due = true }: QueuedRun, key: string, bytes: number): boolean {
    const residents = [...this.residents.values()].map((resident) => ({
      ...resident,
      wanted: this.isQueued(resident.model),
    }));
    const leaving = makeRoom(bytes, residents, this.room);
    if (leaving !== null && (due || leaving.every(({ wanted }) => !wanted))) {
      for (const { model } of leaving) this.residents.delete(model);
      return true;
    }
    if (due) {
      // The choice must not change while they end their work.
      const idle = residents.map((resident) => ({ ...resident, busy: false, wanted: false }));
      for (const { model } of makeRoom(bytes, idle, this.room) ?? []) this.held.add(model);
      this.residents.set(key, { model: key, bytes, busy: true, used_at: Number.POSITIVE_INFINITY });
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

/** Whether the engine may compute both runs of its model at the same time. */
function canShare(run: ActiveRun, other: ActiveRun): boolean {
  return run.isolated !== true && other.isolated !== true;
}
