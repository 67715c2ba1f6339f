import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PROTO, withMessages } from '../../proto.ts';

test('the messages of a run are those of its schemas: `npm run docs` writes them', () => {
  const text = readFileSync(PROTO, 'utf8');
  assert.is(text, withMessages(text));
});

test.run();
