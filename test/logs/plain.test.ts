import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { foreignJson, foreignText } from '../../src/cli/terminal/print/foreign.ts';
// @ts-expect-error The console has no types: its files are JavaScript.
import { visible } from '../../src/console/views/approvals-view.js';
import { createLineFormat } from '../../src/logs/format-line.ts';
import { oneLine, spellUnseen, toPlain } from '../../src/logs/plain.ts';
import { unseenTexts } from '../helpers/unseen-texts.ts';

const HOSTILE = 'a\u0000\u0007\u001b[2J\u007f\u009b\u0085\r\u2028\u2029\u202e\u2066z';

test('a text of several lines keeps lines, tabs and joined letters, and no control characters', () => {
  assert.is(toPlain('one\n\ttwo'), 'one\n\ttwo');
  assert.is(toPlain('می\u200cروم 👨‍👩‍👧 a\u200bb'), 'می\u200cروم 👨‍👩‍👧 a\u200bb');
  assert.is(
    toPlain(HOSTILE),
    'a\ufffd\ufffd\ufffd[2J\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdz',
  );
});

for (const { name, text, spelled, line } of unseenTexts)
  test(`terminal, console and logs show alike: ${name}`, () => {
    assert.is(spellUnseen(text), spelled, 'at the terminal');
    assert.is(visible(text), spelled, 'in the console');
    assert.is(oneLine(text), line, 'a name');
    assert.is(foreignText(text), spelled.replaceAll('\t', '    ').replace(/^/gm, '  '));
    const logLine = JSON.stringify({ level: 'info', time: '2026-01-02T03:04:05.000Z', msg: text });
    const shown = createLineFormat({ colour: false, columns: null })(logLine);
    assert.ok(shown.endsWith(line), shown);
  });

test('terminal and console spell the same characters of all of Unicode', () => {
  const different: string[] = [];
  for (let point = 0; point <= 0x10ffff; point += 1) {
    const text = `a${String.fromCodePoint(point)}b`;
    if (spellUnseen(text) !== visible(text)) different.push(point.toString(16));
  }
  assert.equal(different, []);
});

test('spelled JSON keeps its value', () => {
  for (const { text } of unseenTexts) {
    const value = { [text]: [text, 'plain'] };
    for (const space of [0, 2])
      assert.equal(JSON.parse(spellUnseen(JSON.stringify(value, null, space))), value);
    assert.equal(JSON.parse(foreignJson(JSON.stringify(value))), value);
  }
});

test.run();
