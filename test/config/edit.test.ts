import fc from 'fast-check';
import { parse, stripComments } from 'jsonc-parser';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { putProperty, removeProperty } from '../../src/config/edit.ts';

const value = { base_url: 'http://a/v1', model: 'm' };

const puts: [fact: string, before: string, after: string][] = [
  [
    'into nothing',
    '',
    '{\n  "providers": {\n    "x": {\n      "base_url": "http://a/v1",\n      "model": "m"\n    }\n  }\n}\n',
  ],
  [
    'under a comment',
    '// mine\n',
    '// mine\n{\n  "providers": {\n    "x": {\n      "base_url": "http://a/v1",\n      "model": "m"\n    }\n  }\n}\n',
  ],
  [
    'behind a property and its comment',
    '{\n  "http": "127.0.0.1:1" // my port\n}\n',
    '{\n  "http": "127.0.0.1:1", // my port\n  "providers": {\n    "x": {\n      "base_url": "http://a/v1",\n      "model": "m"\n    }\n  }\n}\n',
  ],
  [
    'behind a comma at the end, with one of its own',
    '{\n\t"providers": {\n\t\t"a": {}, // first\n\t\t// the next one\n\t},\n}\n',
    '{\n\t"providers": {\n\t\t"a": {}, // first\n\t\t// the next one\n\t\t"x": {\n\t\t\t"base_url": "http://a/v1",\n\t\t\t"model": "m"\n\t\t},\n\t},\n}\n',
  ],
  [
    'into an empty object with a comment',
    '{\r\n    "providers": {\r\n        // none yet\r\n    }\r\n}\r\n',
    '{\r\n    "providers": {\r\n        // none yet\r\n        "x": {\r\n            "base_url": "http://a/v1",\r\n            "model": "m"\r\n        }\r\n    }\r\n}\r\n',
  ],
  [
    'into one line',
    '{"auth":true,"providers":{"a":{}}}',
    '{"auth":true,"providers":{"a":{},\n  "x": {\n    "base_url": "http://a/v1",\n    "model": "m"\n  }\n}}',
  ],
  [
    'in place of what is there',
    '{\n  "providers": {\n    "x": { "base_url": "old" }, // mine\n    "y": {}\n  }\n}',
    '{\n  "providers": {\n    "x": {\n      "base_url": "http://a/v1",\n      "model": "m"\n    }, // mine\n    "y": {}\n  }\n}',
  ],
];

for (const [fact, before, after] of puts) {
  test(`a property is put ${fact}`, () =>
    assert.is(putProperty(before, ['providers', 'x'], value), after));
}

const removals: [fact: string, before: string, after: string][] = [
  [
    'with its line',
    '{\n  "providers": {\n    "a": {},\n    "x": {\n      "base_url": "u"\n    },\n    "b": {}\n  }\n}\n',
    '{\n  "providers": {\n    "a": {},\n    "b": {}\n  }\n}\n',
  ],
  [
    'as the last one, with the comma before it',
    '{\n  "providers": {\n    "a": {}, // first\n    // about x\n    "x": {}\n  }\n}\n',
    '{\n  "providers": {\n    "a": {} // first\n    // about x\n  }\n}\n',
  ],
  [
    'and leaves its comment',
    '{\n  "providers": {\n    "x": {}, // mine\n    "b": {}\n  }\n}\n',
    '{\n  "providers": {\n     // mine\n    "b": {}\n  }\n}\n',
  ],
  ['as the only one, with its comma', '{"providers":{"x":{},}}', '{"providers":{}}'],
  ['within one line', '{"providers":{"a":1,"x":2,"b":3}}', '{"providers":{"a":1,"b":3}}'],
  ['at the end of one line', '{"providers":{"a":1,"x":2}}', '{"providers":{"a":1}}'],
  ['not, when it is not there', '{"providers":{"a":1}}', '{"providers":{"a":1}}'],
  ['not, when nothing is there', '// empty\n', '// empty\n'],
];

for (const [fact, before, after] of removals) {
  test(`a property is removed ${fact}`, () =>
    assert.is(removeProperty(before, ['providers', 'x']), after));
}

/** Files of every layout: space, comments and commas where JSON with comments may have them. */
const space = fc.constantFrom(
  '',
  ' ',
  '\n',
  '\n  ',
  '\t',
  '\r\n    ',
  ' // note "a": {\n',
  '/* "x", } */',
  '\n  // line\n  ',
);
const names = fc.constantFrom('a', 'b', 'x', 'providers', 'quo"te', 'ü');

interface Written {
  text: string;
  value: unknown;
}

function object(member: fc.Arbitrary<Written>): fc.Arbitrary<Written> {
  const property = fc.record({ name: names, member, spaces: fc.tuple(space, space, space, space) });
  return fc
    .tuple(
      fc.uniqueArray(property, { selector: ({ name }) => name, maxLength: 3 }),
      space,
      fc.boolean(),
    )
    .map(([properties, inner, comma]) => ({
      text: `{${properties
        .map(
          ({ name, member: { text }, spaces: [a, b, c, d] }) =>
            `${a}${JSON.stringify(name)}${b}:${c}${text}${d}`,
        )
        .join(',')}${comma && properties.length > 0 ? ',' : ''}${inner}}`,
      value: Object.fromEntries(
        properties.map(({ name, member: { value: inside } }) => [name, inside]),
      ),
    }));
}

const leaf: fc.Arbitrary<Written> = fc
  .constantFrom(1, 'te"xt', true, null, ['{', ','], '// no comment')
  .map((inside) => ({ text: JSON.stringify(inside), value: inside }));
const written = fc
  .tuple(space, object(fc.oneof(leaf, object(fc.oneof(leaf, object(leaf))))), space)
  .map(([before, { text, value: inside }, after]) => ({
    text: before + text + after,
    value: inside,
  }));

const read = (text: string): unknown => {
  const problems: never[] = [];
  const result: unknown = parse(text, problems, { allowTrailingComma: true });
  assert.equal(problems, [], text);
  return result;
};

/** All comments, in their order. */
const comments = (text: string) => stripComments(text, '#').replaceAll(/[^#]/g, '').length;

const isObject = (thing: unknown): thing is Record<string, unknown> =>
  typeof thing === 'object' && thing !== null && !Array.isArray(thing);

test('whatever the layout, putting changes one value and keeps every comment', () => {
  fc.assert(
    fc.property(written, names, ({ text, value: before }, name) => {
      const root = before as Record<string, unknown>;
      if (root.providers !== undefined && !isObject(root.providers)) return;
      const after = putProperty(text, ['providers', name], value);
      assert.equal(read(after), {
        ...root,
        providers: { ...(root.providers ?? {}), [name]: value },
      });
      if (!isObject(root.providers) || !(name in root.providers))
        assert.is(comments(after), comments(text), after);
    }),
    { numRuns: 1000 },
  );
});

test('whatever the layout, removing changes one value and keeps every comment outside it', () => {
  fc.assert(
    fc.property(written, names, ({ text, value: before }, name) => {
      const { [name]: gone, ...rest } = before as Record<string, unknown>;
      const after = removeProperty(text, [name]);
      assert.equal(read(after), rest);
      if (gone === undefined) assert.is(after, text);
    }),
    { numRuns: 1000 },
  );
});

test('putting and removing again gives the same values', () => {
  fc.assert(
    fc.property(written, ({ text, value: before }) => {
      const { fresh: _, ...rest } = before as Record<string, unknown>;
      assert.equal(read(removeProperty(putProperty(text, ['fresh'], value), ['fresh'])), rest);
    }),
  );
});

test.run();
