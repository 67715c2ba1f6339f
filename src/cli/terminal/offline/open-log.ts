import { SCHEMA_VERSION } from '../../../../machines/events.ts';
import { upcast } from '../../../../machines/upcast.ts';
import type { Paths } from '../../../home/paths.ts';
import type { StoredEvent } from '../../../kernel/store/port.ts';
import { withHome } from '../connect/home.ts';
import { wholeId } from '../connect/whole-id.ts';

/** The event log: from the running daemon, or from its file or database without one. */
export interface OpenLog {
  /** Position of the last event. */
  last_seq: number;
  readAll(from_seq: number, limit: number): Promise<StoredEvent[]>;
  readStream(stream: string, from_version: number, limit: number): Promise<StoredEvent[]>;
  /** The whole id of a run that is written as `last` or by its beginning. */
  findRun(written: string): Promise<string>;
  /** Damage of the log, as sentences; from the slow check of a running daemon. */
  problems(): Promise<string[]>;
}

/** Opens the log, calls `use`, and closes it. Throws daemon_not_running if there is no log. */
export function withLog<T>(paths: Paths, use: (log: OpenLog) => Promise<T>): Promise<T> {
  return withHome(paths, async (client) =>
    use({
      last_seq: (await client.call('status')).seq,
      readAll: async (from_seq, limit) =>
        (await client.call('log.read', { from_seq, limit })).events.map(present),
      readStream: async (stream, from_version, limit) =>
        (await client.call('log.stream', { stream, from_version, limit })).events.map(present),
      findRun: (written) => wholeId(client, written),
      problems: async () => (await client.call('report')).log.verified?.problems ?? [],
    }),
  );
}

/** The event in the present schema. The daemon may be of an older version. */
function present(event: StoredEvent): StoredEvent {
  const { schema = 1, type, data } = event as Partial<StoredEvent> & StoredEvent;
  return { ...event, schema: SCHEMA_VERSION, data: upcast(schema, type, data) };
}
