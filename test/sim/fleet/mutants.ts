// biome-ignore-all lint/complexity/useLiteralKeys: a planted bug changes private members

import type { ClaimedRun, SharedStore } from '../../../src/fleet/port.ts';
import { turns } from '../../helpers/turns.ts';
import type { FleetWorld } from './world.ts';

/** A planted bug of a fleet: a mistake that a developer could make, and no user may meet. */
export interface FleetMutant {
  name: string;
  /** One of these invariants must break. */
  breaks: readonly string[];
  apply?(world: FleetWorld): void;
  /** Changes how a node sees the log. */
  store?(store: SharedStore, world: FleetWorld, node_id: string): SharedStore;
}

/** An append asks for no lease and no owner. */
const noFencing: FleetMutant = {
  name: 'no fencing',
  breaks: ['fence', 'ends once', 'order', 'ends'],
  apply: ({ log }) => {
    const hold = log['leases'].hold.bind(log['leases']);
    log['leases'].hold = (lease) => lease ?? hold(lease);
    log['assertOwner'] = () => {};
  },
};

/** A lease is measured by the clock of its node, which stood while the node was paused. */
const ownClock: FleetMutant = {
  name: 'the clock of the node measures its lease',
  breaks: ['fence', 'ends once', 'ends'],
  apply: (world) => {
    const leases = world.log['leases'];
    const until = new Map<string, number>();
    const [hold, join, renew] = [leases.hold, leases.join, leases.renew].map((method) =>
      (method as (...args: never[]) => unknown).bind(leases),
    ) as unknown as [typeof leases.hold, typeof leases.join, typeof leases.renew];
    const begin = (name: string) => until.set(name, world.ownTime(name) + leases.lease_ms);
    leases.join = (facts, replaces) => {
      const joined = join(facts, replaces);
      until.set(facts.node_id, world.clock.now() + leases.lease_ms);
      return joined;
    };
    leases.renew = (lease, load) => {
      const answer = renew(lease, load);
      if (lease !== null && answer !== 'lost') begin(lease.node_id);
      return answer;
    };
    leases.hold = (lease) =>
      lease !== null && world.ownTime(lease.node_id) < (until.get(lease.node_id) ?? 0)
        ? lease
        : hold(lease);
  },
};

/** A claim chooses its runs in one step, and takes them in another. */
const unlockedClaim: FleetMutant = {
  name: 'claim without lock',
  breaks: ['fence', 'ends once', 'ends'],
  store: (store, { log }, node_id) => ({
    ...store,
    fleet: {
      ...store.fleet,
      claim: async ({ limit }): Promise<ClaimedRun[]> => {
        const chosen = log['fairly']().slice(0, Math.max(0, limit));
        await turns(2);
        const lease = { node_id, boot_id: '', epoch: 0 };
        return chosen.map((run_id) => log['take'](lease, run_id));
      },
    },
  }),
};

/** A run that is kept for a model file is claimed as any other one. */
const keptForNone: FleetMutant = {
  name: 'a kept run waits for no file',
  breaks: ['file'],
  apply: ({ log }) => {
    log['keptNow'] = () => [];
  },
};

export const fleetMutants: readonly FleetMutant[] = [
  noFencing,
  ownClock,
  unlockedClaim,
  keptForNone,
];
