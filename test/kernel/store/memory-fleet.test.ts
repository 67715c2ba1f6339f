import { test } from 'uvu';
import { MemoryFleet } from '../../helpers/store/memory-fleet.ts';
import { fleetConformance } from './fleet-conformance.ts';

fleetConformance(test, async () => {
  let now = 1_700_000_000_000;
  const fleet = new MemoryFleet(() => now);
  return {
    store: () => fleet.store(),
    pass: async (ms) => {
      now += ms;
    },
    remove: async () => {},
  };
});

test.run();
