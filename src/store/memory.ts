import { CONFLICT, type Commit, type EventStore, type RunRow, type StoredEvent } from './store.ts';

/** The event log in memory: the same promises as the one on disk, but for the disk. */
export function createMemoryStore(): EventStore {
  const events: StoredEvent[] = [];
  const streams = new Map<string, StoredEvent[]>();
  const runs = new Map<string, RunRow>();
  const newestFirst = () => [...runs.values()].sort((a, b) => b.created_at - a.created_at || (a.run_id < b.run_id ? 1 : -1));
  const copy = <T>(value: T): T => structuredClone(value);
  return {
    open: async () => {
      const boot = events.findLast((event) => event.type === 'daemon.boot_started');
      return { last_seq: events.length, last_boot_id: boot?.boot_id ?? null, durability: { journal_mode: 'memory', synchronous: 'off' }, size_bytes: 0 };
    },
    append: async (commit: Commit) => {
      const versions = new Map<string, number>();
      commit.events.forEach((event, index) => {
        const version = (versions.get(event.stream) ?? streams.get(event.stream)?.length ?? 0) + 1;
        if (event.seq !== events.length + index + 1 || event.version !== version) throw Object.assign(new Error(`${event.stream} ${event.version} does not continue the log`), { code: CONFLICT });
        versions.set(event.stream, version);
      });
      for (const event of copy(commit.events)) {
        events.push(event);
        streams.set(event.stream, [...(streams.get(event.stream) ?? []), event]);
      }
      for (const row of copy(commit.runs)) runs.set(row.run_id, row);
    },
    readStream: async (stream, fromVersion, limit) => copy((streams.get(stream) ?? []).slice(fromVersion - 1, fromVersion - 1 + limit)),
    readAll: async (fromSeq, limit) => copy(events.slice(fromSeq - 1, fromSeq - 1 + limit)),
    listRuns: async ({ limit, before, state, provider }) => {
      const all = newestFirst();
      const start = before === undefined ? 0 : all.findIndex((row) => row.run_id === before) + 1;
      return copy(all.slice(start).filter((row) => (state === undefined || row.state === state) && (provider === undefined || row.provider === provider)).slice(0, limit));
    },
    getRun: async (run_id) => copy(runs.get(run_id) ?? null),
    unfinishedRuns: async () => newestFirst().reverse().flatMap((row) => (row.finished ? [] : [row.run_id])),
    countRuns: async () => {
      const finished = [...runs.values()].filter((row) => row.finished).length;
      return { finished, unfinished: runs.size - finished };
    },
    verify: async () => ({ ok: true, events: events.length, problems: [] }),
    close: async () => {},
  };
}
