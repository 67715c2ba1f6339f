import type { Client } from 'pg';
import { Connections, type DatabaseOptions } from './connections.ts';
import { EventReads, type Read } from './event-reads.ts';
import { RunReads } from './run-reads.ts';
import { SCHEMA, schemaVersion, tooNew } from './schema.ts';

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

/** A shared log as it was at one moment. Daemons go on meanwhile. */
export interface Snapshot {
  read: Read;
  events: EventReads;
  runs: RunReads;
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
    if (version > SCHEMA) throw tooNew(name, version);
    if (version === 0) {
      await close();
      return null;
    }
    const { store_page_bytes } = options.limits;
    const [events, runs] = [
      new EventReads(read, store_page_bytes),
      new RunReads(read, store_page_bytes),
    ];
    return await open({ read, events, runs, close });
  } catch (error) {
    await close();
    throw alone.asError(error);
  }
}
