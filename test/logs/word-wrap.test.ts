import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { widthOf } from '../../src/logs/width.ts';
import { WordWrap } from '../../src/logs/word-wrap.ts';

/** The text as it is printed on so many columns, when it comes in pieces of a size. */
function wrapped(text: string, columns: number, size: number): string {
  const wrap = new WordWrap(() => columns);
  let out = '';
  for (let from = 0; from < text.length; from += size)
    out += wrap.add(text.slice(from, from + size));
  return out + wrap.end();
}

test('a line is broken between words, whatever the pieces are', () => {
  const text = 'one two three four\nfive  six';
  for (let size = 1; size <= text.length; size += 1)
    assert.is(wrapped(text, 9, size), 'one two\nthree\nfour\nfive  six', `pieces of ${size}`);
});

test('no line is longer than the terminal, and no text is lost', () => {
  const text = Array.from({ length: 200 }, (_, index) => 'w'.repeat(1 + (index % 7))).join(' ');
  for (const columns of [8, 20, 79]) {
    const out = wrapped(text, columns, 5);
    assert.ok(out.split('\n').every((line) => widthOf(line) <= columns));
    assert.is(out.replaceAll('\n', ' '), text);
  }
});

test('a wide character has two columns, and a line may end behind it', () => {
  assert.equal([widthOf('日本'), widthOf('e\u0301'), widthOf('a')], [4, 1, 1]);
  assert.is(wrapped('日本語の文', 5, 2), '日本\n語の\n文');
  assert.is(wrapped('a ❤\ufe0f b', 5, 1), 'a ❤\ufe0f\nb');
});

test('a long word is left to the terminal, and the next one begins a line', () => {
  assert.is(wrapped('a bbbbbbbbbbbb c', 6, 3), 'a\nbbbbbbbbbbbb\nc');
});

test('lines between fences stay as they are', () => {
  const code = 'say this now\n```js\nconst a = 1 + 2 + 3;\n```\nand this too';
  assert.is(wrapped(code, 9, 4), 'say this\nnow\n```js\nconst a = 1 + 2 + 3;\n```\nand this\ntoo');
});

test('after something else was printed, a line begins at its first column', () => {
  const wrap = new WordWrap(() => 9);
  assert.is(wrap.add('one two '), 'one two');
  wrap.restart();
  assert.is(wrap.add('three ') + wrap.end(), ' three');
});

test.run();
