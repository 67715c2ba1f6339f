import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkSchemas } from '../../../src/runtime/runs/schemas.ts';
import { failure } from '../../helpers/failure.ts';

/** Schemas of requests are validated as data, in a time that grows with their size only. */

const DRAFT_7 = 'http://json-schema.org/draft-07/schema#';
const check = (schema: object) =>
  checkSchemas({ response_format: { type: 'json_schema', schema } } as never);

for (const [name, draft] of [
  ['the present draft', {}],
  ['draft 7', { $schema: DRAFT_7 }],
] as const) {
  test(`${name}: a wrong schema is named, with a path of bounded length`, async () => {
    const { message, param } = await failure(check({ ...draft, properties: { a: { type: 'x' } } }));
    assert.is(param, 'response_format.schema');
    assert.match(message, 'is not a JSON schema. /properties/a/type must be equal to one of');
    const long = await failure(check({ ...draft, properties: { ['n'.repeat(1e6)]: 5 } }));
    assert.ok(long.message.length < 1000, `${long.message.length}`);
  });

  test(`${name}: the values of an enum are not compared with each other`, async () => {
    await check({ ...draft, enum: [{ a: 1 }, { a: 1 }] });
    await check({ ...draft, enum: Array.from({ length: 90_000 }, (_, a) => ({ a })) });
    await failure(check({ ...draft, enum: 'a' }));
  });
}

test.run();
