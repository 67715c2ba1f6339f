import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { routes } from '../../../src/daemon/routes.ts';
import { ask, BEARER, boot } from './boot.ts';

test('settings need the scope admin, and no route writes one', async () => {
  const rows = routes.filter(({ path }) => path.startsWith('/v1/settings'));
  assert.equal(
    rows.map(({ method, path, access, scope }) => [method, path, access, scope]).sort(),
    [
      ['GET', '/v1/settings', 'token', 'admin'],
      ['POST', '/v1/settings/apply', 'token', 'admin'],
    ],
  );
  assert.ok(rows.every(({ body }) => body === undefined));
  const http = await boot();
  assert.is((await ask(`${http.url}/v1/settings`)).status, 401);
  const { status, json } = await ask(`${http.url}/v1/settings`, { headers: BEARER });
  assert.equal([status, json.file, json.settings], [200, '/none', []]);
  const applied = await ask(`${http.url}/v1/settings/apply`, { method: 'POST', headers: BEARER });
  assert.equal([applied.status, applied.json], [200, { applied: [], after_restart: [] }]);
  await http.close();
});

test.run();
