import { SvcError } from '../errors.ts';
import { checkContinuity } from './continuity.ts';
import { type EventRow, fromEventRow, fromRunData, type RunLine, toRows } from './row.ts';
import type { EventStore } from './store.ts';

/** The event log in memory: the same promises as the one on disk, but for the disk. What it holds outlives `close`, for the next `open`. */
export function createMemoryStore(): EventStore {
  const events: EventRow[] = [];
  const streams = new Map<string, EventRow[]>();
  const runs = new Map<string, RunLine>();
  let open = false;

  const newestFirst = () => [...runs.values()].sort(byAge).reverse();
  const unfinished = () => newestFirst().filter((line) => !line.finished);
  const streamOf = (stream: string) => streams.get(stream) ?? [];
  /** A turn passes before anything happens, as with a real one. */
  const ask = async <T>(answer: () => T): Promise<T> => {
    if (!open) throw new SvcError('store_failed', 'The event log is not open.');
    return answer();
  };

  return {
    open: async () => {
      open = true;
      const boot = events.findLast((event) => event.type === 'daemon.boot_started');
      return { last_seq: events.length, last_boot_id: boot?.boot_id ?? null, durability: { journal_mode: 'memory', synchronous: 'off' }, size_bytes: 0 };
    },
    append: (commit) =>
      ask(() => {
        const rows = toRows(commit);
        checkContinuity(rows, events.length, (stream) => streamOf(stream).length);
        for (const event of rows.events) {
          events.push(event);
          streams.set(event.stream, streamOf(event.stream));
          streamOf(event.stream).push(event);
        }
        for (const line of rows.runs) runs.set(line.run_id, line);
      }),
    readStream: (stream, fromVersion, limit) => ask(() => page(streamOf(stream), fromVersion, limit)),
    readAll: (fromSeq, limit) => ask(() => page(events, fromSeq, limit)),
    listRuns: ({ limit, before, state, provider }) =>
      ask(() => {
        const all = newestFirst();
        const older = before === undefined ? all : after(all, before);
        const wanted = older.filter((line) => (state === undefined || line.state === state) && (provider === undefined || line.provider === provider));
        return wanted.slice(0, limit).map((line) => fromRunData(line.data));
      }),
    getRun: (run_id) =>
      ask(() => {
        const line = runs.get(run_id);
        return line === undefined ? null : fromRunData(line.data);
      }),
    unfinishedRuns: () =>
      ask(() =>
        unfinished()
          .reverse()
          .map((line) => line.run_id),
      ),
    countRuns: () => ask(() => ({ finished: runs.size - unfinished().length, unfinished: unfinished().length })),
    verify: () => ask(() => ({ ok: true, events: events.length, problems: [] })),
    close: async () => {
      open = false;
    },
  };
}

function page(rows: readonly EventRow[], from: number, limit: number) {
  const start = Math.max(0, from - 1);
  return rows.slice(start, start + limit).map(fromEventRow);
}

function after(newestFirst: readonly RunLine[], run_id: string): readonly RunLine[] {
  const index = newestFirst.findIndex((line) => line.run_id === run_id);
  return index < 0 ? [] : newestFirst.slice(index + 1);
}

function byAge(a: RunLine, b: RunLine): number {
  return a.created_at - b.created_at || (a.run_id < b.run_id ? -1 : 1);
}
