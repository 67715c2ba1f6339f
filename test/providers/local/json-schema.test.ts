import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { choiceOf } from '../../../src/providers/local/engine/choice.ts';
import { type Strictness, schemaGrammar } from '../../../src/providers/local/engine/json-schema.ts';

/** The grammar of a schema, as the library is asked for it. */
const grammar = (schema: unknown, strictness: Strictness = 'refuse') =>
  schemaGrammar(schema, strictness, (made) => `root ::= ${JSON.stringify(made)}`);

function refusal(schema: unknown): string {
  try {
    grammar(schema);
  } catch (error) {
    assert.instance(error, SvcError);
    assert.is((error as SvcError).code, 'capability_missing');
    return (error as SvcError).message;
  }
  return 'accepted';
}

const letters = (count: number, from = 0) =>
  Array.from({ length: count }, (_, at) => String.fromCharCode(97 + ((at + from) % 26))).join('');
/** A list of two: the same form again, and one number. The number comes last. */
const nested = (ways: number) => ({
  $ref: '#/$defs/d',
  $defs: {
    d: {
      anyOf: Array.from({ length: ways }, (_, way) => ({
        type: 'array',
        minItems: 2,
        maxItems: 2,
        prefixItems: [{ $ref: '#/$defs/d' }, { const: way }],
      })),
    },
  },
});

test('a schema that would make the engine work for minutes is refused, and the part is named', () => {
  const texts = Array.from({ length: 1900 }, (_, at) => `${at}${letters(2000)}`);
  assert.match(
    refusal({ type: 'object', properties: { a: { type: 'null' }, b: { enum: texts } } }),
    /letters of fixed values and names at the schema\.properties\.b\./,
  );
  assert.match(
    refusal({ const: letters(1_000_000) }),
    /letters of fixed values .* at the schema\./,
  );
  const lists = Array.from({ length: 600 }, (_, at) => ({ type: 'string', maxLength: 1000 - at }));
  assert.match(refusal({ type: 'array', prefixItems: lists }), /at the schema\.prefixItems\.\d+\./);
  const long = () => 'root ::= '.padEnd(100_000, '"a" ');
  assert.throws(
    () => schemaGrammar({ type: 'object' }, 'refuse', long),
    /grammar has more than 65536 letters at the schema/,
  );
});

test('forms that begin alike are counted, also through references', () => {
  const alike = 'so many values and forms that begin alike';
  const objects = (count: number) => ({
    anyOf: Array.from({ length: count }, (_, at) => ({
      type: 'object',
      properties: { kind: { const: `k${at}` } },
    })),
  });
  assert.is(refusal(objects(40)), 'accepted');
  assert.match(refusal(objects(500)), alike);
  assert.match(refusal(nested(8)), alike);
  const signs = Array.from({ length: 1900 }, (_, at) => String.fromCodePoint(0x4e00 + at));
  assert.match(refusal({ enum: signs }), alike);
  // An expression has several kinds. Each says first which one it is.
  const kinds = ['call', 'unary', 'binary', 'index', 'member'].map((kind) => [
    kind,
    { type: 'object', properties: { kind: { const: kind }, of: { $ref: '#/$defs/any' } } },
  ]);
  const any = { anyOf: kinds.map(([kind]) => ({ $ref: `#/$defs/${kind}` })) };
  const $defs = { any, ...Object.fromEntries(kinds) };
  assert.is(refusal({ $ref: '#/$defs/any', $defs }), 'accepted');
});

test('a schema of a tool that is too large only leaves the model free', () => {
  const free = 'root ::= {"type":"object","additionalProperties":true}';
  for (const schema of [{ const: letters(1_000_000) }, nested(8)])
    assert.is(grammar(schema, 'leave_out'), free);
});

/** All texts of a grammar without repetition. */
function textsOf(expression: string, rules: ReadonlyMap<string, string>): readonly string[] {
  const parts = expression.match(/"(?:\\.|[^"\\])*"|[\w-]+\??|\|/g) ?? [];
  const ways: string[][] = [['']];
  for (const part of parts) {
    if (part === '|') {
      ways.push(['']);
      continue;
    }
    const optional = part.endsWith('?');
    const named = rules.get(optional ? part.slice(0, -1) : part);
    const texts = part.startsWith('"')
      ? [part.slice(1, -1).replace(/\\(.)/g, '$1')]
      : [...textsOf(named ?? '', rules), ...(optional ? [''] : [])];
    ways.push((ways.pop() ?? []).flatMap((so) => texts.map((text) => so + text)));
  }
  return ways.flat();
}

test('values that begin alike share their beginning, and the grammar says exactly these values', () => {
  const lists: unknown[][] = [
    ['a', 'b'],
    ['red', 'redder', 'reddest', 'green', '', 'say "hi"', 'a\\b', 'two\nlines', '😀', '😁'],
    [1, 12, 123, 1.5, -1, true, false, null, '1'],
    Array.from({ length: 1500 }, (_, at) => `value ${at.toString(36)}`),
  ];
  for (const list of lists) {
    const texts = list.map((each) => JSON.stringify(each));
    const { rule, rules, branches } = choiceOf('choice0', texts);
    const byName = new Map(rules.map((each) => each.split(' ::= ') as [string, string]));
    assert.equal([...textsOf(rule.slice(1, -1), byName)].sort(), [...texts].sort());
    assert.ok(branches <= 40, `${branches} branches`);
  }
});

test.run();
