import { test } from 'uvu';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { storeConformance } from './conformance.ts';

storeConformance(test, () => {
  const store = createMemoryStore();
  return { store, bounded: false, again: () => store, remove: () => {} };
});

test.run();
