import pg from 'pg';
import { defaultLimits, type Limits } from '../../../src/limits.ts';
import type { EventStore } from '../../../src/store/port.ts';
import type { HeldLease } from '../../../src/store/postgres/appends.ts';
import { createPostgresStore } from '../../../src/store/postgres/postgres.ts';
import type { StoreOptions } from '../../../src/store/store.ts';
import type { Postgres } from '../../helpers/postgres.ts';

/** A log in a schema of one database. Its stores have the lease of one node. */
export interface Place {
  address: string;
  store(options?: StoreOptions & { limits?: Partial<Limits> }): EventStore;
  /** Asks the database beside the store. */
  ask(query: string, values?: unknown[]): Promise<Record<string, unknown>[]>;
  remove(): Promise<void>;
}

let made = 0;

export function makePlace(database: string): Place {
  made += 1;
  const schema = `s${made}`;
  const address = `${database}&options=-c%20search_path%3D${schema}`;
  const ask = async (query: string, values: unknown[] = []) => {
    const client = new pg.Client({ connectionString: address });
    await client.connect();
    try {
      return (await client.query(query, values)).rows as Record<string, unknown>[];
    } finally {
      await client.end();
    }
  };
  return {
    address,
    ask,
    store: ({ limits = {}, ...options } = {}) => {
      const store = createPostgresStore({
        ...{ address, password: null, ...options },
        limits: { ...defaultLimits, ...limits },
        lease: () => LEASE,
      });
      return {
        ...store,
        open: async () => {
          await ask(`create schema if not exists ${schema}`);
          const report = await store.open();
          await ask(JOIN);
          return report;
        },
      };
    },
    remove: () => ask(`drop schema if exists ${schema} cascade`).then(() => {}),
  };
}

export const LEASE: HeldLease = {
  current: () => ({ node_id: 'node_1', epoch: 1 }),
  extend: async () => {
    throw new Error('the lease of this test never ends');
  },
};

const JOIN = `insert into svc_nodes values ('node_1', 1, clock_timestamp() + interval '1 hour',
  clock_timestamp(), null, null, '0', 'h', 'boot_n', 1, 0, false, '{}') on conflict do nothing`;

/** A database for all places of one test file. */
export async function databaseOf(server: Postgres | null): Promise<string> {
  if (server === null) throw new Error('PostgreSQL is not installed');
  return server.database();
}
