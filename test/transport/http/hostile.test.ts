import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { waitFor } from '../../helpers/wait.ts';
import { ask, BEARER, type Booted, boot, closeBooted, parseRaw, TOKEN, wire } from './boot.ts';

const test = suite<{ http: Booted }>('hostile requests');

const LIMITS = { header_bytes: 2048, body_bytes: 4096, connections: 8 };
/** Only for clients that never continue. Any other may be this slow on a busy machine. */
const SHORT = { header_ms: 200, request_ms: 400 };

test.before.each(async (context) => {
  context.http = await boot({ limits: LIMITS });
});

test.after.each(async ({ http }) => {
  try {
    assert.is((await ask(`${http.url}/livez`)).status, 200, 'the daemon still answers');
  } finally {
    await closeBooted();
  }
});

const post = (http: Booted, body: string, more = '') =>
  `POST /v1/runs HTTP/1.1\r\nHost: ${http.host}\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Type: application/json\r\n${more}\r\n${body}`;

test('slow headers end in 408 and a closed connection', async () => {
  const http = await boot({ limits: SHORT });
  const { status, json } = parseRaw(
    await wire(http.port, `GET /livez HTTP/1.1\r\nHost: ${http.host}\r\nX-Slow: `).ended,
  );
  assert.is(status, 408);
  assert.is(json.error.code, 'request_timed_out');
  await http.close();
});

test('a silent connection is closed', async () => {
  const http = await boot({ limits: SHORT });
  await wire(http.port).ended;
  await http.close();
});

test('a slow body ends in 408 and a closed connection', async () => {
  const http = await boot({ limits: SHORT });
  const { status, json } = parseRaw(
    await wire(http.port, post(http, '{"prompt":', 'Content-Length: 100\r\n')).ended,
  );
  assert.is(status, 408);
  assert.is(json.error.code, 'request_timed_out');
  assert.equal(http.runtime.inputs, []);
  await http.close();
});

test('headers that are too large end in 431', async ({ http }) => {
  const { status, json } = parseRaw(
    await wire(
      http.port,
      `GET /livez HTTP/1.1\r\nHost: ${http.host}\r\nX-Large: ${'x'.repeat(4000)}\r\n\r\n`,
    ).ended,
  );
  assert.is(status, 431);
  assert.is(json.error.code, 'headers_too_large');
});

test('more headers than are kept end in 431, and none is left out', async ({ http }) => {
  const asked = (count: number) => {
    const fields = Array.from({ length: count - 2 }, (_, at) => `X-${at}: 1\r\n`).join('');
    const request = `GET /livez HTTP/1.1\r\nHost: ${http.host}\r\n${fields}Connection: close\r\n\r\n`;
    return wire(http.port, request).ended;
  };
  assert.is(parseRaw(await asked(100)).status, 200);
  const { status, json } = parseRaw(await asked(101));
  assert.equal([status, json.error.code], [431, 'headers_too_large']);
  assert.is(parseRaw(await asked(400)).status, 431);
});

test('invalid or ambiguous HTTP ends in 400, and no handler runs', async ({ http }) => {
  const body = '{"prompt":"a"}';
  const requests = [
    'hello\r\n\r\n',
    '\0\0\0\0\r\n\r\n',
    '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    'GET /livez HTTP/9.9\r\n\r\n',
    'GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n',
    `GET /livez HTTP/1.1\r\nHost: ${http.host}\r\nBad Header: x\r\n\r\n`,
    post(http, body, `Content-Length: ${body.length}\r\nContent-Length: ${body.length + 5}\r\n`),
    post(http, body, `Content-Length: ${body.length}\r\nTransfer-Encoding: chunked\r\n`),
    post(http, body, 'Content-Length: -1\r\n'),
    post(http, body, 'Content-Length: 0x10\r\n'),
    post(http, 'zz\r\n', 'Transfer-Encoding: chunked\r\n'),
  ];
  for (const request of requests) {
    const { status, json } = parseRaw(await wire(http.port, request).ended);
    assert.is(status, 400, request);
    assert.is(json.error.code, 'invalid_request', request);
  }
  assert.equal(http.runtime.inputs, []);
});

test('two Hosts are refused even when one of them is ours', async ({ http }) => {
  for (const hosts of [
    [http.host, 'evil.example'],
    ['evil.example', http.host],
    [http.host, http.host],
  ]) {
    const lines = hosts.map((host) => `Host: ${host}\r\n`).join('');
    assert.is(
      parseRaw(
        await wire(http.port, `GET /livez HTTP/1.1\r\n${lines}Connection: close\r\n\r\n`).ended,
      ).status,
      400,
    );
  }
});

test('only a probe over the older HTTP needs no Host', async ({ http }) => {
  for (const [version, path, status] of [
    ['1.0', '/livez', 200],
    ['1.0', '/readyz', 200],
    ['1.0', '/v1/runtime/health', 400],
    ['1.1', '/livez', 400],
  ] as const) {
    const request = `GET ${path} HTTP/${version}\r\nConnection: close\r\n\r\n`;
    assert.is(parseRaw(await wire(http.port, request).ended).status, status, request);
  }
});

test('a target that is not a plain path is refused', async ({ http }) => {
  const targets = [
    `http://${http.host}/livez`,
    'http://evil.example/livez',
    '*',
    '/v1/runs/%',
    '/v1/runs/%zz',
    '/v1/runs/%ff',
    '/v1/runs/%00',
    '/livez%0d%0aX: y',
    '/v1/runs?before=%c0%af',
    '/livez?a=%00',
  ];
  for (const target of targets) {
    const { status, json } = parseRaw(
      await wire(
        http.port,
        `GET ${target} HTTP/1.1\r\nHost: ${http.host}\r\nAuthorization: Bearer ${TOKEN}\r\nConnection: close\r\n\r\n`,
      ).ended,
    );
    assert.is(status, 400, target);
    assert.is(json.error.code, 'invalid_request');
  }
  assert.not.ok(http.runtime.calls.includes('runs.get'));
});

test('a run id can be any text, and is looked up unchanged', async ({ http }) => {
  for (const id of [
    '__proto__',
    'constructor',
    '..%2f..%2fetc',
    '%F0%9F%98%80',
    "'%20OR%201=1--",
  ]) {
    const { status, json } = await ask(`${http.url}/v1/runs/${id}`, { headers: BEARER });
    assert.is(status, 404, id);
    assert.is(json.error.code, 'run_unknown');
  }
});

test('a GET with a body is answered, and the body is not read as a request', async ({ http }) => {
  const smuggled = 'POST /v1/runs HTTP/1.1\r\n\r\n';
  const answers = await wire(
    http.port,
    `GET /livez HTTP/1.1\r\nHost: ${http.host}\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}GET /readyz HTTP/1.1\r\nHost: ${http.host}\r\nConnection: close\r\n\r\n`,
  ).ended;
  assert.equal(answers.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 200']);
});

test('a body with a length over the bound is refused before it is sent', async ({ http }) => {
  const line = wire(http.port, post(http, '', 'Content-Length: 104857600\r\n'));
  await waitFor('an answer', () => line.received().includes('body_too_large'));
  assert.is(parseRaw(line.received()).status, 413);
  line.socket.destroy();
});

test('a body that exceeds the bound is refused and dropped, and the connection continues', async () => {
  const http = await boot({
    limits: { body_bytes: LIMITS.body_bytes, discard_bytes: 256 * 1024 * 1024 },
  });
  const before = heldBytes();
  const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`;
  const line = wire(http.port, post(http, '', 'Transfer-Encoding: chunked\r\n'));
  for (let sent = 0; sent < 100 * 1024 * 1024; sent += 65_536) {
    if (!line.socket.write(chunk)) await once(line.socket, 'drain');
  }
  // V8 counts freed buffers late, and a busy machine later still. What is kept is never freed.
  await waitFor('all but a little is freed', () => heldBytes() - before < 10 * 1024 * 1024);
  assert.not.ok(line.socket.destroyed, 'the connection is open meanwhile');
  line.socket.write(
    `0\r\n\r\nGET /readyz HTTP/1.1\r\nHost: ${http.host}\r\nConnection: close\r\n\r\n`,
  );
  const answers = await line.ended;
  assert.equal(answers.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 413', 'HTTP/1.1 200']);
  assert.equal(http.runtime.inputs, []);
  await http.close();
});

test('each client can read why its body is refused, also if it closes then, or has no token', async () => {
  const http = await boot({ limits: { body_bytes: LIMITS.body_bytes } });
  const refuse = (index: number) =>
    ask(`${http.url}/v1/runs`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(index % 2 === 0 ? BEARER : {}) },
      body: Buffer.alloc(2 * 1024 * 1024, ' '),
    });
  const answers = await Promise.all(Array.from({ length: 40 }, (_, index) => refuse(index)));
  assert.equal(
    answers.map(({ status }) => status),
    answers.map((_, index) => (index % 2 === 0 ? 413 : 401)),
  );
  await http.close();
});

test('a refused body is read up to its bound', async () => {
  const http = await boot({ limits: { body_bytes: 1024, discard_bytes: 65_536 } });
  const line = wire(http.port, post(http, '', 'Transfer-Encoding: chunked\r\n'));
  const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`;
  await waitFor(
    'it is cut off',
    () => line.socket.destroyed || (line.socket.write(chunk) && false),
  );
  assert.match(line.received(), 'HTTP/1.1 413');
  await http.close();
});

test('the wait for a refused body has a bound', async () => {
  const http = await boot({ limits: { discard_ms: 200 } });
  const line = wire(
    http.port,
    `POST /v1/runs HTTP/1.1\r\nHost: ${http.host}\r\nContent-Length: 100\r\n\r\n`,
  );
  assert.is(parseRaw(await line.ended).status, 401);
  await http.close();
});

test('headers that are too long get an answer with the likely cause, however many follow', async ({
  http,
}) => {
  const line = wire(
    http.port,
    `GET /livez HTTP/1.1\r\nHost: ${http.host}\r\nCookie: ${'a=b; '.repeat(200_000)}\r\n\r\n`,
  );
  const { status, json } = parseRaw(await line.ended);
  assert.is(status, 431);
  assert.match(json.error.message, String(LIMITS.header_bytes));
  assert.match(json.error.hint, 'cookies');
});

test('the cookies of other ports do not lock a browser out', async () => {
  const http = await boot();
  const { status } = await ask(`${http.url}/`, {
    headers: {
      cookie: Array.from({ length: 10 }, (_, index) => `c${index}=${'x'.repeat(4000)}`).join('; '),
    },
  });
  assert.is(status, 200);
  await http.close();
});

test('a client that waits for 100 Continue gets it, or is refused before it sends', async ({
  http,
}) => {
  const good = '{"prompt":"a"}';
  const line = wire(
    http.port,
    post(
      http,
      '',
      `Content-Length: ${good.length}\r\nExpect: 100-continue\r\nConnection: close\r\n`,
    ),
  );
  await waitFor('100 Continue', () => line.received().includes('100 Continue'));
  line.socket.write(good);
  assert.match(await line.ended, 'HTTP/1.1 202');
  const large = wire(
    http.port,
    post(http, '', 'Content-Length: 5000\r\nExpect: 100-continue\r\nConnection: close\r\n'),
  );
  assert.is(parseRaw(await large.ended).status, 413);
});

test('an incomplete body starts no run', async ({ http }) => {
  const line = wire(http.port, post(http, '{"prompt":"a"}', 'Content-Length: 100\r\n'));
  await waitFor('the request to arrive', () => http.runtime.calls.includes('probe'));
  line.socket.destroy();
  await line.ended;
  assert.is((await ask(`${http.url}/livez`)).status, 200);
  assert.equal(http.runtime.inputs, []);
});

test('a body that is not the expected JSON is refused with the reason', async ({ http }) => {
  const json = { ...BEARER, 'content-type': 'application/json' };
  const cases: [string | Buffer, Record<string, string>, string, string | null][] = [
    ['', json, 'invalid_request', null],
    ['{', json, 'invalid_request', null],
    ['nul', json, 'invalid_request', null],
    ['[]', json, 'invalid_request', null],
    ['"a"', json, 'invalid_request', null],
    ['['.repeat(4000), json, 'invalid_request', null],
    [Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), json, 'invalid_request', null],
    [Buffer.from('{"prompt":"caf\xe9"}', 'latin1'), json, 'invalid_request', null],
    ['{"prompt":"a"}', { ...json, 'content-encoding': 'gzip' }, 'invalid_request', null],
    ['{"prompt":"a\\u0000b"}', json, 'prompt_not_text', 'prompt'],
    ['{"prompt":"a","promt":1}', json, 'invalid_request', 'promt'],
    ['{"prompt":"a","__proto__":{}}', json, 'invalid_request', '__proto__'],
    ['{"prompt":1}', json, 'invalid_request', 'prompt'],
    ['{}', json, 'prompt_missing', 'prompt'],
  ];
  for (const [body, headers, code, param] of cases) {
    const answer = await ask(`${http.url}/v1/runs`, { method: 'POST', headers, body });
    assert.is(answer.status, 400, String(body).slice(0, 40));
    assert.is(answer.json.error.code, code, String(body).slice(0, 40));
    assert.is(answer.json.error.param, param, String(body).slice(0, 40));
  }
  assert.equal(http.runtime.inputs, []);
});

test('a program may send any type of body, but a page only JSON', async () => {
  const origin = 'https://app.example';
  const http = await boot({ settings: { allowed_origins: [origin] } });
  const start = (headers: Record<string, string>) =>
    ask(`${http.url}/v1/runs`, { method: 'POST', headers, body: '{"prompt":"a"}' });
  const types = [
    undefined,
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'application/jsonx',
  ];
  for (const type of types) {
    const headers = { ...BEARER, ...(type === undefined ? {} : { 'content-type': type }) };
    assert.is((await start(headers)).status, 202, type);
    for (const page of [
      { origin },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-origin' },
    ]) {
      const { status, json } = await start({ ...headers, ...page });
      assert.equal([status, json.error.code], [400, 'invalid_request'], type);
    }
  }
  assert.is(http.runtime.inputs.length, types.length);
  const json = { ...BEARER, origin, 'content-type': 'application/json; charset=utf-8' };
  assert.is((await start(json)).status, 202);
  await http.close();
});

test('connections whose clients read nothing are closed', async () => {
  const http = await boot({ limits: { heartbeat_ms: 100, open_requests: 1024 } });
  const unread = `GET /openapi.json HTTP/1.1\r\nHost: ${http.host}\r\n\r\n`.repeat(1000);
  let taken = 0;
  http.server.on('connection', () => {
    taken += 1;
  });
  const lines = Array.from({ length: 4 }, () => wire(http.port));
  for (const line of lines) {
    line.socket.pause();
    line.socket.write(unread);
  }
  const open = () =>
    new Promise<number>((resolve) => http.server.getConnections((_, count) => resolve(count)));
  await waitFor('none is left', async () => taken === 4 && (await open()) === 0);
  for (const line of lines) line.socket.destroy();
  await http.close();
});

test('an unread export is ended, and a slowly read one is not', async () => {
  const http = await boot({ limits: { heartbeat_ms: 100 } });
  const { runtime } = http;
  let [given, left] = [0, 0];
  runtime.history.exportRun = async function* () {
    try {
      for (given = 0; given < 400; given += 1) yield 'x'.repeat(65_536);
    } finally {
      left += 1;
    }
  };
  const request = `GET /v1/runs/run_1/export HTTP/1.1\r\nHost: ${http.host}\r\nAuthorization: Bearer ${TOKEN}\r\nConnection: close\r\n\r\n`;
  const deaf = wire(http.port);
  deaf.socket.pause();
  deaf.socket.write(request);
  await waitFor('one connection to be left', () => left === 1);
  assert.ok(given < 400, 'it was not read ahead of the client');
  const slow = wire(http.port);
  slow.socket.on('data', () => {
    slow.socket.pause();
    setTimeout(() => slow.socket.resume(), 1);
  });
  slow.socket.write(request);
  assert.ok((await slow.ended).length > 400 * 65_536, 'the slow one got it whole');
  deaf.socket.destroy();
  await http.close();
});

test('a client that waits for an answer for longer than any heartbeat gets it', async () => {
  const http = await boot({ limits: { heartbeat_ms: 100 } });
  await ask(`${http.url}/v1/runs`, { method: 'POST', headers: BEARER, body: { prompt: 'a' } });
  let silent = 0;
  http.server.on('timeout', () => {
    silent += 1;
  });
  const cancel = ask(`${http.url}/v1/runs/run_1/cancel`, { method: 'POST', headers: BEARER });
  await waitFor('a silence', () => silent > 0);
  http.runtime.release();
  assert.is((await cancel).status, 200);
  await http.close();
});

test('a request that came while the process stood still is answered, not reset', async ({
  http,
}) => {
  const request = `GET /livez HTTP/1.1\r\nHost: ${http.host}\r\n\r\n`;
  const connected = once(http.server, 'connection');
  const line = wire(http.port, request);
  const [socket] = (await connected) as [Socket];
  await waitFor('the first answer', () => line.received().includes('200 OK'));
  // As after a stall: the time of the connection is over, and its next request is not read yet.
  // Timers come before what is read.
  setTimeout(() => {
    line.socket.write(request);
    http.server.emit('timeout', socket);
  });
  await waitFor('the second answer', () => line.received().split('200 OK').length === 3);
  http.server.emit('timeout', socket);
  assert.is(socket.destroyed, false, 'bytes have moved since the last time');
  http.server.emit('timeout', socket);
  await line.ended;
});

test('an answer that was not read while the process stood still is sent on, not cut', async ({
  http,
}) => {
  const bytes = 40 * 1024 * 1024;
  http.runtime.history.exportRun = async function* () {
    for (let given = 0; given < bytes; given += 65_536) yield 'x'.repeat(65_536);
  };
  const connected = once(http.server, 'connection');
  const line = wire(http.port);
  line.socket.pause();
  line.socket.write(
    `GET /v1/runs/run_1/export HTTP/1.1\r\nHost: ${http.host}\r\nAuthorization: Bearer ${TOKEN}\r\nConnection: close\r\n\r\n`,
  );
  const [socket] = (await connected) as [Socket];
  await waitFor('bytes that are not sent', () => socket.writableLength > 0);
  http.server.emit('timeout', socket);
  assert.is(socket.destroyed, false);
  line.socket.resume();
  assert.ok((await line.ended).length > bytes);
});

/** Bytes of buffers that are still referenced. */
function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().arrayBuffers;
}

test.run();
