import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  customArguments,
  InputReader,
  inputOf,
} from '../../../src/dialects/openai/responses/custom-input.ts';

const TEXT = '*** Begin\n"quoted" \\d 😀 ü\t\u2028';

const inPieces = (written: string, size: number) => {
  const reader = new InputReader();
  const pieces: string[] = [];
  for (let at = 0; at < written.length; at += size)
    pieces.push(reader.add(written.slice(at, at + size)));
  return [...pieces, reader.end()];
};
const escaped = (text: string) =>
  JSON.stringify(text).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

test('an input is the same in pieces of any size, and no piece ends in half a character', () => {
  const whole = TEXT;
  const forms = [
    customArguments.of(whole),
    `{"input":${escaped(whole)}}`,
    ` {\n "input" : ${JSON.stringify(whole)} } `,
  ];
  for (const written of forms) {
    assert.is(inputOf(written), whole);
    for (const size of [1, 2, 3, 7]) {
      const pieces = inPieces(written, size);
      assert.is(pieces.join(''), whole);
      const cut = pieces.filter((piece) => /[\ud800-\udbff]$/.test(piece));
      if (written === forms[1]) assert.equal(cut, []);
    }
  }
});

test('what a model writes instead of the JSON is the input, or is found in it', () => {
  for (const [written, input] of [
    ['*** Begin {', '*** Begin {'],
    ['  raw', '  raw'],
    ['{"why":1,"input":"x"}', 'x'],
    ['{"input":5}', '{"input":5}'],
    ['{ const a = 1; }', '{ const a = 1; }'],
    ['{"input":"a\\d b"}', 'a\\d b'],
    ['{"input":"cut', 'cut'],
    ['{"inp', '{"inp'],
    ['', ''],
  ] as const) {
    assert.is(inputOf(written), input);
    assert.is(inPieces(written, 1).join(''), input, written);
  }
});

test('a long input is read without recursion', () => {
  const long = 'ab\n"'.repeat(300_000);
  assert.is(inputOf(customArguments.of(long)), long);
});

test.run();
