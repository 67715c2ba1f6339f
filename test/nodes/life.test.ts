import { test } from 'uvu';
import { live } from './life.ts';

test('the life that `npm run nodes` tries, on this Node', async () => {
  await live(process.execPath, process.versions.node);
});

test.run();
