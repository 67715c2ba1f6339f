import { hostname } from 'node:os';
import { SystemClock } from '../async/clock.ts';
import { storePassword } from '../config/store/password.ts';
import { hasCode, SvcError } from '../errors.ts';
import { hostBootId } from '../home/host.ts';
import type { Paths } from '../home/paths.ts';
import { ownerOf, readRuntimeFile } from '../home/runtime-file.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { Limits } from '../limits.ts';
import type { Log } from '../ports/log.ts';
import { LOCAL, type Providers } from '../runtime/providers/providers.ts';
import { newNodeId } from '../runtime/runs/ids.ts';
import type { Membership, Site, SiteOptions, SiteParts } from '../runtime/site.ts';
import type { Offer } from './claims.ts';
import { FleetClock } from './clock.ts';
import { LeaseKeeper, type LeaseKeeperOptions } from './lease-keeper.ts';
import { type NodeFile, readNodeFile, writeNodeFile } from './node-file.ts';
import { oldestBoot } from './nodes.ts';
import type { NodeFacts, SharedStore } from './port.ts';
import { createPostgresStore, type PostgresStore } from './postgres/postgres.ts';
import { FleetRuns } from './runs.ts';

/** The log is in a database that several daemons share. This one is a node of their fleet. */
export function fleetSite(options: SiteOptions): Site {
  const { config, boot_id, mending } = options;
  const clock = new FleetClock(config.limits);
  const store = createPostgresStore({
    ...mending,
    address: config.store,
    password: storePassword(config),
    limits: config.limits,
  });
  const { size, place } = store;
  return {
    store,
    clock,
    size,
    place,
    isMine: async () => oldestBoot(await store.fleet.nodes()) === boot_id,
    membership: (parts) => joinFleet({ ...options, ...parts, store, time: clock }),
  };
}

function joinFleet(
  options: SiteOptions & SiteParts & { store: PostgresStore; time: FleetClock },
): Membership {
  const { config, log, scheduler, providers, identify, time } = options;
  const { limits } = config;
  const load = () => ({ active: scheduler.activeRuns().length, capacity: limits.active_runs });
  const node = new Node({ ...options, limits, load, onLost: options.onFatal });
  const { keeper } = node;
  const runs = new FleetRuns({
    ...options,
    limits,
    keeper,
    offers: () => offersOf(providers),
    fileOf: async (provider, model) => (provider === LOCAL ? identify(model) : null),
    takesRuns: () => time.trouble === null,
  });
  return {
    runs,
    // The lease of a node is the lock of its home: a shared log has no other.
    join: async (_opened, addresses, onDrain) => ({
      last_boot_id: await node.join(addresses, onDrain),
      is_clock_set: true,
    }),
    joined: () => keeper.recordLossBefore(),
    start: () => runs.start(),
    close: () => runs.close(),
    // The runs are released too, so that other nodes resume them at once.
    leave: () =>
      keeper.close().catch((error: unknown) => {
        log.warn({ err: error }, 'the lease of this node ends by itself');
      }),
  };
}

/** The providers that a node can call, with the models of the built-in one. */
function offersOf(providers: Providers): Offer[] {
  const usable = [...providers.settings().keys()].filter((id) => providers.retryAt(id) === null);
  return usable.map((provider) => ({
    provider,
    models: provider === LOCAL ? (providers.listed(LOCAL) ?? []) : null,
  }));
}

interface NodeOptions {
  store: SharedStore;
  paths: Paths;
  kernel: Kernel;
  time: FleetClock;
  log: Log;
  limits: Pick<Limits, 'lease_renew_ms'>;
  boot_id: string;
  version: string;
  load: LeaseKeeperOptions['load'];
  onLost(error: SvcError): void;
}

/** This daemon as a node of its fleet: its name in the home, and its lease. */
class Node {
  readonly keeper: LeaseKeeper;
  private readonly options: NodeOptions;
  private readonly file: NodeFile;
  private readonly replaces: string | null;
  private onDrain = () => {};

  /** Throws home_unusable. */
  constructor(options: NodeOptions) {
    this.options = options;
    const { paths, boot_id, store } = options;
    this.file = readNodeFile(paths.node) ?? {
      node_id: newNodeId(),
      boot_id: null,
      host_boot_id: null,
    };
    // The runtime file is still that of the boot before.
    this.replaces = this.endedBoot();
    const { node_id } = this.file;
    this.keeper = new LeaseKeeper({
      ...options,
      clock: new SystemClock(),
      fleet: store.fleet,
      onDrain: () => this.onDrain(),
      node: { node_id, boot_id, host: hostname() },
    });
  }

  /** Joins the fleet. The file has the name before the fleet does, so that it is never lost. */
  async join(addresses: NodeFacts['addresses'], onDrain: () => void): Promise<string | null> {
    this.onDrain = onDrain;
    const { paths, boot_id, version, load } = this.options;
    await writeNodeFile(paths.node, this.file);
    const { capacity } = load();
    const joined = await this.keeper
      .join({ version, capacity, addresses }, this.replaces)
      .catch((error: unknown) => {
        throw hasCode(error, 'daemon_already_running') ? this.taken(error) : error;
      });
    await writeNodeFile(paths.node, { ...this.file, boot_id, host_boot_id: hostBootId() });
    return joined.previous_boot_id;
  }

  /** Another daemon renews the lease of this node. It is not of this home, whose owner we are. */
  private taken(cause: SvcError): SvcError {
    const { node_id } = this.file;
    return new SvcError('daemon_already_running', cause.message, {
      cause,
      details: { node_id },
      hint:
        'It runs in another home: one of the two is a copy. To join as a new node, delete ' +
        `${this.options.paths.node}, then run: svc start`,
    });
  }

  /**
   * The boot of this home that has surely ended: its process is gone, or is this one. A copy of the
   * home on another machine proves nothing of the original.
   */
  private endedBoot(): string | null {
    const { boot_id, host_boot_id } = this.file;
    if (host_boot_id === null || host_boot_id !== hostBootId()) return null;
    const found = readRuntimeFile(this.options.paths.runtime);
    if (found.kind !== 'present' || found.file.boot_id !== boot_id) return null;
    const owner = ownerOf(found.file);
    return owner === 'gone' || owner === 'other' || found.file.pid === process.pid ? boot_id : null;
  }
}
