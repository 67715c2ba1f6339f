import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { excessOf, JsonMeter, parseForeignJson, readForeignJson } from '../src/json.ts';
import { jsonBudgets } from '../src/limits.ts';

const overOf = (value: unknown, budget: Parameters<typeof excessOf>[1]) =>
  excessOf(typeof value === 'string' ? value : JSON.stringify(value), budget)?.bound ?? null;

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
    overOf(JSON.stringify(value), { levels, values: 100 }) === 'levels';
  for (const value of [1, 'text', null]) assert.not.ok(deep(value, 0));
  for (const value of [[[]], { a: [] }, [{}, {}, {}], [['"', '[[[']], { 'a\\': ['{{{', '\\"['] }]) {
    assert.not.ok(deep(value, 2), JSON.stringify(value));
    assert.ok(deep(value, 1), JSON.stringify(value));
  }
  assert.is(overOf('[[[', { levels: 2, values: 100 }), 'levels');
  assert.is(overOf(']]]][[', { levels: 2, values: 100 }), null);
});

test('the values of a text are its texts, numbers, objects and lists', () => {
  const many = (value: unknown, values: number) =>
    overOf(JSON.stringify(value), { levels: 8, values }) === 'values';
  for (const [value, values] of [
    ['a, [{ b', 1],
    [[1, 2, 3], 4],
    [{ a: [1, { b: 'c,,,' }], d: null }, 6],
  ] as const) {
    assert.not.ok(many(value, values), JSON.stringify(value));
    assert.ok(values === 1 || many(value, values - 1), JSON.stringify(value));
  }
});

test('long texts with escapes are measured alike, wherever they are cut', () => {
  const text = (length: number) => `${'x'.repeat(length)}"\\`.repeat(3) + '[{,'.repeat(60);
  for (const length of [0, 126, 127, 128, 129, 130, 255, 256, 400]) {
    const value = [text(length), { [text(length)]: `${text(length)}\\\\` }, 1];
    const bytes = Buffer.from(JSON.stringify(value));
    for (const cut of [0, 1, 127, 128, 129, 130, 131, 132, 260, 300, bytes.length - 3]) {
      const meter = new JsonMeter({ levels: 8, values: 100 });
      assert.is(meter.take(bytes.subarray(0, cut)) ?? meter.take(bytes.subarray(cut)), null);
      assert.ok(meter.isClosed, `${length} ${cut}`);
      assert.is(meter.values, 5, `${length} ${cut}`);
    }
  }
});

test('every form of value has the same bound, to the exact one', () => {
  const { values } = jsonBudgets.foreign;
  for (const [form, inEach] of [
    ['1', 1],
    ['"1"', 1],
    ['{}', 2],
    ['[]', 2],
    ['{"a":1,"a":2}', 3],
  ] as const) {
    // The list itself and a comma less make two.
    const count = Math.floor((values - 1) / inEach);
    const list = (length: number) => `[${new Array(length).fill(form).join(',')}]`;
    assert.is((parseForeignJson(list(count)) as unknown[]).length, count, form);
    assert.is(parseForeignJson(list(count + 1)), undefined, form);
  }
});

test('a vector costs numbers where its door has a place for them, and values elsewhere', () => {
  const budget = { levels: 4, values: 10, numbers: 6 };
  assert.is(
    overOf(
      {
        data: [
          [1, 2.5, -3e5, 4],
          [1, 2, 3, 4],
        ],
      },
      budget,
    ),
    null,
  );
  assert.is(
    overOf(
      {
        data: [
          [1, 2.5, -3e5, 4],
          [1, 2, 3, 4, 5],
        ],
      },
      budget,
    ),
    'numbers',
  );
  assert.is(overOf(['1', '2', '3', '4', '5', '6', '7', '8', '9', '10'], budget), 'values');
  assert.is(overOf(new Array(10).fill(true), budget), 'values');
  assert.is(
    overOf(Object.fromEntries('abcdefghij'.split('').map((name) => [name, 1])), budget),
    'values',
  );
  assert.is(overOf([1, 2, 3, 4], { levels: 4, values: 4 }), 'values');
});

test('a text in pieces is measured as a whole one, wherever it is cut', () => {
  const text = Buffer.from('{"a\\\\\\"[":[1,22,"x,\\\\",{"b":[[3,4],5]}],"c":true}');
  const most = { levels: 5, values: 9, numbers: 3 };
  assert.is(excessOf(text, most), null);
  for (const [bound, less] of Object.entries({ levels: 4, values: 8, numbers: 2 }))
    for (let at = 0; at <= text.length; at += 1) {
      const meter = new JsonMeter({ ...most, [bound]: less });
      const found = meter.take(text.subarray(0, at)) ?? meter.take(text.subarray(at));
      assert.is(found?.bound, bound, `${bound} at ${at}`);
      const whole = new JsonMeter(most);
      assert.is(whole.take(text.subarray(0, at)) ?? whole.take(text.subarray(at)), null);
    }
});

test('a text over its budget says which bound it is over', () => {
  assert.throws(() => readForeignJson('[[1]]', { levels: 1, values: 9 }), 'more than 1 levels');
  assert.throws(() => readForeignJson('[1,1]', { levels: 1, values: 2 }), 'more than 2 values');
  assert.is(readForeignJson('[1', { levels: 1, values: 9 }), undefined);
});

test('the largest real answers are within their budgets', () => {
  const vector = Array.from({ length: 3072 }, (_, at) => Math.sin(at));
  const vectors = Array.from({ length: 128 }, (_, index) => ({
    object: 'embedding',
    index,
    embedding: vector,
  }));
  assert.is(
    overOf({ object: 'list', data: vectors, usage: { prompt_tokens: 1 } }, jsonBudgets.vectors),
    null,
  );
  const model = {
    id: 'm',
    object: 'model',
    created: 1,
    owned_by: 'me',
    context_length: 1,
    meta: { size: 1, n_params: 2 },
    tags: ['a', 'b'],
  };
  assert.is(overOf({ data: new Array(20_000).fill(model) }, jsonBudgets.list), null);
  const file = {
    type: 'file',
    oid: 'a',
    size: 1,
    path: 'b',
    lfs: { oid: 'c', size: 1, pointerSize: 2 },
    xetHash: 'd',
  };
  assert.is(overOf(new Array(20_000).fill(file), jsonBudgets.list), null);
  assert.is(overOf({ tokens: new Array(1_000_000).fill(151_643) }, jsonBudgets.tokens), null);
});

test.run();
