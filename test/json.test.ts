import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { excessOf, parseForeignJson } from '../src/json.ts';

test('what others send is read as JSON', () => {
  for (const value of [[], {}, null, 'text', '"[[[[', '\\', { 'a"]': ['\\"{', { b: [1] }] }])
    assert.equal(parseForeignJson(JSON.stringify(value)), value);
  for (const text of ['', '{', '[1,]', '<html>', '"'])
    assert.is(parseForeignJson(text), undefined, text);
});

test('what nests deeper than any answer is not read, and brackets inside a text do not count', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
  assert.equal(parseForeignJson(nested(64)), JSON.parse(nested(64)));
  assert.is(parseForeignJson(nested(65)), undefined);
  assert.is(parseForeignJson(`${'{"a":'.repeat(65)}1${'}'.repeat(65)}`), undefined);
  const text = '['.repeat(1000);
  assert.equal(parseForeignJson(JSON.stringify([text, [text]])), [text, [text]]);
  assert.equal(
    parseForeignJson(`[${'[],'.repeat(1000)}1]`),
    JSON.parse(`[${'[],'.repeat(1000)}1]`),
  );
});

test('the depth of a text is that of its objects and lists, not of its strings', () => {
  const deep = (value: unknown, levels: number) =>
    excessOf(Buffer.from(JSON.stringify(value)), { levels, values: 100 }) === 'levels';
  for (const value of [1, 'text', null]) assert.not.ok(deep(value, 0));
  for (const value of [[[]], { a: [] }, [{}, {}, {}], [['"', '[[[']], { 'a\\': ['{{{', '\\"['] }]) {
    assert.not.ok(deep(value, 2), JSON.stringify(value));
    assert.ok(deep(value, 1), JSON.stringify(value));
  }
  assert.is(excessOf(Buffer.from('[[['), { levels: 2, values: 100 }), 'levels');
});

test('what has more parts than any answer is not read', () => {
  const list = (parts: number) => `[${'{},'.repeat(parts - 2)}{}]`;
  assert.is((parseForeignJson(list(100_000)) as unknown[]).length, 99_999);
  assert.is(parseForeignJson(list(100_001)), undefined);
});

test('the values of a text are its texts, numbers, objects and lists', () => {
  const many = (value: unknown, values: number) =>
    excessOf(Buffer.from(JSON.stringify(value)), { levels: 8, values }) === 'values';
  for (const [value, values] of [
    ['a, [{ b', 1],
    [[1, 2, 3], 4],
    [{ a: [1, { b: 'c,,,' }], d: null }, 6],
  ] as const) {
    assert.not.ok(many(value, values), JSON.stringify(value));
    assert.ok(values === 1 || many(value, values - 1), JSON.stringify(value));
  }
});

test.run();
