import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../../src/limits.ts';
import { SeparateJudge } from '../../../src/runtime/tools/arguments-judge.ts';
import { SCHEMA_BOMBS, type SchemaBomb } from '../../helpers/schema-bombs.ts';

/** What a schema of a server of tools may cost. */

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
  assert.is(await says('['), 'The arguments are no JSON.');
  assert.is(await says('[]'), 'The arguments are no JSON object.');
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
