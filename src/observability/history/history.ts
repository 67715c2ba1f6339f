import type {
  LogQuery,
  MachinesRecord,
  RunRecord,
  RunWhyRecord,
  StateSnapshot,
} from '../../contract/contract.ts';
import { clock } from '../../contract/event-words.ts';
import { SvcError } from '../../errors.ts';
import type { EventPages, EventSlice, Sized } from '../../kernel/event-pages.ts';
import type { RunFollowing } from '../../kernel/feed.ts';
import { followLog } from '../../kernel/log-feed.ts';
import { LogTail } from '../../kernel/log-tail.ts';
import type { EventStore, StoredEvent } from '../../kernel/store/port.ts';
import type { Placement } from '../../runtime/placement.ts';
import { DaemonStates } from './daemon-states.ts';
import { exportRun } from './export.ts';
import { instancesOf, machinesRecord } from './instances.ts';
import { runAt, snapshotAt } from './state-at.ts';
import { type CurrentSources, currentSnapshot } from './state-now.ts';
import { whyRun } from './why.ts';

/** Queries of transports about the machines and about earlier positions of the log. */
export interface History {
  machines(): MachinesRecord;
  /** Throws invalid_request (`at`) for a position that the log does not have. */
  snapshot(query: { at?: number }): Promise<StateSnapshot>;
  /** The record of a run at a position. Throws run_unknown, invalid_request (`at`). */
  runAt(id: string, at: number): Promise<RunRecord>;
  whyRun(id: string): Promise<RunWhyRecord>;
  /**
   * The pieces of a file that another machine can fold. Throws run_unknown before the first piece.
   */
  exportRun(id: string, options: { redact: boolean }): AsyncIterable<string>;
  /**
   * The events of the whole log. Ends early if the signal aborts or the daemon closes. Throws busy,
   * not_ready.
   */
  followLog<B extends Sized>(
    query: LogQuery,
    options: Omit<RunFollowing<B>, 'from_seq'>,
  ): AsyncIterable<EventSlice<B>>;
  /**
   * Stored events of one stream. A page is shorter than `limit` when its events are large, and
   * empty after the end.
   */
  readStream(stream: string, fromVersion: number, limit: number): Promise<StoredEvent[]>;
  /** The same of all streams. */
  readLog(fromSeq: number, limit: number): Promise<StoredEvent[]>;
}

export interface HistoryOptions extends CurrentSources {
  store: EventStore;
  pages: EventPages;
  placement: Pick<Placement, 'elsewhere' | 'waitsFor'>;
  version(): string;
}

/**
 * Answers questions about the machines and about earlier positions. It keeps only the end of the
 * log, for followers.
 */
export function createHistory(options: HistoryOptions): History {
  const { kernel, store, limits, placement } = options;
  const { elsewhere } = placement;
  const tail = new LogTail(kernel, limits);
  const daemons = new DaemonStates(kernel, options.streams.daemon);
  const checkOpen = () => {
    if (!kernel.isOpen) throw new SvcError('not_ready');
  };
  return {
    machines: () =>
      machinesRecord(
        instancesOf(kernel.instances.values(), limits.snapshot_runs, kernel.clock.now()),
        kernel.durableSeq,
      ),
    snapshot: async ({ at }) => {
      if (at === undefined) return currentSnapshot(options);
      checkOpen();
      return snapshotAt({ store, daemons, limits, last_seq: await elsewhere.lastSeq() }, at);
    },
    runAt: async (id, at) => {
      checkOpen();
      return runAt(store, id, at, await elsewhere.lastSeq());
    },
    whyRun: async (id) => {
      checkOpen();
      const why = (await whyRun(store, id)) ?? (await throwRemoved(options, id));
      const wanted = await placement.waitsFor(id);
      if (wanted === null) return why;
      const waits = `${clock(kernel.clock.now())} it waits for ${wanted}`;
      return { ...why, explanation: [...why.explanation, waits] };
    },
    async *exportRun(id, { redact }) {
      checkOpen();
      let exported = false;
      for await (const piece of exportRun(store, id, {
        redact,
        version: options.version(),
        now: kernel.clock.now(),
      })) {
        exported = true;
        yield piece;
      }
      if (!exported) await throwRemoved(options, id);
    },
    followLog: (query, following) => {
      const follow = {
        ...following,
        follow: query.follow,
        wants: wants(query),
        ...(query.from_seq === undefined ? {} : { from_seq: query.from_seq }),
      };
      return followLog({ kernel, store, tail, pages: options.pages, elsewhere }, follow);
    },
    readStream: async (stream, from_version, limit) => {
      checkOpen();
      return store.readStream(stream, from_version, limit);
    },
    readLog: async (from_seq, limit) => {
      checkOpen();
      return store.readAll(from_seq, limit);
    },
  };
}

/** Throws run_unknown for an unknown run, or for one whose events were removed. */
async function throwRemoved({ getRun }: CurrentSources, id: string): Promise<never> {
  const { state } = await getRun(id);
  throw new SvcError(
    'run_unknown',
    `The events of the run ${id} are no longer in the log; it ended as ${state}.`,
    { param: 'id' },
  );
}

function wants({ stream, type }: LogQuery): (event: { stream: string; type: string }) => boolean {
  const [isStream, isType] = [matcher(stream), matcher(type)];
  return (event) => isStream(event.stream) && isType(event.type);
}

/** A name matches itself. With `*` at its end, it matches everything that begins with it. */
function matcher(pattern: string | undefined): (name: string) => boolean {
  if (pattern === undefined) return () => true;
  if (!pattern.endsWith('*')) return (name) => name === pattern;
  const start = pattern.slice(0, -1);
  return (name) => name.startsWith(start);
}
