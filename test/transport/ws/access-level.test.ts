import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { waitFor } from '../../helpers/wait.ts';
import { parseRaw, TOKEN, wire } from '../http/boot.ts';
import { type Context, close, connect, handshake, open } from './boot.ts';

const test = suite<Context>('access over WebSocket');

test.before.each(async (context) => {
  Object.assign(context, await open());
});

test.after.each(close);

test('a wrong parameter is refused with 400 and its name', async ({ http }) => {
  const cases: [string, string][] = [
    ['tail=abc', 'tail'],
    ['tail=-1', 'tail'],
    ['tail=1.5', 'tail'],
    ['tail=', 'tail'],
    ['tail=100001', 'tail'],
    ['tail=1&tail=2', 'tail'],
    ['level=loud', 'level'],
    ['follow=yes', 'follow'],
    ['since=yesterday', 'since'],
    ['run=a/b', 'run'],
    ['run=', 'run'],
    ['lines=1', 'lines'],
  ];
  for (const [query, param] of cases) {
    const { status, json } = parseRaw(await handshake(http, `/v1/logs?${query}`));
    assert.is(status, 400, query);
    assert.is(json.error.param, param, query);
  }
});

test('an upgrade passes the same checks as a request', async ({ http }) => {
  const bearer = `Authorization: Bearer ${TOKEN}\r\n`;
  const cases: [string, string, string, number, string][] = [
    ['/v1/logs', http.host, '', 401, 'unauthorised'],
    ['/v1/logs', http.host, 'Authorization: Bearer wrong\r\n', 401, 'unauthorised'],
    [`/v1/logs?token=${TOKEN}`, http.host, '', 401, 'unauthorised'],
    ['/v1/logs', 'evil.example', '', 403, 'forbidden_origin'],
    ['/v1/logs', 'evil.example', 'Authorization: Bearer wrong\r\n', 403, 'forbidden_origin'],
    [
      '/v1/logs',
      'evil.example',
      `${bearer}Origin: http://evil.example\r\n`,
      403,
      'forbidden_origin',
    ],
    ['/v1/other', 'host.docker.internal:4780', bearer, 404, 'route_unknown'],
    ['/v1/logs', `localhost:${http.port + 1}`, '', 403, 'forbidden_origin'],
    ['/v1/logs', http.host, `${bearer}Origin: http://evil.example\r\n`, 403, 'forbidden_origin'],
    ['/v1/logs', http.host, `${bearer}Origin: null\r\n`, 403, 'forbidden_origin'],
    ['/v1/logs', http.host, 'Origin: http://localhost:3000\r\n', 403, 'forbidden_origin'],
    ['/v1/other', http.host, bearer, 404, 'route_unknown'],
    ['/livez', http.host, bearer, 404, 'route_unknown'],
    ['http://evil.example/v1/logs', http.host, bearer, 400, 'invalid_request'],
    ['/v1/logs?run=%00', http.host, bearer, 400, 'invalid_request'],
  ];
  for (const [target, host, headers, status, code] of cases) {
    const answer = parseRaw(await handshake(http, target, host, headers));
    assert.is(answer.status, status, `${target} ${headers}`);
    assert.is(answer.json.error.code, code);
    assert.match(answer.head, 'Content-Type: application/json');
  }
  assert.match(
    parseRaw(await handshake(http, '/v1/logs', http.host, '')).head,
    'WWW-Authenticate: Bearer',
  );
  for (const origin of [`http://${http.host}`, 'https://app.example', 'http://localhost:3000'])
    assert.is(await connect(http, '?tail=0', { origin }).closed, 1000);
});

test('an invalid handshake is refused with the envelope', async ({ http }) => {
  const lines = (more: string, method = 'GET') =>
    `${method} /v1/logs HTTP/1.1\r\nHost: ${http.host}\r\nAuthorization: Bearer ${TOKEN}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${more}\r\n`;
  for (const request of [
    lines(''),
    lines('Sec-WebSocket-Key: short\r\nSec-WebSocket-Version: 13\r\n'),
    lines('Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 7\r\n'),
    lines('Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n', 'POST'),
  ]) {
    const { status, json } = parseRaw(await wire(http.port, request).ended);
    assert.is(status, 400);
    assert.is(json.error.code, 'invalid_request');
  }
});

test('a follower over the bound is refused with 503 and a time to retry, until another leaves', async () => {
  const own = await open({ connections: 4 });
  const followers = Array.from({ length: 4 }, () => connect(own.http, '?tail=0&follow=1'));
  await Promise.all(
    followers.map(({ socket }) => new Promise((resolve) => socket.once('open', resolve))),
  );
  const { status, json, head } = parseRaw(await handshake(own.http, '/v1/logs'));
  assert.is(status, 503);
  assert.is(json.error.code, 'too_many_connections');
  assert.match(head, 'Retry-After: 1');
  followers[0]?.socket.close();
  await followers[0]?.closed;
  await waitFor('room', async () => (await connect(own.http, '?tail=0').closed) === 1000);
  await close(own);
});

test.run();
