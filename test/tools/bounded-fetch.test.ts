import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits, jsonBudgets } from '../../src/limits.ts';
import { boundedFetch } from '../../src/tools/bounded-fetch.ts';

const budget = { ...jsonBudgets.package, bytes: defaultLimits.mcp_oauth_bytes };
const read = (body: string) =>
  boundedFetch(
    budget,
    async () => new Response(body),
  )('http://127.0.0.1/')
    .then((response) => response.text())
    .catch(({ message }: Error) => message);

test('an answer of a login has a bound of its bytes, its values and its levels', async () => {
  const scopes = JSON.stringify({ scopes_supported: new Array(2000).fill('read') });
  assert.is(await read(scopes), scopes);
  assert.is(await read(`[${'1,'.repeat(9998)}1]`), `[${'1,'.repeat(9998)}1]`);
  assert.is(await read(`[${'1,'.repeat(9999)}1]`), 'more than 10000 values');
  assert.is(await read('['.repeat(65)), 'more than 64 levels');
  assert.is(await read(`"${'x'.repeat(32 * 1024)}"`), 'more than 32768 bytes');
});

test.run();
