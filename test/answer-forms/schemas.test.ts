import { Ajv2020 } from 'ajv/dist/2020.js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Choices, choiceOf } from '../../src/answer-forms/grammar/choice.ts';
import { schemaGrammar } from '../../src/answer-forms/grammar/schema.ts';
import { SvcError } from '../../src/errors.ts';
import { hasText, parseGrammar, randomTexts } from '../helpers/gbnf.ts';
import { random } from '../torture/random.ts';

function refusal(schema: unknown): string {
  try {
    schemaGrammar(schema, 'refuse');
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
  const optional = Object.fromEntries(
    Array.from({ length: 400 }, (_, at) => [`${at}${letters(20, at)}`, { type: 'null' }]),
  );
  assert.match(
    refusal({ type: 'object', properties: optional }),
    /grammar has more than 262144 letters at the schema/,
  );
});

test('forms that begin alike are counted, also through references', () => {
  const alike = 'so many values and forms that begin alike';
  const objects = (count: number) => ({
    anyOf: Array.from({ length: count }, (_, at) => ({
      type: 'object',
      properties: { kind: { const: `k${at}` } },
      required: ['kind'],
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
    {
      type: 'object',
      properties: { kind: { const: kind }, of: { $ref: '#/$defs/any' } },
      required: ['kind'],
    },
  ]);
  const any = { anyOf: kinds.map(([kind]) => ({ $ref: `#/$defs/${kind}` })) };
  const $defs = { any, ...Object.fromEntries(kinds) };
  assert.is(refusal({ $ref: '#/$defs/any', $defs }), 'accepted');
});

test('a schema of a tool that is too large only leaves the model free', () => {
  for (const schema of [{ const: letters(1_000_000) }, nested(8)])
    assert.ok(hasText(parseGrammar(schemaGrammar(schema, 'leave_out').text), '{"any": [1, null]}'));
});

test('values that begin alike share their beginning, and the grammar says exactly these values', () => {
  const lists: unknown[][] = [
    ['a', 'b'],
    ['red', 'redder', 'reddest', 'green', '', 'say "hi"', 'a\\b', 'two\nlines', '😀', '😁'],
    [1, 12, 123, 1.5, -1, true, false, null, '1'],
    Array.from({ length: 1500 }, (_, at) => `value ${at.toString(36)}`),
  ];
  for (const list of lists) {
    const texts = list.map((each) => JSON.stringify(each));
    const { rule, rules, branches } = choiceOf(
      'choice',
      texts.map((text) => ({ text, next: '' })),
    );
    const grammar = parseGrammar([`root ::= ${rule}`, ...rules].join('\n'));
    for (const text of texts) {
      assert.ok(hasText(grammar, text), text);
      assert.is(hasText(grammar, `${text}0`), texts.includes(`${text}0`));
    }
    const write = randomTexts(grammar, random(1).next);
    for (let count = 0; count < 200; count += 1) assert.ok(texts.includes(write()));
    assert.ok(branches <= 40, `${branches} branches`);
  }
});

test('fixed values in ways of their own are one choice too', () => {
  const names = Array.from({ length: 1000 }, (_, at) => `Region/City number ${at}`);
  for (const key of ['anyOf', 'oneOf']) {
    const ways = names.map((each) => ({ const: each, title: each }));
    const grammar = grammarOf({ [key]: [...ways, { type: 'null' }] });
    for (const each of [names[7], names[999], null])
      assert.ok(hasText(grammar, JSON.stringify(each)));
    assert.not(hasText(grammar, '"Region/City number 1000"'));
  }
});

const validator = new Ajv2020({
  strict: false,
  allErrors: true,
  validateFormats: false,
  multipleOfPrecision: 3,
});
const grammarOf = (schema: unknown) => parseGrammar(schemaGrammar(schema, 'refuse').text);
const text = (properties: object, others: object = {}) => ({
  type: 'object',
  properties,
  ...others,
});
const node = (next: object, required: string[]) => ({
  $ref: '#/$defs/node',
  $defs: {
    node: { ...text({ v: { type: 'integer' }, next }, { required }), additionalProperties: false },
  },
});
const self = { $ref: '#/$defs/node' };

/** Schemas, texts that a model may write for them, and texts that it may not. */
const CASES: [name: string, schema: object | boolean, may: string[], not: string[]][] = [
  [
    'what is optional may be left out, also the first and all',
    text({ a: { type: 'null' }, b: { type: 'null' }, c: { type: 'null' } }, { required: ['b'] }),
    ['{"b":null}', '{"a":null,"b":null}', '{ "b": null, "c": null }', '{\n  "b": null\n}'],
    ['{}', '{"a":null}', '{"b":null,"a":null}', '{,"b":null}', '{"b":null,}', '{"b":null,"d":1}'],
  ],
  [
    'all are optional',
    text({ a: { type: 'null' }, ab: { type: 'null' } }),
    ['{}', '{"a":null}', '{"ab":null}', '{"a":null,"ab":null}'],
    ['{"b":null}', '{"ab":null,"a":null}'],
  ],
  [
    'further properties have other names',
    text(
      { a: { type: 'null' }, at: { type: 'null' } },
      { additionalProperties: { type: 'integer' } },
    ),
    ['{"b":1}', '{"a":null,"b":1,"c":2}', '{"":0}', '{"att":1,"au":2}', '{"at":null}'],
    ['{"a":1}', '{"at":1}', '{"\\u0061":1}', '{"b":null}'],
  ],
  [
    'a list that ends',
    node(self, ['v']),
    ['{"v":1}', '{"v":1,"next":{"v":2}}'],
    ['{"next":{"v":1}}'],
  ],
  [
    'a schema that refers to itself',
    text({ a: { $ref: '#' } }),
    ['{}', '{"a":{"a":{}}}'],
    ['{"b":1}'],
  ],
  [
    'a closed list',
    { type: 'array', prefixItems: [{ type: 'boolean' }, { type: 'null' }], items: false },
    ['[]', '[true]', '[true,null]'],
    ['[true,null,null]', '[null]'],
  ],
  ['no items', { type: 'array', items: false }, ['[]', '[ ]'], ['[1]']],
  [
    'fewer items than places',
    { type: 'array', prefixItems: [{ type: 'null' }, { type: 'null' }], minItems: 1, maxItems: 1 },
    ['[null]'],
    ['[]', '[null,null]'],
  ],
  [
    'a number of items',
    { type: 'array', items: { type: 'null' }, minItems: 2, maxItems: 3 },
    ['[null,null]', '[null,null,null]'],
    ['[null]', '[null,null,null,null]', '[null null]'],
  ],
  ['a value of the type only', { type: 'integer', enum: ['x', 1, null] }, ['1'], ['"x"', 'null']],
  ['objects as fixed values', { enum: [{ a: [1] }, []] }, ['{"a":[1]}', '[]'], ['{}']],
  [
    'a whole number within bounds',
    { type: 'integer', minimum: -5, maximum: 1234 },
    ['-5', '-1', '0', '9', '99', '100', '999', '1000', '1234'],
    ['-6', '1235', '-0', '00', '9999'],
  ],
  ['above', { type: 'integer', exclusiveMinimum: 3 }, ['4', '40', '123456'], ['3', '0', '-4']],
  ['below', { type: 'integer', exclusiveMaximum: 0 }, ['-1', '-44'], ['0', '1']],
  [
    'a number within bounds',
    { type: 'number', minimum: 0, maximum: 1 },
    ['0', '0.5', '1', '1.0', '0.999'],
    ['1.1', '-0.1', '2'],
  ],
  [
    'a number between bounds',
    { type: 'number', exclusiveMinimum: -1, exclusiveMaximum: 2 },
    ['-0.5', '0', '1.99', '1'],
    ['-1', '2', '2.0', '-1.0'],
  ],
  [
    'a pattern',
    { type: 'string', pattern: '^[a-c]{2,3}-\\d+$|^"q\\\\$' },
    ['"ab-1"', '"ccc-099"', '"\\"q\\\\"'],
    ['"a-1"', '"ab-"', '"xab-1"', '"ab-1 "'],
  ],
  ['a pattern somewhere', { pattern: 'b+' }, ['"b"', '"abba"', '"aüb"'], ['"a"', '""', '1']],
  [
    'a pattern of other letters',
    { type: 'string', pattern: '^[^a-z]\\.\\S(?:x|y)?$' },
    ['"A.!"', '"\\"._x"', '"1.y"'],
    ['"a.b"', '"A. "', '"A.bz"'],
  ],
  [
    'a length',
    { type: 'string', minLength: 2, maxLength: 3 },
    ['"ab"', '"é🦙漢"'],
    ['"a"', '"abcd"'],
  ],
  [
    'both of two schemas',
    {
      allOf: [text({ a: { type: 'string' } }, { required: ['a'] }), { $ref: '#/$defs/b' }],
      $defs: { b: text({ a: { maxLength: 1 }, b: { type: 'null' } }) },
    },
    ['{"a":"x"}', '{"a":"x","b":null}'],
    ['{"a":"xy"}', '{}'],
  ],
  [
    'one of two that differ in a property',
    {
      oneOf: ['cat', 'dog'].map((kind) =>
        text({ kind: { const: kind }, n: { type: 'null' } }, { required: ['kind'] }),
      ),
    },
    ['{"kind":"cat"}', '{"kind":"dog","n":null}'],
    ['{"kind":"cow"}', '{}'],
  ],
  [
    'words beside the ways',
    {
      type: 'object',
      properties: { a: { type: 'null' }, b: { type: 'null' } },
      anyOf: [{ required: ['a'] }, { required: ['b'] }],
    },
    ['{"a":null}', '{"b":null}', '{"a":null,"b":null}'],
    ['{}'],
  ],
  [
    'a date',
    { type: 'string', format: 'date' },
    ['"2024-02-28"', '"1999-12-31"'],
    ['"2024-02-30"', '"2024-13-01"'],
  ],
  [
    'a time',
    { type: 'string', format: 'date-time' },
    ['"2024-02-28T23:59:59Z"'],
    ['"2024-02-28 23:59"'],
  ],
  [
    'an id',
    { type: 'string', format: 'uuid' },
    ['"01234567-89ab-cdef-0123-456789abcdef"'],
    ['"deI"'],
  ],
  ['any type', { type: ['string', 'null'], maxLength: 1 }, ['null', '"a"'], ['1', '"ab"']],
  [
    'any value',
    true,
    ['{"a":[1,"x",null,{}]}', '-1.5e3', '"\\u00e9"'],
    ['{a:1}', '"\\ud800"', '01'],
  ],
  [
    'names of properties',
    text({}, { propertyNames: { enum: ['a', 'b'] }, additionalProperties: { type: 'integer' } }),
    ['{}', '{"a":1}', '{"a":1,"b":2}', '{"b":2}'],
    ['{"c":1}', '{"a":null}'],
  ],
  [
    'a pattern of names',
    text(
      {},
      { patternProperties: { '^[a-c]{2}$': { type: 'null' } }, additionalProperties: false },
    ),
    ['{}', '{"ab":null}', '{"ab":null,"cc":null}'],
    ['{"a":null}', '{"ab":1}'],
  ],
  ['no names', text({}, { propertyNames: false }), ['{}'], ['{"a":1}']],
  [
    'at least one property',
    text({ a: { type: 'null' }, b: { type: 'null' } }, { minProperties: 1 }),
    ['{"a":null}', '{"b":null}'],
    ['{}'],
  ],
  [
    'cents',
    { type: 'number', multipleOf: 0.01, minimum: 0 },
    ['0', '12.3', '0.07', '1234567890.12'],
    ['0.001', '-1', '1e2'],
  ],
  ['below zero', { type: 'number', exclusiveMaximum: 0 }, ['-0.5', '-3'], ['-0', '0', '-0.0']],
  [
    'a property of Unicode',
    { type: 'string', pattern: '^\\p{Lu}\\P{L}$' },
    ['"A1"', '"Ä "', '"Ж1"'],
    ['"a1"', '"AB"', '"1A"'],
  ],
  [
    'an anchor, an own address and a relative one',
    {
      $id: 'https://a.example/root.json',
      ...text({ a: { $ref: '#x' }, b: { $ref: 'y.json' }, c: { $ref: 'y.json#/$defs/z' } }),
      $defs: {
        x: { $anchor: 'x', type: 'null' },
        y: { $id: 'y.json', type: 'integer', $defs: { z: { type: 'boolean' } } },
      },
    },
    ['{"a":null,"b":1,"c":true}'],
    ['{"a":1}', '{"b":null}', '{"c":1}'],
  ],
  ['a bound beyond all digits', { maximum: 1e30 }, ['1000', '-7'], ['1e31']],
  ['the empty schema', {}, ['[[]]', 'true'], ['']],
];

for (const [name, schema, may, not] of CASES)
  test(`a schema becomes a grammar of its values: ${name}`, () => {
    const grammar = grammarOf(schema);
    const validate = validator.compile(schema);
    for (const each of may) {
      assert.ok(hasText(grammar, each), `may be written: ${each}`);
      assert.ok(validate(JSON.parse(each)), `is valid: ${each}`);
    }
    for (const each of not) assert.not.ok(hasText(grammar, each), `may not be written: ${each}`);
    const write = randomTexts(grammar, random(7).next);
    for (let count = 0; count < 100; count += 1) {
      const each = write();
      assert.ok(validate(JSON.parse(each)), `${each}: ${JSON.stringify(validate.errors)}`);
    }
  });

test('a schema without a value, and a reference to nothing, are refused by name', () => {
  const named: [schema: object | boolean, part: RegExp][] = [
    [{ $ref: 'https://example.com/a' }, /the reference "https:/],
    [{ $ref: '#/$defs/none' }, /the reference "#\/\$defs\/none"/],
    [{ $ref: '#none' }, /the reference "#none"/],
    [false, /no finite value satisfies/],
    [{ type: 'array', items: {}, minItems: 3, maxItems: 1 }, /no finite value/],
    [{ type: 'string', minLength: 5, maxLength: 2 }, /no finite value/],
    [{ type: 'integer', const: 'x' }, /no finite value/],
    [{ type: 'integer', minimum: 3, maximum: 2 }, /no finite value/],
    [text({ a: false }, { required: ['a'] }), /no finite value/],
    [text({}, { propertyNames: { enum: ['a'] }, required: ['b'] }), /no finite value/],
    [text({ a: false }, { minProperties: 1, additionalProperties: false }), /no finite value/],
    [node(self, ['v', 'next']), /no finite value/],
    [{ $ref: '#' }, /no finite value|deeper than/],
    [{ allOf: [{ type: 'string' }, { type: 'null' }] }, /no finite value/],
  ];
  for (const [schema, part] of named) assert.match(refusal(schema), part);
});

test('a schema has at most 32 levels below the first, whatever makes them', () => {
  const below: Record<string, (schema: object) => object> = {
    properties: (schema) => text({ a: schema }),
    items: (schema) => ({ type: 'array', items: schema }),
    prefixItems: (schema) => ({ type: 'array', prefixItems: [schema], items: false }),
    additionalProperties: (schema) => ({ type: 'object', additionalProperties: schema }),
    anyOf: (schema) => ({ anyOf: [schema, { type: 'null' }] }),
  };
  for (const [keyword, wrap] of Object.entries(below)) {
    const nested = (levels: number) =>
      Array.from({ length: levels }).reduce<object>(wrap, { type: 'null' });
    assert.is(refusal(nested(32)), 'accepted', keyword);
    assert.match(refusal(nested(33)), /deeper than 32/, keyword);
  }
});

test('a class of letters has the letters that it has in JavaScript', () => {
  // Control characters are written with an escape, or not at all.
  const codes = Array.from({ length: 0x3100 - 0x20 }, (_, at) => at + 0x20);
  for (const letter of ['\\w', '\\W', '\\d', '\\D', '\\s', '\\S', '.', '[^b-y\\d]', '[b-y\\s]']) {
    const pattern = `^${letter}$`;
    const grammar = grammarOf({ type: 'string', pattern });
    const allowed = new RegExp(pattern, 'u');
    const wrong = codes.filter((code) => {
      const text = String.fromCharCode(code);
      return code !== 0x7f && hasText(grammar, JSON.stringify(text)) !== allowed.test(text);
    });
    assert.equal(wrong, [], letter);
  }
});

test('a pattern may repeat repetitions where each letter says which one it is of', () => {
  const patterns = [
    '^([a-z]{1,20}( [a-z]{1,20}){0,100}\\.){1,100}$',
    '^((((a{60}){60}){60}){60})$',
    '^(\\d{1,3}\\.){3}\\d{1,3}$',
    '^[A-Z][a-z]{0,30}( [A-Z][a-z]{0,30}){0,50}$',
    '^.{1,900}$',
    '[a-z]{3,200} [a-z]{3,200}',
  ];
  for (const pattern of patterns)
    assert.is(refusal({ type: 'string', pattern }), 'accepted', pattern);
});

test('the rules of fixed values are built once for a grammar, and each has one name', () => {
  const choices = new Choices();
  const texts = ['"aa"', '"ab"'];
  assert.is(choices.of(texts), choices.of(texts));
  assert.is.not(choices.of(['"aa"', '"ab"']).rule, choices.of(texts).rule);
  const list = { enum: ['aa', 'ab', 'b'] };
  const { text } = schemaGrammar(
    { type: 'array', prefixItems: [list, list], items: list },
    'refuse',
  );
  const names = text.split('\n').map((line) => line.split(' ::= ')[0]);
  assert.is(new Set(names).size, names.length);
});

test.run();
