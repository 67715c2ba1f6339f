import pg from 'pg';
import type { NodeFacts, SharedStore } from '../../../src/fleet/port.ts';
import { createPostgresStore } from '../../../src/fleet/postgres/postgres.ts';
import type { StoreOptions } from '../../../src/kernel/store/store.ts';
import { defaultLimits, type Limits } from '../../../src/limits.ts';
import type { Postgres } from '../../helpers/postgres.ts';
import type { TextsOf } from '../../kernel/store/texts-conformance.ts';

/** A log in a schema of one database. Its stores have the lease of one node. */
export interface Place {
  address: string;
  store(options?: StoreOptions & { limits?: Partial<Limits>; node_id?: string }): SharedStore;
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
    store: ({ limits = {}, node_id = 'node_1', ...options } = {}) => {
      const store = createPostgresStore({
        address,
        password: null,
        ...options,
        limits: { ...defaultLimits, ...limits },
      });
      return {
        ...store,
        open: async () => {
          await ask(`create schema if not exists ${schema}`);
          const report = await store.open();
          await store.fleet.join({ ...NODE, node_id, boot_id: `boot_${node_id}` }, null);
          return report;
        },
      };
    },
    remove: () => ask(`drop schema if exists ${schema} cascade`).then(() => {}),
  };
}

/** What the database of a log has of texts. */
export function textsIn({ ask }: Pick<Place, 'ask'>): TextsOf {
  return {
    all: async () =>
      (await ask(
        'select text, users::int from svc_texts join svc_text_users using (digest) order by length(text)',
      )) as { text: string; users: number }[],
    change: async (like, to) => {
      if (to !== null) await ask('update svc_texts set text = $2 where text like $1', [like, to]);
      else
        await ask(
          `with gone as (delete from svc_text_users u using svc_texts t
             where t.digest = u.digest and text like $1 returning u.digest)
           select * from gone`,
          [like],
        ).then(() => ask('delete from svc_texts where text like $1', [like]));
    },
    format: async () => {
      const [row] = await ask(`select value from svc_meta where name = 'schema'`);
      return Number(row?.value);
    },
  };
}

const NODE: NodeFacts = {
  node_id: '',
  boot_id: '',
  version: '0',
  host: 'h',
  capacity: 1,
  addresses: { http: '', grpc: '', socket: null },
};

/** A database for all places of one test file. */
export async function databaseOf(server: Postgres | null): Promise<string> {
  if (server === null) throw new Error('PostgreSQL is not installed');
  return server.database();
}
