import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PROTO, withMessages } from '../proto.ts';

test('the service and its messages are those of the contract: `npm run docs` writes them', () => {
  const text = readFileSync(PROTO, 'utf8');
  assert.is(text, withMessages(text));
});

test.run();
