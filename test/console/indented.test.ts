import { test } from 'uvu';
import * as assert from 'uvu/assert';
// @ts-expect-error The console has no types: its files are JavaScript.
import { indentJson } from '../../src/console/views/approvals-view.js';

test('JSON gets a form for people, unless it is malformed, or grows beyond measure', () => {
  assert.is(indentJson('{"a":[1]}'), '{\n  "a": [\n    1\n  ]\n}');
  assert.is(indentJson('{"a":'), '{"a":');
  for (const levels of [1000, 100_000]) {
    const deep = '['.repeat(levels) + ']'.repeat(levels);
    assert.is(indentJson(deep), deep);
  }
});

test.run();
