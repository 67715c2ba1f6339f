import { storePassword } from '../config/store/password.ts';
import type { Membership, Site, SiteOptions, SiteParts } from '../daemon/site.ts';
import { LOCAL, type Providers } from '../runtime/providers/providers.ts';
import type { Offer } from './claims.ts';
import { FleetClock } from './clock.ts';
import { Node } from './node.ts';
import { oldestBoot } from './nodes.ts';
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
    // The runs are released too, so that others go on at once.
    leave: () =>
      keeper.close().catch((error: unknown) => {
        log.warn({ err: error }, 'the lease of this node ends by itself');
      }),
  };
}

/** What a node can ask: each usable provider, and of the built-in one its models. */
function offersOf(providers: Providers): Offer[] {
  const usable = [...providers.settings().keys()].filter((id) => providers.retryAt(id) === null);
  return usable.map((provider) => ({
    provider,
    models: provider === LOCAL ? (providers.listed(LOCAL) ?? []) : null,
  }));
}
