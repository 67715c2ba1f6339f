import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SCHEMA_VERSION } from '../../../machines/events.ts';
import type {
  Commit,
  EventStore,
  FoundRun,
  Project,
  RunRow,
  SearchQuery,
  StoredEvent,
} from '../../../src/kernel/store/port.ts';
import type { createSqliteStore } from '../../../src/kernel/store/sqlite/sqlite.ts';
import type { RunUsage } from '../../../src/kernel/store/usage.ts';
import type { Limits } from '../../../src/limits.ts';
import { SMALL_RESERVE } from '../../helpers/small-reserve.ts';
import { createStoreHere } from '../../helpers/store/sqlite-here.ts';

export function event(
  seq: number,
  stream: string,
  version: number,
  changes: Partial<StoredEvent> = {},
): StoredEvent {
  return {
    seq,
    stream,
    version,
    type: 'test.happened',
    schema: SCHEMA_VERSION,
    at: 1_700_000_000_000 + seq,
    boot_id: 'boot_1',
    data: { seq },
    ...changes,
  };
}

/** What a run used. */
export function used(changes: Partial<RunUsage> = {}): RunUsage {
  return {
    hour: 20_000,
    provider: 'far',
    model: 'm',
    client: 'mine',
    cloud: true,
    input_tokens: 7,
    output_tokens: 8,
    cached_tokens: 3,
    cache_write_tokens: 2,
    estimated: false,
    cost: 11,
    ...changes,
  };
}

export function run(run_id: string, changes: Partial<RunRow> = {}): RunRow {
  return {
    run_id,
    state: 'queued',
    finished: false,
    provider: 'local',
    model: 'mini',
    created_at: 1000,
    idempotency_key: null,
    request_digest: null,
    record: null,
    seq: 1,
    ...changes,
  };
}

/** Runs with the first event of each, in this order, from `first` on. */
export function accepted(first: number, runs: readonly RunRow[]): Commit {
  return {
    events: runs.map(({ run_id }, index) =>
      event(first + index, run_id, 1, { type: 'run.accepted' }),
    ),
    runs: [...runs],
  };
}

/** Events of one stream: versions and positions from `first` on. */
export function series(
  first: number,
  count: number,
  stream = 's',
  changes: Partial<StoredEvent> = {},
): Commit {
  return {
    events: Array.from({ length: count }, (_, index) =>
      event(first + index, stream, first + index, changes),
    ),
    runs: [],
  };
}

/** What a search finds in a log without damage. */
export async function foundIn(store: EventStore, query: SearchQuery): Promise<FoundRun[]> {
  const rows = await store.searchRuns(query);
  return rows.map((row) => {
    if ('damage' in row) throw new Error(row.damage);
    return row;
  });
}

/** The code of a rejection; null if the promise resolves. */
export async function codeOf(promise: Promise<unknown>): Promise<string | null> {
  return promise.then(
    () => null,
    (error: { code?: string }) => error.code ?? `no code: ${String(error)}`,
  );
}

export interface Place {
  folder: string;
  database: string;
  highWater: string;
  store(limits?: Partial<Limits>, onAlarm?: (error: Error) => void): EventStore;
  /** How often a damaged part was made again. */
  reindexed: number;
  /** Folds the row of a run. */
  project?: Project;
  remove(): void;
}

/** A folder for one store. Its store is on the thread of the test, if not said otherwise. */
export function makePlace(
  folder = mkdtempSync(join(tmpdir(), 'svc-store-')),
  create: typeof createSqliteStore = createStoreHere,
): Place {
  const data = join(folder, 'data');
  const files = { database: join(data, 'events.db'), highWater: join(data, 'events.high-water') };
  const place: Place = {
    folder,
    ...files,
    reindexed: 0,
    store: (limits, onAlarm = () => {}) =>
      create({
        ...files,
        limits: { ...SMALL_RESERVE, ...limits },
        onAlarm,
        project: async (log, run_id) => (await place.project?.(log, run_id)) ?? null,
        onReindexed: () => {
          place.reindexed += 1;
        },
      }),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
  return place;
}

/** Runs a test in a temporary folder. */
export function placed(work: (place: Place) => Promise<void>): () => Promise<void> {
  return async () => {
    const place = makePlace();
    try {
      await work(place);
    } finally {
      place.remove();
    }
  };
}

/** Writes a log of this many events in several commits, and closes it. */
export async function filled(place: Place, count: number): Promise<void> {
  const store = place.store();
  await store.open();
  for (let first = 1; first <= count; first += 100)
    await store.append(series(first, Math.min(100, count - first + 1)));
  await store.close();
}
