import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { shownTarget } from '../../machines/failover.ts';
// @ts-expect-error The console has no types: its files are JavaScript.
import { answererOf } from '../../src/console/parts/answerer.js';

test('the console names who answers as the command line does', () => {
  const local = ['svc-mini', '/home/u/x.gguf', 'C:\\models\\x.gguf', 'D:/x.gguf', 'a/b'];
  for (const model of local)
    assert.is(
      answererOf({ provider: 'local', model }),
      shownTarget({ provider: 'local', model }),
      model,
    );
  assert.is(answererOf({ provider: 'local', model: '/x.gguf' }), '/x.gguf');
  assert.is(answererOf({ provider: 'hub', model: '/x', cloud: true }), 'hub//x (cloud)');
});

test.run();
