import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { textGrammar } from '../../src/answer-forms/grammar/text-form.ts';
import type { SvcError } from '../../src/errors.ts';
import { GrammarError, parseGbnf, writeRules } from '../../src/forms/gbnf.ts';
import { TooManyWays, Ways } from '../../src/forms/ways.ts';
import type { Asking } from '../helpers/asking.ts';
import { failure } from '../helpers/failure.ts';
import { hasText, parseGrammar } from '../helpers/gbnf.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../helpers/local-provider.ts';
import { makeModels } from '../helpers/made-models.ts';

/** Answers that must be one of some texts, of a regular expression, or of a grammar. */

let local: LocalHarness;
test.before(() => {
  local = makeLocalProvider({ model: 'random' });
  makeModels(local.folder);
});
test.after(() => local.close());

const ask = (changes: Asking) =>
  readAnswer(local, { model: 'random', max_tokens: 300, temperature: 1, ...changes });

test('an answer is one of the choices', async () => {
  const choice = ['yes', 'yes, but', 'no', 'say "no"\n', 'ж😀'];
  for (const seed of [1, 2, 3, 4, 5, 6]) {
    const { text, finish } = await ask({ choice, seed });
    assert.ok(choice.includes(text), JSON.stringify(text));
    assert.equal([finish?.finish_reason, finish?.form], ['stop', 'kept']);
  }
});

test('an answer is described by the regular expression as a whole', async () => {
  for (const regex of ['[a-c]{2,4}-\\d+|x\\n?', '^(ab)+$', '[^\\n]é[\\[\\]^-]{3}']) {
    const { text, finish } = await ask({ regex, seed: 7, max_tokens: 60 });
    if (finish?.finish_reason === 'length') continue;
    assert.match(text, new RegExp(`^(?:${regex})$`, 'u'));
    assert.is(finish?.form, 'kept');
  }
  const ahead = await ask({ regex: '(?=a)[ab]{2}', seed: 1 });
  assert.match(ahead.text, /^[ab]{2}$/);
  assert.is(ahead.finish?.form, undefined, 'it is left to the comparison');
  const error = await failure(ask({ regex: '(a)\\1' }));
  assert.equal([error.code, error.param], ['capability_missing', 'regex']);
  assert.match(error.message, /the part \\1/);
});

const LIST = `# a list of words
root ::= item+
item ::= "- " [^\\n]{1,3} "\\n"
`;

test('an answer is a text of the grammar', async () => {
  for (const seed of [1, 2, 3]) {
    const { text, finish } = await ask({ grammar: LIST, seed, max_tokens: 100 });
    assert.match(text, /^(- [^\n]{1,3}\n)*(-( [^\n]{0,3})?)?$/u);
    if (finish?.finish_reason === 'length') continue;
    assert.match(text, /^(- [^\n]{1,3}\n)+$/u);
    assert.is(finish?.form, 'kept');
  }
});

/** What llama.cpp's own parser aborts for, never ends with, or reads as something else. */
const BAD: [grammar: string, about: string][] = [
  ['', 'Line 1, column 1: there is no rule root.'],
  ['root ::= "a', 'Line 1, column 10: this text has no end.'],
  ['root ::= "a"\nroot ::= "b"', 'Line 2, column 1: the rule root is there twice.'],
  ['root ::= x', 'Line 1, column 10: there is no rule x.'],
  ['root ::= root "a" | "a"', 'The rule root comes to itself before any letter.'],
  [
    'root ::= ("a"*)*',
    'A repetition of a part that may be empty comes to itself before any letter.',
  ],
  ['root ::= "a" root', 'The rule root has no text that ends.'],
  ['root ::= "a"{5,3}', 'Line 1, column 13: the repetition asks for at least 5 and at most 3.'],
  ['root ::= "a"{2001}', 'Line 1, column 13: a part is repeated more than 2000 times.'],
  ['root ::= "a"{}', 'Line 1, column 13: a repetition is {3}, {3,} or {3,5}.'],
  ['root ::= *', 'Line 1, column 10: there is nothing before * that it could repeat.'],
  ['root ::= ("a"', 'Line 1, column 10: this parenthesis has no end.'],
  ['root ::= "a" )', 'Line 1, column 14: ")" cannot be here.'],
  ['root ::= [b-a]', 'Line 1, column 10: a range begins after its end.'],
  ['root ::= []', 'Line 1, column 10: this class has no letter.'],
  ['root ::= "\\ud800"', 'Line 1, column 17: this is not a letter of a text.'],
  ['root ::= "\\x1"', 'Line 1, column 11: \\x needs 2 hexadecimal digits.'],
  [
    'root ::= <[5]>',
    'Line 1, column 10: ids and names of tokens are not supported. Write their texts.',
  ],
  [
    `root ::= ${'('.repeat(65)}`,
    'Line 1, column 75: there are more than 64 levels of parentheses.',
  ],
  [`root ::= ${'"a"? '.repeat(4096)}`, 'there are more than 4096 rules, groups'],
  [
    `root ::= ("${'a'.repeat(40)}" | "b"){2000} ${'"c"{2000} '.repeat(40)}`,
    'more than 65536 letters',
  ],
];

test('a grammar that cannot be read says where, and the engine goes on', async () => {
  for (const [grammar, about] of BAD) {
    const error = await failure(ask({ grammar }));
    assert.equal([error.code, error.param], ['invalid_request', 'grammar'], grammar.slice(0, 40));
    assert.ok(error.message.includes(about), `${error.message}: ${about}`);
  }
  assert.match(local.state(), /^warm/, 'the engine lives');
  assert.is((await ask({ choice: ['a'] })).text, 'a');
});

test('a grammar whose ways double with each letter ends its own run alone', async () => {
  const levels = Array.from(
    { length: 20 },
    (_, at) => `s${at} ::= "a" s${at + 1} "b" | "a" s${at + 1} "c"`,
  );
  const doubling = ['root ::= s0', ...levels, 's20 ::= "d"'].join('\n');
  const error = await failure(ask({ grammar: doubling }));
  assert.equal([error.code, error.param], ['capability_missing', 'grammar']);
  assert.match(error.message, /more than 512 ways to continue/);
  const ways = new Ways(parseGbnf(doubling), 512);
  ways.take('a'.repeat(8));
  assert.is(ways.count, 512);
  assert.throws(
    () => ways.take('a'),
    (thrown: unknown) => thrown instanceof TooManyWays,
  );
  const many = Array.from({ length: 600 }, (_, at) => `"a" "${at}"`).join(' | ');
  const refused = await failure(ask({ grammar: `root ::= ${many}` }));
  assert.equal([refused.code, refused.param], ['capability_missing', 'grammar']);
  assert.match(refused.message, /more than 512 ways to continue/);
  assert.match(local.state(), /^warm/, 'the engine lives');
});

test('the rules that llama.cpp gets have the same texts as the grammar of the client', () => {
  const cases: [grammar: string, may: string[], not: string[]][] = [
    [LIST, ['- a\n', '- abc\n- é\n'], ['', '- \n', '- abcd\n', '-a\n']],
    [
      'root ::= ("a" | "b" c?)+\nc ::= [0-9]{2,3}',
      ['a', 'b12', 'b123ab'],
      ['', 'b1', 'b1234', 'c'],
    ],
    ['root ::= "x"{2} . "\\U0001F600"?', ['xxy', 'xx\n', 'xxy😀'], ['xx', 'xyy']],
    ['root ::=\n  "a" |  # or\n  [^a-y\\-]', ['a', 'z'], ['b', '-', 'aa']],
    ['root ::= "[" root "]" | ""', ['', '[]', '[[]]'], ['[', '[]]']],
    ['root ::= [a-]{0,2}', ['', 'a-', '--'], ['b', 'aaa']],
  ];
  for (const [grammar, may, not] of cases) {
    const rules = parseGbnf(grammar);
    const written = parseGrammar(writeRules(rules));
    for (const [texts, isOf] of [[may, true] as const, [not, false] as const])
      for (const text of texts) {
        assert.is(hasText(written, text), isOf, `${grammar}: ${JSON.stringify(text)}`);
        const ways = new Ways(rules, 512);
        ways.take(text);
        assert.is(ways.mayEnd, isOf, `${grammar}: ${JSON.stringify(text)}`);
      }
  }
  assert.throws(
    () => parseGbnf('root ::='.padEnd(65_537)),
    (thrown: unknown) => thrown instanceof GrammarError,
  );
});

test('the choices and regular expressions of the engine have exactly these texts', () => {
  const has = (form: Parameters<typeof textGrammar>[0], text: string) =>
    hasText(parseGrammar(textGrammar(form).text), text);
  const choice = { param: 'choice', texts: ['a', 'ab', 'a\n"'] } as const;
  for (const text of choice.texts) assert.ok(has(choice, text));
  for (const text of ['', 'b', 'a\n']) assert.not(has(choice, text));
  const regex = { param: 'regex', text: '[a-c]\\\\|"?\\w{2}' } as const;
  for (const text of ['a\\', '"ab', 'a_']) assert.ok(has(regex, text), text);
  for (const text of ['a', '""a', 'abc']) assert.not(has(regex, text), text);
  const signs = Array.from({ length: 600 }, (_, at) => String.fromCodePoint(0x4e00 + at));
  try {
    textGrammar({ param: 'choice', texts: signs });
    assert.unreachable();
  } catch (thrown) {
    assert.equal(
      [(thrown as SvcError).code, (thrown as SvcError).param],
      ['capability_missing', 'choice'],
    );
  }
});

test.run();
