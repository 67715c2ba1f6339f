import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { packageRoot } from '../../src/home/paths.ts';
import type { MadePair } from './certificate.ts';

/** Folder of the programs of PostgreSQL; null where it is not installed. */
export const postgresPrograms: string | null = find();
if (postgresPrograms === null) console.log('skipped: no PostgreSQL');

export interface Postgres {
  /** The address of a new, empty database. */
  database(): Promise<string>;
  /** The folder of its socket, whose name is `.s.PGSQL.5432`. */
  folder: string;
  /** With `tls`: the same database by its port on loopback, where `localhost` is its name. */
  byPort(address: string): string;
  /** Ends it: `fast` as its administrator does, `kill` as a crash. */
  stop(how: 'fast' | 'kill'): Promise<void>;
  /** Starts it again. */
  start(): Promise<void>;
  /** Starts it again as a standby, until it is promoted. */
  startAsStandby(): Promise<void>;
  /** Copies its files. The function starts it again with the copy. */
  copy(): Promise<() => Promise<void>>;
  /** Ends it for good, and removes its files. */
  end(): Promise<void>;
}

/**
 * A PostgreSQL in a temporary folder, which listens only on a socket in there. It refuses to run as
 * root, so root starts it as the user `nobody`.
 */
export async function startPostgres({
  durable = false,
  tls = null,
}: {
  durable?: boolean;
  tls?: MadePair | null;
} = {}): Promise<Postgres> {
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
  const version = execFileSync(program('initdb'), ['--version'], { encoding: 'utf8' }).trim();
  const made = join(MADE, `${version.replace(/[^\w.]+/g, '-')}-${isRoot ? 'nobody' : 'own'}`);
  if (existsSync(made)) execFileSync('cp', ['-a', made, data]);
  else {
    execFileSync(
      program('initdb'),
      ['-D', data, '-U', 'svc', '--auth=trust', '--no-sync', '-E', 'UTF8', '--locale=C'],
      { ...owner, env, cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] },
    );
    keep(data, made);
  }
  // The role `locked` has a password.
  const rules = join(data, 'pg_hba.conf');
  writeFileSync(rules, `local all locked scram-sha-256\n${readFileSync(rules, 'utf8')}`);
  const port = tls === null ? PORT : await freePort();
  const settings = [
    ...(tls === null ? ['listen_addresses='] : [...writeTls(data, tls, isRoot), `port=${port}`]),
    `unix_socket_directories=${folder}`,
    'max_connections=200',
    ...(durable ? [] : ['fsync=off', 'full_page_writes=off']),
  ];
  const address = (name: string) =>
    `postgres:///${name}?host=${folder}&user=svc${port === PORT ? '' : `&port=${port}`}`;
  let server: ChildProcess | null = null;
  let databases = 0;

  const ask = async (query: string) => {
    const client = new pg.Client({
      connectionString: address('postgres'),
      connectionTimeoutMillis: ANSWER_MS,
    });
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
        { ...owner, env, cwd: folder, stdio: 'ignore' },
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
    byPort: (one) => `postgres://svc@localhost:${port}${new URL(one).pathname}`,
    database: async () => {
      databases += 1;
      await ask(`create database d${databases}`);
      return address(`d${databases}`);
    },
    start,
    stop,
    startAsStandby: async () => {
      await stop('fast');
      writeFileSync(join(data, 'standby.signal'), '');
      if (isRoot) chownSync(join(data, 'standby.signal'), NOBODY, NOBODY);
      await start();
    },
    copy: async () => {
      const old = `${data}-old`;
      await stop('fast');
      execFileSync('cp', ['-a', data, old]);
      await start();
      return async () => {
        await stop('kill');
        rmSync(data, { recursive: true });
        renameSync(old, data);
        await start();
      };
    },
    end: async () => {
      await stop('fast');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Keeps files that no server has used, for the next one. Another process may be first. */
function keep(data: string, made: string): void {
  mkdirSync(MADE, { recursive: true });
  const part = `${made}.${process.pid}`;
  execFileSync('cp', ['-a', data, part]);
  try {
    renameSync(part, made);
  } catch {
    rmSync(part, { recursive: true, force: true });
  }
}

/** The output of `initdb`, by its version: a copy takes a tenth of the time. */
const MADE = join(packageRoot(), 'node_modules', '.cache', 'svc-postgres');

/** The files of its certificate. Returns the settings. */
function writeTls(folder: string, pair: MadePair, isRoot: boolean): string[] {
  const files = { ssl_cert_file: pair.cert, ssl_key_file: pair.key };
  const settings = Object.entries(files).map(([name, text]) => {
    const file = join(folder, name);
    writeFileSync(file, text, { mode: 0o600 });
    if (isRoot) chownSync(file, NOBODY, NOBODY);
    return `${name}=${file}`;
  });
  return ['listen_addresses=localhost', 'ssl=on', ...settings];
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

const PORT = 5432;
const NOBODY = 65_534;
/** A server that starts may take a connection and not answer. The connection is tried again. */
const ANSWER_MS = 5000;

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
