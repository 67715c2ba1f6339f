import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, globSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';

/** Folder of the programs of PostgreSQL; null where it is not installed. */
export const postgresPrograms: string | null = find();

export interface Postgres {
  /** The address of a new, empty database. */
  database(): Promise<string>;
  /** The folder of its socket, whose name is `.s.PGSQL.5432`. */
  folder: string;
  /** Ends it: `fast` as its administrator does, `kill` as a crash. */
  stop(how: 'fast' | 'kill'): Promise<void>;
  /** Starts it again. */
  start(): Promise<void>;
  /** Ends it for good, and removes its files. */
  end(): Promise<void>;
}

/**
 * A PostgreSQL in a temporary folder, which listens only on a socket in there. It refuses to run as
 * root, so root starts it as the user `nobody`.
 */
export async function startPostgres({ durable = false } = {}): Promise<Postgres> {
  const isRoot = process.getuid?.() === 0;
  // The folder of a test file of root is closed to other users.
  const folder = mkdtempSync(join(isRoot ? '/tmp' : tmpdir(), 'svc-pg-'));
  const owner = isRoot ? { uid: NOBODY, gid: NOBODY } : {};
  if (isRoot) chownSync(folder, NOBODY, NOBODY);
  chmodSync(folder, 0o700);
  const data = join(folder, 'data');
  const program = (name: string) => join(postgresPrograms ?? '', name);
  // The test runner finds the process by its environment.
  const env = { ...process.env, LC_ALL: 'C', HOME: folder };
  execFileSync(
    program('initdb'),
    ['-D', data, '-U', 'svc', '--auth=trust', '--no-sync', '-E', 'UTF8', '--locale=C'],
    { ...owner, env, cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const settings = [
    ...['listen_addresses=', `unix_socket_directories=${folder}`, 'max_connections=200'],
    ...(durable ? [] : ['fsync=off', 'full_page_writes=off']),
  ];
  const address = (name: string) => `postgres:///${name}?host=${folder}&user=svc`;
  let server: ChildProcess | null = null;
  let made = 0;

  const ask = async (query: string) => {
    const client = new pg.Client({ connectionString: address('postgres') });
    client.on('error', () => {});
    try {
      await client.connect();
      await client.query(query);
    } finally {
      await client.end().catch(() => {});
    }
  };
  const start = async () => {
    for (let tries = 0; ; tries += 1) {
      const child = spawn(
        program('postgres'),
        ['-D', data, ...settings.flatMap((s) => ['-c', s])],
        {
          ...owner,
          env,
          cwd: folder,
          stdio: 'ignore',
        },
      );
      server = child;
      while (child.exitCode === null && child.signalCode === null) {
        if (
          await ask('select 1').then(
            () => true,
            () => false,
          )
        )
          return;
        await delay(20);
      }
      // Processes of the one before may still have its memory.
      if (tries > 200) throw new Error('PostgreSQL did not start');
      await delay(50);
    }
  };
  const stop = async (how: 'fast' | 'kill') => {
    const child = server;
    server = null;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill(how === 'fast' ? 'SIGINT' : 'SIGKILL');
    await gone;
  };
  await start();
  return {
    folder,
    database: async () => {
      made += 1;
      await ask(`create database d${made}`);
      return address(`d${made}`);
    },
    start,
    stop,
    end: async () => {
      await stop('fast');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const NOBODY = 65_534;

function find(): string | null {
  const folders = [
    ...globSync('/usr/lib/postgresql/*/bin').sort().reverse(),
    ...(process.env.PATH ?? '').split(':'),
  ];
  return (
    folders.find(
      (folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')),
    ) ?? null
  );
}
