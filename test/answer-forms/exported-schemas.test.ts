import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { schemaGrammar } from '../../src/answer-forms/grammar/schema.ts';
import { problemOfAnswer } from '../../src/runtime/judge/answers.ts';
import { hasText, parseGrammar, randomTexts } from '../helpers/gbnf.ts';
import { random } from '../torture/random.ts';

/**
 * Schemas of pydantic 2.14, instructor 1.17, zod 4.6, the AI SDK 6, TypeBox 0.34 and valibot 1.5,
 * as these wrote them. Others have the words of OpenAPI 3.0. None is refused.
 */
const file = new URL('../fixtures/exported-schemas.json', import.meta.url);
const schemas: Record<string, object> = JSON.parse(readFileSync(file, 'utf8'));

/** What the grammar of each leaves to the comparison. Without a line: nothing. */
const LEFT: Readonly<Record<string, RegExp>> = {
  'zod 4: formats':
    /^the pattern "\^P.* \(the part \(\?!\.\*W\)\) at the schema\.properties\.pause$/,
  'zod 4: more formats': /^the pattern .* at the schema\.properties\.emoji$/,
  'zod 4: texts':
    /^a length beside a pattern or format at .*\.a; "pattern" that two schemas have at .*\.b$/,
  'zod 4: numbers': /^"multipleOf" 0\.5 at the schema\.properties\.b$/,
  'TypeBox: an object with $id': /^"uniqueItems" at the schema\.properties\.set$/,
  'TypeBox: an intersection': /^"unevaluatedProperties" at the schema$/,
  'valibot: an object': /^a length beside a pattern or format at the schema\.properties\.a$/,
  'OpenAPI: words of documents': /^"uniqueItems" at the schema\..*\.tags$/,
  'JSON Schema: if and then': /^"if" at the schema$/,
  'JSON Schema: dependentRequired, not, contains':
    /^"dependentRequired" at .*; "not" at .*; "contains" at .*; a number of properties at the schema$/,
  'pydantic: HttpUrl':
    /^maxLength 2083 at .*\.url(; a length beside a pattern or format at .*){2}$/,
  'pydantic: bounds': /^a length beside .* at .*\.name; "multipleOf" 5 at .*\.step$/,
  'pydantic: sets, tuples and lists': /^"uniqueItems" at .*\.tags; "uniqueItems" at .*\.kinds$/,
};

for (const [name, schema] of Object.entries(schemas))
  test(`a schema of everyday is enforced or compared: ${name}`, () => {
    const { text, unsaid } = schemaGrammar(schema, 'refuse');
    const left = LEFT[name];
    if (left === undefined) assert.equal(unsaid, []);
    else assert.match(unsaid.join('; '), left);
    const write = randomTexts(parseGrammar(text), random(7).next);
    const written = JSON.stringify(schema);
    for (let count = 0; count < 40; count += 1) {
      const each = write();
      const problem = problemOfAnswer({ written: each, schema: written, characters: 500 });
      if (left === undefined) assert.is(problem, null, each);
      else assert.not.match(problem ?? '', 'cannot compare');
    }
  });

const text = (properties: object, others: object = {}) => ({
  type: 'object',
  properties,
  ...others,
});

test('the words that are left out would have said something', () => {
  const wrong: [name: string, answer: object][] = [
    ['TypeBox: an object with $id', { id: '', kind: 'a', rec: {}, set: ['x', 'x'] }],
    [
      'pydantic: sets, tuples and lists',
      { tags: ['a', 'a'], kinds: ['a'], pair: [1, ''], many: [1] },
    ],
    ['OpenAPI: words of documents', { id: 1, owner: {} }],
    ['pydantic: HttpUrl', { url: `https://a.b/${'x'.repeat(2083)}` }],
  ];
  for (const [name, answer] of wrong) {
    const written = JSON.stringify(answer);
    const schema = JSON.stringify(schemas[name]);
    assert.ok(problemOfAnswer({ written, schema, characters: 500 }), name);
  }
});

test('null is a value where OpenAPI says nullable, and bounds are above where it says so', () => {
  const openapi = parseGrammar(
    schemaGrammar(schemas['OpenAPI: words of documents'], 'refuse').text,
  );
  assert.ok(hasText(openapi, '{"id":1,"name":null,"status":null,"owner":null}'));
  assert.not(hasText(openapi, '{"id":null}'));
  const bounds = parseGrammar(schemaGrammar(schemas['zod 4: openapi 3.0'], 'refuse').text);
  assert.ok(hasText(bounds, '{"a":null,"n":0.5,"t":null}'));
  assert.not(hasText(bounds, '{"a":null,"n":0,"t":null}'));
});

test('what no grammar says is left out and named, for a comparison afterwards', () => {
  const { unsaid } = schemaGrammar({ type: 'string', pattern: '^((a{0,9}){0,9}){0,9}$' }, 'refuse');
  assert.match(unsaid[0] ?? '', /can be read in 729 ways/);
  const named: [schema: object, part: RegExp, may: string, not: string | null][] = [
    [
      { type: 'array', items: {}, uniqueItems: true },
      /^"uniqueItems" at the schema$/,
      '[1,1]',
      '1',
    ],
    [text({ a: { not: {} } }), /^"not" at the schema\.properties\.a$/, '{"a":1}', '[]'],
    [{ type: 'number', minimum: 0.5 }, /^the bound 0\.5 at/, '0.5', '-0.1'],
    [{ type: 'number', maximum: 0.5 }, /^the bound 0\.5 at/, '1', '1.1'],
    [{ type: 'integer', multipleOf: 7 }, /^"multipleOf" 7 at/, '14', '1.5'],
    [{ type: 'number', multipleOf: 2.5 }, /^"multipleOf" 2\.5 at/, '2.5', '"a"'],
    [
      { type: 'string', pattern: '^(?=a)[ab]$' },
      /^the pattern "\^\(\?=a\)\[ab\]\$" \(the part \(\?=a\)\) at/,
      '"b"',
      '"c"',
    ],
    [{ type: 'string', pattern: '(' }, /^the pattern "\("/, '"a"', '1'],
    [{ type: 'string', pattern: '^(a)\\1$' }, /\(the part \\1\)/, '"aa"', '1'],
    [{ type: 'string', pattern: 'a', minLength: 3 }, /^a length beside a pattern/, '"a"', '"b"'],
    [{ type: 'string', maxLength: 1001 }, /^maxLength 1001 at/, '"a"', '1'],
    [
      { allOf: [{ type: 'string', pattern: '^a' }, { pattern: 'b$' }] },
      /^"pattern" that two schemas have at/,
      '"ac"',
      '"cb"',
    ],
    [{ oneOf: [{ type: 'integer' }, { type: 'number' }] }, /^"oneOf" whose/, '1', '""'],
    [{ type: 'object', minProperties: 2 }, /^a number of properties/, '{"a":1}', '{}'],
    [{ type: 'object', maxProperties: 2 }, /^a number of properties/, '{}', '[]'],
    [{ type: 'string', enum: ['a', 'bb'], minLength: 2 }, /^"minLength" beside fixed/, '"a"', '""'],
    [
      { patternProperties: { '^a': { type: 'null' }, '^b': { type: 'string' } } },
      /^"patternProperties" at/,
      '{"a":1}',
      '[]',
    ],
  ];
  for (const [schema, part, may, not] of named) {
    const { text, unsaid } = schemaGrammar(schema, 'refuse');
    assert.match(unsaid.join('; '), part);
    assert.ok(hasText(parseGrammar(text), may), `${may}: ${JSON.stringify(schema)}`);
    if (not !== null) assert.not(hasText(parseGrammar(text), not), not);
  }
});

test('words that say nothing about values are left out, and nothing is left to compare', () => {
  const notes = { 'x-order': 1, xml: {}, externalDocs: {}, discriminator: {}, strict: false };
  for (const schema of [
    { ...text({ a: { type: 'null', ...notes } }, { required: ['a'] }), ...notes },
    text({ a: { type: 'null', minLength: 3, uniqueItems: true } }, { required: ['a'] }),
    text({ a: { $anchor: 'x', type: 'null' } }, { required: ['a'], $id: 'https://a.example/b' }),
  ]) {
    const { text, unsaid } = schemaGrammar(schema, 'refuse');
    assert.equal(unsaid, []);
    assert.ok(hasText(parseGrammar(text), '{"a":null}'));
    assert.not(hasText(parseGrammar(text), '{"a":1}'));
  }
});

test.run();
