import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ask, BEARER, type Booted, boot, closeBooted, parseRaw, wire } from './boot.ts';

const test = suite<{ http: Booted }>('ids of requests');

test.before.each(async (context) => {
  context.http = await boot();
});
test.after.each(closeBooted);

const idOf = async (http: Booted, path: string, headers: Record<string, string> = {}) =>
  (await ask(http.url + path, { headers })).headers['x-request-id'];

test('every answer has one, and no two have the same', async ({ http }) => {
  const ids = [
    await idOf(http, '/livez'),
    await idOf(http, '/v1/models', BEARER),
    await idOf(http, '/v1/models'),
    await idOf(http, '/nowhere'),
    await idOf(http, '/livez', { host: 'evil.example' }),
    (await ask(`${http.url}/livez`, { method: 'OPTIONS' })).headers['x-request-id'],
    /^X-Request-Id: (.+)$/im.exec(
      parseRaw(await wire(http.port, 'NONSENSE\r\n\r\n').ended).head,
    )?.[1],
  ];
  for (const id of ids) assert.match(String(id), /^req_[0-9a-f]{12}_[0-9a-z]+$/);
  assert.is(new Set(ids).size, ids.length);
});

test('a client chooses it, within bounds', async ({ http }) => {
  assert.is(await idOf(http, '/livez', { 'x-request-id': 'job-7/a=b' }), 'job-7/a=b');
  for (const chosen of ['a b', 'x'.repeat(129), 'é'])
    assert.match(String(await idOf(http, '/livez', { 'x-request-id': chosen })), /^req_/, chosen);
});

test("Anthropic's API has it under its own name too, also in a failure", async ({ http }) => {
  const { status, headers } = await ask(`${http.url}/v1/messages`, { method: 'POST', body: {} });
  assert.is(status, 401);
  assert.is(headers['request-id'], headers['x-request-id']);
});

test('the log line of a failure names it', async ({ http }) => {
  http.runtime.runs.start = () => Promise.reject(new Error('a defect'));
  const headers = { ...BEARER, 'x-request-id': 'mine' };
  const body = { prompt: 'x' };
  await ask(`${http.url}/v1/runs`, { method: 'POST', headers, body });
  const [line] = http.logged.filter(({ message }) => message === 'a request failed');
  assert.is(line?.fields.request_id, 'mine');
});

test.run();
