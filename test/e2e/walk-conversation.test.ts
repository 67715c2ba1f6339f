import { test } from 'uvu';
import { walkForReal } from '../walk/real-walk.ts';

test('conversation: every edge that an outside can cause is walked in a real daemon', () =>
  walkForReal('conversation'));

test.run();
