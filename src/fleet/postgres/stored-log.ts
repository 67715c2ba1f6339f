import type { EventStore } from '../../store/port.ts';
import { openSnapshot } from './alone.ts';
import { Audit } from './audit.ts';
import type { DatabaseOptions } from './connections.ts';
import { Words } from './words.ts';

/** A shared log for a command without a daemon. Reading it changes nothing. */
export interface StoredLog
  extends Pick<
    EventStore,
    | 'askerOf'
    | 'getRun'
    | 'lastRun'
    | 'listRuns'
    | 'readAll'
    | 'readStream'
    | 'runHead'
    | 'runsNamed'
    | 'searchRuns'
    | 'verify'
  > {
  last_seq: number;
  close(): Promise<void>;
}

/** Null: the database has no log. Throws store_stalled, store_failed, store_foreign. */
export async function openStoredLog(options: DatabaseOptions): Promise<StoredLog | null> {
  return openSnapshot(options, async ({ read, events, runs, close }) => {
    const words = new Words(read, (run_id) => runs.getRun(run_id));
    const audit = new Audit(read);
    const [log] = await read<{ last_seq: number }>('select last_seq from svc_log where id = 1');
    return {
      last_seq: log?.last_seq ?? 0,
      askerOf: (run_id) => runs.askerOf(run_id),
      getRun: (run_id) => runs.getRun(run_id),
      lastRun: (...args) => runs.lastRun(...args),
      listRuns: (query) => runs.listRuns(query),
      readAll: (...args) => events.readAll(...args),
      readStream: (...args) => events.readStream(...args),
      runHead: (run_id) => runs.runHead(run_id),
      runsNamed: (...args) => events.runsNamed(...args),
      searchRuns: (query) => words.find(query),
      verify: () => audit.verify(),
      close,
    };
  });
}
