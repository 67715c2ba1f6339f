import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../../src/limits.ts';
import { SeparateJudge } from '../../../src/runtime/judge/judge.ts';
import { SCHEMA_BOMBS, type SchemaBomb } from '../../helpers/schema-bombs.ts';

/** What a schema of a tool server may cost. */

const limits = { ...defaultLimits, tool_judge_ms: 400 };
const FINE = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] };
const of = (server: string, schema: Record<string, unknown>, name = `${server}/tool`) => ({
  server,
  name,
  schema,
});

test('arguments are judged by the schema, and the model hears in bounds what is wrong', async () => {
  const judge = new SeparateJudge(defaultLimits);
  const says = (written: string, schema: Record<string, unknown> = FINE) =>
    judge.judge(written, of('a', schema)).then(({ problem }) => problem);
  assert.is(await says('{"a":"b"}'), null);
  assert.is(
    await says('{"a":1}'),
    'The arguments do not fit the schema: arguments/a must be string.',
  );
  assert.is(
    await says(''),
    "The arguments do not fit the schema: arguments must have required property 'a'.",
  );
  assert.is(await says('['), 'The arguments are not JSON.');
  assert.is(await says('[]'), 'The arguments are not a JSON object.');
  const pattern = { type: 'object', properties: { a: { pattern: '(x+x+)+y' } } };
  assert.is(await says(JSON.stringify({ a: 'x'.repeat(100) }), pattern), null);
  assert.is(await says('{}', { type: 'nothing' }), null, 'the server judges it');
  const name = 'n'.repeat(60_000);
  const long = await says('{}', { type: 'object', required: [name] });
  assert.is(
    long?.length,
    defaultLimits.tool_problem_chars + 'The arguments do not fit the schema: .'.length,
  );
  const many = `{"a":[${'1,'.repeat(100_000)}1]}`;
  assert.is(await says(many), 'The arguments have more than 100000 values.');
  const deep = `${'['.repeat(100)}${']'.repeat(100)}`;
  assert.is(await says(`{"a":${deep}}`), 'The arguments have more than 64 levels.');
});

for (const [keyword, { schema, arguments: written }] of Object.entries(SCHEMA_BOMBS))
  test(`a schema of ${JSON.stringify(schema).length} bytes (${keyword}) costs at most its call`, async () => {
    const judge = new SeparateJudge(limits);
    const before = process.memoryUsage.rss();
    const { problem, isOfTool } = await judge.judge(written, of('evil', schema));
    if (isOfTool === true) {
      assert.match(
        problem ?? '',
        /^The schema of evil\/tool .*, so no call of it is carried out\.$/,
      );
      const again = new Set<unknown>();
      const asked = judge.judge(written, of('evil', schema)).then((known) => again.add(known));
      await new Promise(setImmediate);
      assert.equal([...again], [{ problem, isOfTool }], 'it is known now, and no process is asked');
      await asked;
    } else assert.ok((problem ?? '').length < 2100);
    assert.ok(process.memoryUsage.rss() - before < 100_000_000);
  });

const compare = (judge: SeparateJudge, written: string, schema: Record<string, unknown>) =>
  judge.compare(written, { about: 'schema', form: schema }, 'a client');

test('an answer is compared with its schema, and the client hears in bounds what is wrong', async () => {
  const judge = new SeparateJudge(defaultLimits);
  assert.is(await compare(judge, '{"a":"b"}', FINE), null);
  assert.is(await compare(judge, '{"a":1}', FINE), 'It/a must be string.');
  const cases: [schema: Record<string, unknown>, right: string, wrong: string][] = [
    [{ type: 'string', pattern: '^(?=a)[ab]$' }, '"a"', '"b"'],
    [{ type: 'string', pattern: '^a\\_$' }, '"a_"', '"a"'],
    [{ type: 'number', multipleOf: 0.01 }, '0.07', '0.075'],
    [
      { type: 'object', properties: { constructor: { type: 'number' } } },
      '{}',
      '{"constructor":{}}',
    ],
    [{ type: 'string', nullable: true }, 'null', '1'],
    [{ type: 'number', minimum: 1, exclusiveMinimum: true }, '1.5', '1'],
    [{ $async: true, type: 'null' }, 'null', '1'],
    [{ type: 'array', items: { type: 'null' }, uniqueItems: true }, '[null]', '[null,null]'],
    [
      { $id: 'https://a.example/b', $ref: '#/$defs/c', $defs: { c: { type: 'null' } } },
      'null',
      '1',
    ],
    [
      { $schema: 'http://json-schema.org/draft-07/schema#', items: [{ type: 'null' }] },
      '[null,1]',
      '[1]',
    ],
    [
      { properties: { nullable: { type: 'null' }, id: { const: { id: 1 } } } },
      '{"id":{"id":1}}',
      '{"id":{}}',
    ],
  ];
  for (const [schema, right, wrong] of cases) {
    assert.is(await compare(judge, right, schema), null, right);
    assert.match((await compare(judge, wrong, schema)) ?? '', /^It/, wrong);
  }
  const deep = `${'['.repeat(100)}${']'.repeat(100)}`;
  assert.is(await compare(judge, deep, {}), 'It has more than 64 levels, too many to compare.');
  assert.match(
    (await compare(judge, '1', { $ref: 'https://a.example/c' })) ?? '',
    /^svc cannot compare it with the schema: can't resolve reference https:/,
  );
});

test('a schema that needs too long makes no answer right', async () => {
  const judge = new SeparateJudge(limits);
  const slow = { type: 'string', pattern: '^(x+x+)+y$' };
  const problem = 'The schema needs more than 400 ms, so the answer cannot be compared with it.';
  assert.is(await compare(judge, JSON.stringify('x'.repeat(100)), slow), problem);
  assert.is(await compare(judge, '"xxy"', slow), problem, 'it is known now');
  const other = await judge.judge('{"a":"b"}', of('good', FINE));
  assert.is(other.problem, null);
});

test('a server whose schemas are slow does not keep the judge from another one', async () => {
  const judge = new SeparateJudge({ ...limits, tool_judge_ms: 2000 });
  const { schema, arguments: written } = SCHEMA_BOMBS.uniqueItems as SchemaBomb;
  let ended = 0;
  const slow = ['one', 'two', 'three'].map((title) =>
    judge.judge(written, of('evil', { ...schema, title })).then(() => {
      ended += 1;
    }),
  );
  assert.equal(await judge.judge('{"a":"b"}', of('good', FINE)), { problem: null });
  assert.ok(ended < slow.length);
  await Promise.all(slow);
});

test.run();
