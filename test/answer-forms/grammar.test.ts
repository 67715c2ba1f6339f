import { Ajv2020 } from 'ajv/dist/2020.js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CALLS, GENERIC, PYTHONIC_FENCE } from '../../src/answer-forms/calls.ts';
import type { CallRow } from '../../src/answer-forms/form.ts';
import { argumentsGrammar, headRule } from '../../src/answer-forms/grammar.ts';
import { callsText } from '../../src/answer-forms/write.ts';
import type { Piece } from '../../src/contract/messages/parts.ts';
import { Reader } from '../../src/engine/reader/reader.ts';
import { hasText, parseGrammar, randomTexts } from '../helpers/gbnf.ts';
import { random } from '../torture/random.ts';

/** What a required call may be is what svc reads, and its arguments follow the schema. */

const ROWS = [...CALLS, GENERIC, PYTHONIC_FENCE];
const parameters = {
  type: 'object',
  properties: {
    unit: { enum: ['°C', 'K'] },
    city: { type: 'string' },
    days: { type: 'integer', minimum: 1, maximum: 7 },
    exact: { type: 'boolean' },
    hours: { type: 'array', items: { type: 'number' }, maxItems: 3 },
    place: { $ref: '#/$defs/place' },
  },
  required: ['city', 'exact'],
  additionalProperties: false,
  $defs: {
    place: {
      type: 'object',
      properties: { x: { type: 'integer' } },
      required: ['x'],
      additionalProperties: false,
    },
  },
};

function callsIn(row: CallRow, said: string): { name: string; json: string }[] {
  const tools = [{ name: 'weather', description: null, parameters }];
  const calls = { rows: [row], tools, several: false, id: String };
  const reader = new Reader({ stop: [], thoughts: null, isReasoning: false, calls });
  const pieces: readonly Piece[] = said.split('').flatMap((letter) => reader.push(letter));
  const json = pieces.map(({ text, call }) =>
    call === undefined ? assert.unreachable(text) : text,
  );
  return pieces.length === 0 ? [] : [{ name: pieces[0]?.call?.name ?? '', json: json.join('') }];
}

for (const row of ROWS)
  test(`a required call in the form of ${row.families} is read, and its arguments are valid`, () => {
    const isValid = new Ajv2020().compile(parameters);
    const { next } = random(11);
    const head = randomTexts(parseGrammar(`root ::= ${headRule(row, 'weather')}`), next);
    const rest = randomTexts(parseGrammar(argumentsGrammar(row, parameters)), next);
    for (let count = 0; count < 60; count += 1) {
      // A tag that ends the head begins what follows.
      const begun = head();
      const said = begun.endsWith('<') ? begun.slice(0, -1) + rest() : begun + rest();
      const [call] = callsIn(row, said);
      assert.is(call?.name, 'weather', said);
      const values: unknown = JSON.parse(call?.json ?? '');
      assert.ok(
        isValid(values),
        `${said}\n${JSON.stringify(values)}\n${JSON.stringify(isValid.errors)}`,
      );
    }
  });

test('a call as its model was trained to write it follows the grammar', () => {
  const values = { city: 'Oslo "x" </p>', days: 2, exact: true, hours: [1.5] };
  for (const row of ROWS) {
    const said = callsText(row, [{ name: 'weather', arguments: values }]);
    const from = said.indexOf('weather') + 'weather'.length;
    const grammar = parseGrammar(argumentsGrammar(row, parameters));
    const begins = Array.from({ length: said.length - from }, (_, at) => said.slice(from + at));
    const { kind } = row.syntax;
    const isWritten = begins.some((text) =>
      hasText(
        grammar,
        kind === 'json'
          ? beforeTail(text, row)
          : kind === 'literals'
            ? beforeTail(text, row)
            : text,
      ),
    );
    assert.ok(isWritten, `${said}\n${argumentsGrammar(row, parameters)}`);
  }
});

function beforeTail(text: string, { written: { tail } }: CallRow): string {
  return text.endsWith(tail) ? text.slice(0, text.length - tail.length) : text;
}

test('too many arguments for a form of tags are refused by name', () => {
  const properties = Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`p${at}`, {}]));
  const row = CALLS.find(({ syntax }) => syntax.kind === 'tags') as CallRow;
  assert.throws(
    () => argumentsGrammar(row, { type: 'object', properties }),
    /more than 64 arguments/,
  );
});

test.run();
