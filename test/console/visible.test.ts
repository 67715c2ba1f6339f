import { test } from 'uvu';
import * as assert from 'uvu/assert';
// @ts-expect-error The console has no types: its files are JavaScript.
import { indented, visible } from '../../src/console/views/approvals-view.js';

test('what cannot be seen, or reorders a line, is spelled', () => {
  const rows: [string, string][] = [
    ['a\u202eb\u2066c', 'a\\u202eb\\u2066c'],
    ['\u001b[2J\u0000\u0085\r', '\\u001b[2J\\u0000\\u0085\\u000d'],
    ['\u200b\u00ad\u2028\u3164\ufe0f', '\\u200b\\u00ad\\u2028\\u3164\\ufe0f'],
    ['\u{e0041}', '\\udb40\\udc41'],
    ['\ud800', '\\ud800'],
    ['a\n\tb é 漢 שלום 😀', 'a\n\tb é 漢 שלום 😀'],
  ];
  for (const [text, shown] of rows) assert.is(visible(text), shown);
});

test('JSON gets a form for people, unless it is none, or grows beyond measure', () => {
  assert.is(indented('{"a":[1]}'), '{\n  "a": [\n    1\n  ]\n}');
  assert.is(indented('{"a":'), '{"a":');
  for (const levels of [1000, 100_000]) {
    const deep = '['.repeat(levels) + ']'.repeat(levels);
    assert.is(indented(deep), deep);
  }
});

test.run();
