import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Repetition } from '../../src/engine/generate.ts';
import { limitSpecs } from '../../src/limits.ts';

const LEAST = limitSpecs.repetition_tokens.value;

/** The number of tokens after which the answer is ended. Null: it is not. */
function endOf(tokens: Iterable<number>, least = LEAST): number | null {
  const repetition = new Repetition(least);
  let count = 0;
  for (const token of tokens) {
    count += 1;
    if (repetition.push(token)) return count;
  }
  return null;
}

/** Texts as tokens: words, numbers of up to three digits, marks, spaces of one run. */
const ids = new Map<string, number>();
const tokensOf = (text: string) =>
  (text.match(/ ?[A-Za-z]+|\d{1,3}| ?-{1,16}| +|\n|[^\n]/g) ?? []).map((piece) => {
    if (!ids.has(piece)) ids.set(piece, ids.size);
    return ids.get(piece) as number;
  });
const times = (count: number, text: (at: number) => string) =>
  Array.from({ length: count }, (_, at) => text(at)).join('');
const LINE = 'The sky is blue because the sky is blue.\n';

test('a line again and again ends the answer, whatever came before it', () => {
  const line = tokensOf(LINE).length;
  for (const before of ['', 'Some other text, of some tokens.\n', times(300, (at) => `${at} `)]) {
    const end = endOf(tokensOf(before + times(150, () => LINE))) ?? Number.NaN;
    const repeated = end - tokensOf(before).length;
    assert.ok(repeated >= LEAST - line && repeated <= LEAST + line, `${repeated}`);
  }
});

test('one token, and a long paragraph, are repetitions too', () => {
  assert.is(endOf(Array(2000).fill(7)), LEAST);
  const paragraph = Array.from({ length: 200 }, (_, at) => at);
  const all = Array.from({ length: 30 }, () => paragraph).flat();
  assert.is(endOf(all), 3200, 'sixteen times');
});

test('a repetition that another token breaks begins again', () => {
  const most = Array(LEAST - 1).fill(7);
  assert.is(endOf([...most, 8, ...most, 8]), null);
});

test('tables, code, numbers, drawings and lists are no repetitions', () => {
  const rule = `${'-'.repeat(78)}\n`;
  const texts = {
    numbers: `[${times(2000, (at) => `${(at * 7919) % 997}, `)}0]`,
    counted: times(500, (at) => `Line ${at}: the same text, again and again.\n`),
    zeros: `[${times(200, () => '0, ')}0]`,
    matrix: `[${times(14, () => '[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],\n')}]`,
    identity: times(40, (row) => `${times(40, (at) => (at === row ? '1 ' : '0 '))}\n`),
    table: times(200, (at) => `| ${at} | yes | no | - | - | - | - |\n`),
    rules: times(60, () => rule),
    box: times(30, () => `|${' '.repeat(70)}|\n`),
    code: times(60, (at) => `  case ${at}:\n    return ${at * 3};\n`),
    cases: times(12, () => '    }\n  }\n'),
    steps: times(40, (at) => `${times(30, () => '*').slice(0, at % 30)}\n`),
  };
  for (const [name, text] of Object.entries(texts)) assert.is(endOf(tokensOf(text)), null, name);
});

test('0 lets an answer go on, and a smaller number ends it earlier', () => {
  const same = tokensOf(times(300, () => LINE));
  assert.is(endOf(same, 0), null);
  assert.ok((endOf(same, 64) ?? LEAST) < LEAST / 2);
});

test.run();
