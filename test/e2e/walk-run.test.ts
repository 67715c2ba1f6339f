import { test } from 'uvu';
import { walkForReal } from '../walk/real-walk.ts';

test('run: every edge that an outside can cause is walked in a real daemon', () =>
  walkForReal('run'));

test.run();
