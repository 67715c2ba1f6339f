import { test } from 'uvu';
import { canMount } from '../walk/disk.ts';
import { walkForReal } from '../walk/real-walk.ts';

test('daemon: every edge that an outside can cause is walked in a real daemon', () =>
  walkForReal('daemon'));

if (!canMount) {
  process.stdout.write('skipped: a full disk, since mounting is not permitted here\n');
  test.skip('daemon: the edges that need a separate disk', () => undefined);
}

test.run();
