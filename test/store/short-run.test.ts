import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SHORT_CHARACTERS, shortData, shortRecord } from '../../src/store/short-run.ts';

const long = 'a'.repeat(SHORT_CHARACTERS + 1);
const cut = 'a'.repeat(SHORT_CHARACTERS);

test('a record without long texts is the same, and not marked', () => {
  const record = { id: 'r', prompt: cut, messages: [{ role: 'user' }] };
  assert.is(shortRecord(record), record);
  assert.not('shortened' in shortRecord(record));
});

test('long texts are cut, long lists are left out, and the record says so', () => {
  const record = {
    id: long,
    prompt: long,
    system: 'b',
    output: long,
    messages: [long],
    tools: null,
  };
  assert.equal(shortRecord(record), {
    id: long,
    prompt: cut,
    system: 'b',
    output: cut,
    tools: null,
    shortened: true,
  });
});

test('stored data is cut in the same way, and what cannot be read stays', () => {
  const stored = (record: object) => JSON.stringify({ record });
  assert.equal(JSON.parse(shortData(stored({ prompt: long }))), {
    record: { prompt: cut, shortened: true },
  });
  assert.is(shortData(`{${long}`), `{${long}`);
});

test.run();
