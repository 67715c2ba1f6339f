import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  headsOf,
  SHORT_CHARACTERS,
  SHORT_RUN,
  shortRecord,
} from '../../../src/kernel/store/short-run.ts';

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
  const opening = { question: cut, questions: 1 };
  assert.equal(JSON.parse(SHORT_RUN.read(stored({ prompt: long }))), {
    opening,
    record: { prompt: cut, shortened: true },
  });
  assert.is(SHORT_RUN.read(`{${long}`), `{${long}`);
});

test('the heads of a record have the beginnings of its long texts, and how its conversation began', () => {
  const text = (words: string) => ({ type: 'text', text: words });
  assert.is(headsOf({ prompt: cut, output: '', system: null }), null);
  assert.equal(headsOf({ prompt: `${long}b`, output: 'short', system: `${long}b` }), {
    prompt: long,
    system: long,
  });
  const messages = [
    { role: 'system', content: [text('be brief')] },
    { role: 'user', content: [{ type: 'image' }, text('first')] },
    { role: 'assistant', content: [text('answer')] },
    { role: 'user', content: [text('second')] },
  ];
  assert.equal(headsOf({ prompt: 'second', messages }), {
    opening: { question: 'first', questions: 2 },
  });
});

test('the lists of an agent are left out of a short run', () => {
  const record = { id: 'r', turns: [long], tool_calls: [long], output_parts: [long] };
  assert.equal(shortRecord(record), { id: 'r', shortened: true });
});

test.run();
