import { createHash } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { chain, GENESIS } from '../../../src/kernel/store/continuity.ts';
import type { EventRow } from '../../../src/kernel/store/row.ts';

const row: EventRow = {
  seq: 7,
  stream: 's',
  version: 2,
  type: 'run.started',
  schema: 1,
  at: 1.5,
  boot_id: 'b',
  data: '{"attempt":1}',
};

test('a hash is SHA-256 over the previous hash, the fields and the stored data, so other programs can check it', () => {
  const text = `${GENESIS}\n[7,"s",2,"run.started",1,1.5,"b"]\n{"attempt":1}`;
  assert.is(chain(GENESIS, row), createHash('sha256').update(text).digest('hex'));
});

test('any changed field, data or previous hash changes the hash', () => {
  const changed: Partial<EventRow>[] = [
    { seq: 8 },
    { stream: 't' },
    { version: 3 },
    { type: 'run.failed' },
    { schema: 2 },
    { at: 2 },
    { boot_id: 'c' },
    { data: '{"attempt": 1}' },
  ];
  const hashes = [
    chain(GENESIS, row),
    chain('1'.repeat(64), row),
    ...changed.map((change) => chain(GENESIS, { ...row, ...change })),
  ];
  assert.is(new Set(hashes).size, hashes.length);
});

test('text that moves from one field to the next changes the hash', () => {
  const one = { ...row, stream: 'a","b', type: 'c' };
  const two = { ...row, stream: 'a', type: 'b","c' };
  assert.is.not(chain(GENESIS, one), chain(GENESIS, two));
});

test.run();
