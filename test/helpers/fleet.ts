import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import pg from 'pg';
import type { Limits } from '../../src/limits.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { type Postgres, startPostgres } from './postgres.ts';
import { type Home, limitVariables, makeHome } from './svc.ts';

export interface FleetOptions {
  nodes: number;
  /** The provider `near` of each node. */
  base_url: string;
  /** Its places at each node. */
  max_runs: number;
  limits?: Partial<Limits>;
  /** How far the clock of each machine is ahead, in milliseconds. Absent: all are right. */
  clocks?: readonly number[];
  /** Each commit of the database reaches its disk. */
  durable?: boolean;
  env?: Record<string, string>;
  /** What each home has before its daemon starts. */
  prepare?(home: Home, index: number): void;
}

/** A short lease, so that a test need not wait long for a take-over. */
export const SHORT = { lease_ms: 1500, fleet_poll_ms: 200, store_retry_ms: 50 };

/**
 * Daemons with one log, in a real PostgreSQL of their own. Each has its home, and the provider
 * `near` as its default.
 */
export class RealFleet {
  readonly postgres: Postgres;
  readonly address: string;
  readonly homes: Home[];
  /** The present boot of each home. */
  readonly lives: (Life | null)[];

  private constructor(postgres: Postgres, address: string, homes: Home[]) {
    this.postgres = postgres;
    this.address = address;
    this.homes = homes;
    this.lives = homes.map(() => null);
  }

  static async start({
    nodes,
    durable = false,
    prepare,
    clocks,
    limits = {},
    ...options
  }: FleetOptions): Promise<RealFleet> {
    const postgres = await startPostgres({ durable });
    const address = await postgres.database();
    // A crash prints its stack.
    const limited = limitVariables(limits);
    const env = { SVC_STORE: address, SVC_DEBUG: '1', ...limited, ...options.env };
    const homes = Array.from({ length: nodes }, (_, index) => {
      if (clocks === undefined) return makeHome(env);
      const file = join(postgres.folder, `clock-${index}`);
      return makeHome({ ...env, NODE_OPTIONS: `--import=${SKEWED}`, SKEW_FILE: file });
    });
    for (const [index, home] of homes.entries()) {
      configure(home, options);
      prepare?.(home, index);
    }
    const fleet = new RealFleet(postgres, address, homes);
    for (const [index, ms] of (clocks ?? []).entries()) fleet.setClock(index, ms);
    try {
      for (const index of homes.keys()) await fleet.boot(index);
    } catch (error) {
      await fleet.close();
      throw error;
    }
    return fleet;
  }

  home(index: number): Home {
    return this.homes[index] as Home;
  }

  life(index: number): Life {
    const life = this.lives[index];
    if (life == null) throw new Error(`the node ${index} has no daemon`);
    return life;
  }

  async boot(index: number): Promise<Life> {
    const life = await serve(this.home(index));
    this.lives[index] = life;
    return life;
  }

  async kill(index: number): Promise<void> {
    await this.life(index).kill();
    this.lives[index] = null;
  }

  /** Sets the clock of a machine: so far ahead. Only with `clocks`. */
  setClock(index: number, ms: number): void {
    writeFileSync(this.home(index).env.SKEW_FILE ?? '', String(ms));
  }

  /** Rows of the database. */
  async read<R extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<R[]> {
    const client = new pg.Client({ connectionString: this.address });
    client.on('error', () => {});
    try {
      await client.connect();
      return (await client.query<R>(text, values)).rows;
    } finally {
      await client.end().catch(() => {});
    }
  }

  /** The boot of a node, as the database knows it. */
  async bootOf(index: number): Promise<string> {
    const { boot_id } = await this.life(index).ask((client) => client.call('status'));
    return boot_id;
  }

  async close(): Promise<void> {
    for (const life of this.lives) {
      // A stopped process does not end before it continues.
      life?.child.kill('SIGCONT');
      await life?.kill();
    }
    for (const home of this.homes) await home.close();
    await this.postgres.end();
  }
}

const SKEWED = new URL('./skewed-clock.ts', import.meta.url).href;

export function configure(
  home: Home,
  { base_url, max_runs, limits = {} }: Pick<FleetOptions, 'base_url' | 'max_runs' | 'limits'>,
): void {
  mkdirSync(dirname(home.paths.config), { recursive: true, mode: 0o700 });
  const near = { base_url, model: 'm', max_runs };
  writeFileSync(
    home.paths.config,
    JSON.stringify({ default_provider: 'near', providers: { near }, limits }),
    { mode: 0o600 },
  );
}
