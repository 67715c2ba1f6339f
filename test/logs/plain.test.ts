import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { escapeJson, oneLine, plain } from '../../src/logs/plain.ts';

const HOSTILE = 'a\u0000\u0007\u001b[2J\u007f\u009b\u0085\r\u2028\u2029\u202e\u2066z';

test('a text of several lines keeps lines, tabs and joined letters, and no control characters', () => {
  assert.is(plain('one\n\ttwo'), 'one\n\ttwo');
  assert.is(plain('می\u200cروم 👨‍👩‍👧 a\u200bb'), 'می\u200cروم 👨‍👩‍👧 a\u200bb');
  assert.is(
    plain(HOSTILE),
    'a\ufffd\ufffd\ufffd[2J\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdz',
  );
});

test('a name or a message is one line without invisible characters, except in emoji', () => {
  assert.is(oneLine('one\n\ttwo'), 'one  two');
  assert.is(
    oneLine('a\u200bb\u200dc\ufeffd\u00ade\u{e0041}'),
    'a\ufffdb\ufffdc\ufffdd\ufffde\ufffd',
  );
  assert.is(oneLine('👨‍👩‍👧 👩🏽‍🚀 ❤️‍🔥 ü'), '👨‍👩‍👧 👩🏽‍🚀 ❤️‍🔥 ü');
  assert.not.match(oneLine(HOSTILE), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
});

test('escaped JSON keeps its value, and has no raw control characters', () => {
  const value = { [HOSTILE]: [`${HOSTILE}\u200b\u{e0041}👨‍👩‍👧 ü`, 'plain'] };
  for (const space of [0, 2]) {
    const json = escapeJson(JSON.stringify(value, null, space));
    assert.equal(JSON.parse(json), value);
    assert.not.match(json.replaceAll('\n', ''), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
    assert.match(json, 'ü');
  }
});

test.run();
