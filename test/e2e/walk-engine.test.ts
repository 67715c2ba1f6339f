import { test } from 'uvu';
import { walkForReal } from '../walk/real-walk.ts';

test('engine: every edge that an outside can cause is walked in a real daemon', () =>
  walkForReal('engine'));

test.run();
