import type { Client } from 'pg';
import { LOG_FORMAT } from '../../../machines/events.ts';
import { type EventStore, type LogReads, toReads } from '../../kernel/store/port.ts';
import { Audit } from './audit.ts';
import { Connections, type DatabaseOptions } from './connections.ts';
import type { Read } from './event-reads.ts';
import { Reads } from './reads.ts';
import { schemaVersion, tooNewError } from './schema.ts';

/** One connection, for one transaction. The errors of `read` are those of the store. */
export interface Alone {
  client: Client;
  /** The database in messages. */
  name: string;
  read: Read;
  asError(error: unknown): Error;
  /** Without a commit, nothing of the transaction counts. */
  close(): Promise<void>;
}

export async function connectAlone(options: DatabaseOptions): Promise<Alone> {
  const connections = await Connections.create(options);
  const asError = (error: unknown) => connections.asError(error);
  const client = await connections.connect().catch((error: unknown) => {
    throw asError(error);
  });
  const read: Read = async (text, values = []) =>
    client.query(text, [...values]).then(
      ({ rows }) => rows,
      (error: unknown) => {
        throw asError(error);
      },
    );
  const close = async () => {
    await client.end().catch(() => {});
    await connections.end();
  };
  return { client, name: connections.name, read, asError, close };
}

/** A shared log as it was at one moment. Daemons continue meanwhile. */
export interface Snapshot {
  read: Read;
  reads: Reads;
  /** For the caller, who closes what `open` made. */
  close(): Promise<void>;
}

/**
 * Reads in one transaction, which sees no later commit and changes nothing. The connection is
 * closed if `open` fails. Null: the database has no log. Throws store_stalled, store_failed,
 * store_foreign.
 */
export async function openSnapshot<T>(
  options: DatabaseOptions,
  open: (snapshot: Snapshot) => Promise<T>,
): Promise<T | null> {
  const alone = await connectAlone(options);
  const { client, read, name, close } = alone;
  try {
    await read('begin isolation level repeatable read read only');
    // The reader may be slow.
    await read('set local idle_in_transaction_session_timeout = 0');
    const version = await schemaVersion(client);
    if (version > LOG_FORMAT) throw tooNewError(name, version);
    if (version === 0) {
      await close();
      return null;
    }
    const reads = new Reads(read, {
      page_bytes: options.limits.store_page_bytes,
      node_id: () => '',
      onEvent: () => {},
    });
    return await open({ read, reads, close });
  } catch (error) {
    await close();
    throw alone.asError(error);
  }
}

/** A shared log for a command without a daemon. Reading it changes nothing. */
export interface StoredLog extends LogReads, Pick<EventStore, 'verify' | 'close'> {
  last_seq: number;
}

/** Null: the database has no log. Throws store_stalled, store_failed, store_foreign. */
export async function openStoredLog(options: DatabaseOptions): Promise<StoredLog | null> {
  return openSnapshot(options, async ({ read, reads, close }) => {
    const [log] = await read<{ last_seq: number }>('select last_seq from svc_log where id = 1');
    return {
      ...toReads((method, args: [never, never, never]) => reads[method](...args)),
      last_seq: log?.last_seq ?? 0,
      verify: () => new Audit(read).verify(),
      close,
    };
  });
}
