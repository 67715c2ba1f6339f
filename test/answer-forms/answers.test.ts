import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CALLS, GENERIC, PYTHONIC_FENCE } from '../../src/answer-forms/calls.ts';
import type { CallRow, ThoughtRow } from '../../src/answer-forms/form.ts';
import { THOUGHTS } from '../../src/answer-forms/thoughts.ts';
import { callsText } from '../../src/answer-forms/write.ts';
import { type OutputPart, partsAfter, type Tool } from '../../src/contract/messages/parts.ts';
import { type AnswerForm, Reader } from '../../src/engine/reader/reader.ts';
import type { Answer } from '../fixtures/answers/answer.ts';
import { ANSWERS } from '../fixtures/answers/answers.ts';
import { GENERIC_ANSWERS, MORE_ANSWERS } from '../fixtures/answers/more-answers.ts';

/** An answer is text, reasoning and calls, in whatever form its model writes it. */
const FAMILIES = [...ANSWERS, ...MORE_ANSWERS];

const properties = { city: { type: 'string' }, days: { type: 'integer' } };
const tool = (name: string, parameters: Record<string, unknown>): Tool => ({
  name,
  description: null,
  parameters,
});
const TOOLS = [
  tool('now', { type: 'object', properties: {} }),
  tool('weather', { type: 'object', properties, required: ['city'] }),
  tool('weather_map', { type: 'object', properties }),
  tool('take_note', {
    type: 'object',
    properties: {
      text: { type: 'string' },
      urgent: { type: ['boolean', 'null'] },
      tags: { type: 'array' },
      more: { anyOf: [{ type: 'object' }, { type: 'string' }] },
    },
  }),
];

function rowNamed<R extends { families: string }>(rows: readonly R[], begin: string): R {
  const row = rows.find(({ families }) => families.startsWith(begin));
  if (row === undefined) throw new Error(`no row ${begin}`);
  return row;
}

function formOf(
  rows: readonly CallRow[],
  thoughts: ThoughtRow | null,
  isReasoning: boolean,
): AnswerForm {
  const calls = { rows, tools: TOOLS, several: true, id: (index: number) => `call_${index}` };
  return { stop: [], thoughts, isReasoning, calls };
}

interface Read {
  text: string;
  reasoning: string;
  calls: (readonly [name: string, json: unknown])[];
}

function read(form: AnswerForm, said: readonly string[]): Read {
  const reader = new Reader(form);
  let [text, parts]: [string, readonly OutputPart[]] = ['', []];
  for (const piece of [...said.flatMap((each) => reader.push(each)), ...reader.end()]) {
    parts = partsAfter(parts, text, piece);
    if (piece.kind === undefined) text += piece.text;
  }
  const reasoning = parts.map((part) => (part.type === 'reasoning' ? part.text : '')).join('');
  const calls = parts.flatMap((part) =>
    part.type === 'tool_call' ? [[part.name, JSON.parse(part.arguments)] as const] : [],
  );
  return { text, reasoning, calls };
}

function checkEachWay(
  form: AnswerForm,
  { said, text = '', reasoning = '', calls = [] }: Answer,
): void {
  const expected = { text, reasoning, calls };
  assert.equal(read(form, [said]), expected, said);
  assert.equal(read(form, said.split('')), expected, `letter by letter: ${said}`);
  for (let at = 1; at < said.length; at += 1)
    assert.equal(
      read(form, [said.slice(0, at), said.slice(at)]),
      expected,
      `cut at ${at}: ${said}`,
    );
}

for (const { form: name, thoughts, begun = false, answers } of FAMILIES)
  test(`answers of ${name} are read, wherever they are cut`, () => {
    const row = rowNamed(CALLS, name);
    const reasoning = thoughts === undefined ? null : rowNamed(THOUGHTS, thoughts);
    for (const answer of answers) checkEachWay(formOf([row], reasoning, begun), answer);
  });

test('each row has at least three answers', () => {
  for (const { families } of CALLS) {
    const found = FAMILIES.find(({ form }) => families.startsWith(form));
    assert.ok((found?.answers.length ?? 0) >= 3, families);
  }
});

test('a model without a known form writes what it was asked for, or a fence', () => {
  for (const answer of GENERIC_ANSWERS)
    checkEachWay(formOf([GENERIC, PYTHONIC_FENCE], null, false), answer);
});

test('a call that is cut off before its arguments leaves no mark in the text', () => {
  const calls = [{ name: 'weather', arguments: { city: 'Paris' } }];
  for (const row of CALLS) {
    const said = callsText(row, calls);
    const from = said.indexOf('weather');
    // A bracket or a name alone is a text too.
    if (!/^\W{0,2}\w*[>\]|]/.test(said) || /^\[w/.test(said)) continue;
    for (const end of [from, from + 3]) {
      const begun = `I look. ${said.slice(0, end)}`;
      assert.is(read(formOf([row], null, false), [begun]).text, 'I look.', begun);
    }
  }
});

test('a call of a tool that it does not have stays the text that it is', () => {
  for (const row of CALLS) {
    const said = callsText(row, [{ name: 'shell', arguments: { city: 'Paris' } }]);
    const { text, calls } = read(formOf([row], null, false), [said]);
    assert.equal([text.includes('shell'), calls], [true, []], said);
  }
});

test('what svc writes in a form is read in it', () => {
  const calls = [
    ['take_note', { text: 'a "b"', tags: [1, 'x'], more: { k: null }, urgent: false }],
    ['weather', { city: 'Oslo', days: 2 }],
  ] as const;
  for (const row of [...CALLS, GENERIC, PYTHONIC_FENCE]) {
    const said = callsText(
      row,
      calls.map(([name, values]) => ({ name, arguments: values })),
    );
    assert.equal(
      read(formOf([row], null, false), [said]),
      { text: '', reasoning: '', calls },
      said,
    );
  }
});

test.run();
