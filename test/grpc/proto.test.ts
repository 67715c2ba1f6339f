import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PROTO, withMessages } from '../proto.ts';

test('the service and its messages are those of the contract: `npm run docs` writes them', () => {
  const text = readFileSync(PROTO, 'utf8');
  assert.is(text, withMessages(text));
});

test('the published package has the file', () => {
  const { files } = JSON.parse(readFileSync('package.json', 'utf8')) as { files: string[] };
  assert.ok(files.includes(dirname(PROTO)));
});

test.run();
