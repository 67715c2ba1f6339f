import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { fields, table } from '../../src/cli/terminal/print/table.ts';
import { cutTo, padTo, widthOf } from '../../src/logs/width.ts';

const HEADING = ['RUN', 'MODEL', 'PROMPT'];
const ROWS = [
  [
    'run_01ABCDEFGH',
    'groq/llama-3.3-70b-versatile',
    'Why is the sky blue, and since when is it so?',
  ],
  ['run_2', 'local/a', '空が青い理由を教えて'],
];
const lines = (columns: number) => table(HEADING, ROWS, { columns }).split('\n');

test('wide characters take two columns, marks and joined emoji as many as they are drawn with', () => {
  assert.is(widthOf('abc'), 3);
  assert.is(widthOf('空が'), 4);
  assert.is(widthOf('e\u0301'), 1);
  assert.is(widthOf('👩‍👩‍👧'), 2);
  assert.is(widthOf('ﾊﾝ'), 4 / 2, 'half-width forms are narrow');
  assert.is(widthOf('ㄅ'), 2, 'scripts beside Chinese and Japanese');
  assert.is(widthOf('❤\ufe0f'), 2, 'a sign that is drawn as an emoji');
  assert.is(padTo('空', 4), '空  ');
  assert.is(cutTo('空が青い', 5), '空が…');
  assert.is(cutTo('abc', 3), 'abc');
});

test('a table fits the terminal, and its first column stays whole', () => {
  for (const columns of [100, 80, 60, 40]) {
    const shown = lines(columns);
    assert.ok(
      shown.every((line) => widthOf(line) <= columns),
      `${columns}\n${shown.join('\n')}`,
    );
    assert.match(shown[1] ?? '', /^run_01ABCDEFGH /);
  }
  assert.match(lines(60).join('\n'), '…');
});

test('columns are aligned below wide characters', () => {
  const text = table(
    ['A', 'B'],
    [
      ['空が', 'x'],
      ['abc', 'y'],
    ],
    { columns: 80 },
  ).split('\n');
  assert.equal(text.slice(1), ['空が  x', 'abc   y']);
});

test('a long value is broken between words below itself, and stays one line in a pipe', () => {
  const rows = [['why', 'the first of several words that do not fit']] as const;
  assert.is(fields(rows, 30), '  why  the first of several\n       words that do not fit');
  assert.is(fields(rows, Number.POSITIVE_INFINITY), `  why  ${rows[0][1]}`);
  assert.is(fields([['a', 'b']], 3), '  a  b', 'a terminal without room');
});

test('without a width every cell is whole', () => {
  const shown = table(HEADING, ROWS, { columns: Number.POSITIVE_INFINITY });
  for (const row of ROWS) for (const cell of row) assert.match(shown, cell);
});

test('a terminal that is too narrow for anything still gets each row', () => {
  assert.is(lines(5).length, 3);
});

test('a line without a place for all columns leaves out those that are spared first', () => {
  const heading = ['RUN', 'STATE', 'MODEL', 'STARTED', 'PROMPT'];
  const rows = [
    ['run_01ABCDEFGH', 'completed', 'groq/llama', '10 min ago', 'Why is the sky blue?'],
  ];
  const at = (columns: number) => {
    const text = table(heading, rows, { columns, spare: ['MODEL', 'STARTED'] });
    const [head = ''] = text.split('\n');
    for (const line of text.split('\n')) assert.ok(widthOf(line) <= columns, text);
    return head.trim().split(/ +/);
  };
  // Four columns of at least eight, and their gaps, beside the first one.
  assert.equal(at(54), heading);
  assert.equal(at(53), ['RUN', 'STATE', 'STARTED', 'PROMPT']);
  assert.equal(at(44), ['RUN', 'STATE', 'STARTED', 'PROMPT']);
  assert.equal(at(43), ['RUN', 'STATE', 'PROMPT']);
});

test('a value that has no place beside its name is below it', () => {
  const rows: [string, string][] = [['a.name.of.thirty.characters.it', 'some words that say much']];
  assert.is(fields(rows, 54), `  ${rows[0]?.[0]}  some words that say\n${' '.repeat(34)}much`);
  assert.is(fields(rows, 53), `  ${rows[0]?.[0]}\n      some words that say much`);
});

test.run();
