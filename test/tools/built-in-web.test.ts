import type { lookup } from 'node:dns';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, createServer as createSocketServer } from 'node:net';
import { gzipSync } from 'node:zlib';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readMcpServer } from '../../src/config/mcp-file.ts';
import { isPublic } from '../../src/http-client/public-address.ts';
import { defaultLimits, type Limits } from '../../src/limits.ts';
import { webTools } from '../../src/tools/built-in/web.ts';
import { makePair } from '../helpers/certificate.ts';
import { bootToolServers } from '../helpers/tool-servers.ts';

/** The tool svc:http: what it gets, and which addresses it never asks. */

const ends: (() => Promise<unknown> | unknown)[] = [];
test.after.each(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

type Handler = (req: IncomingMessage, res: ServerResponse) => void;

/** A site on this machine, whose name the test resolves. Its address counts as public. */
async function site(handler: Handler, more: { limits?: Partial<Limits>; hosts?: string[] } = {}) {
  const asked: IncomingMessage[] = [];
  const server = createServer((req, res) => {
    asked.push(req);
    handler(req, res);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  ends.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const names = new Map([['site.test', ['127.0.0.1']]]);
  const resolved: string[] = [];
  const find = ((name: string, _: object, done: (...found: unknown[]) => void) => {
    resolved.push(name);
    const all = names.get(name) ?? [];
    done(
      null,
      all.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  }) as unknown as typeof lookup;
  const origin = `http://site.test:${port}`;
  const [tool] = webTools({
    hosts: [origin, ...(more.hosts ?? []).map((host) => host.replace('PORT', String(port)))],
    version: '1.2.3',
    limits: { ...defaultLimits, ...more.limits },
    lookup: find,
    isAllowed: (address) => address === '127.0.0.1' || isPublic(address),
  });
  const get = (url: string, signal = AbortSignal.timeout(60_000)) =>
    tool?.call({ url: url.replace('PORT', String(port)) }, signal) as Promise<string>;
  return { get, origin, port, asked, names, resolved };
}

async function refused(work: Promise<string>, why: RegExp): Promise<void> {
  const thrown = await work.then(
    (text) => new Error(`it was got: ${text}`),
    (error: Error) => error,
  );
  assert.match(thrown.message, why);
}

const page: Handler = (_, res) =>
  void res.writeHead(200, { 'content-type': 'text/markdown' }).end('# Hello');

test('a page of a given host, with nothing that says who asks', async () => {
  const { get, origin, asked, resolved } = await site(page);
  assert.is(
    await get(`${origin}/a?b=c#d`),
    `HTTP 200 of ${origin}/a?b=c#d (text/markdown)\n\n# Hello`,
  );
  const [{ method, url, headers } = {} as IncomingMessage] = asked;
  assert.equal([method, url, headers['user-agent']], ['GET', '/a?b=c', 'svc/1.2.3']);
  assert.equal([headers.cookie, headers.authorization], [undefined, undefined]);
  assert.equal(resolved, ['site.test']);
});

test('other hosts, ports, schemes and credentials are refused without a request', async () => {
  const { get, port, asked, resolved } = await site(page);
  for (const url of [
    'http://other.test:PORT/',
    'http://site.test/',
    'https://site.test:PORT/',
    'http://site.test.:PORT/',
    'http://site.test@evil.test:PORT/',
    'http://sub.site.test:PORT/',
    'http://127.0.0.1:PORT/',
    'file:///etc/passwd',
    'data:text/plain,hello',
  ])
    await refused(get(url), /is not allowed\. Only these are: http:\/\/site\.test/);
  await refused(get(`http://me:secret@site.test:${port}/`), /no name and no password/);
  await refused(get('no address'), /is not an address/);
  assert.equal([asked, resolved], [[], []]);
});

test('addresses that are not public', () => {
  const inner = [
    '0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 172.31.255.255',
    '192.0.0.1 192.168.1.1 198.18.0.1 198.51.100.7 203.0.113.9 224.0.0.1 240.0.0.1 255.255.255.255',
    ':: ::1 fe80::1 fe80::1%eth0 fec0::1 fc00::1 fd12:3456::1 ff02::1 2001:db8::1 2001::1 2002:7f00:1::',
    '::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:8.8.8.8 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::1 100::1',
    '3fff::1 5f00::1 localhost 1.2.3 0x7f.1 [::1]',
  ].flatMap((line) => line.split(' '));
  assert.equal(
    inner.filter((address) => isPublic(address)),
    [],
  );
  const outer = ['8.8.8.8', '1.1.1.1', '172.32.0.1', '172.15.0.1', '100.128.0.1', '192.169.0.1'];
  outer.push('2606:4700:4700::1111', '2a00:1450:4001::1', '198.20.0.1', '223.255.255.255');
  assert.equal(
    outer.filter((address) => !isPublic(address)),
    [],
  );
});

test('a name that leads to an inner address, also beside a public one, is not asked', async () => {
  const { get, origin, names, asked } = await site(page);
  for (const all of [
    ['127.0.0.2'],
    ['169.254.169.254'],
    ['::1'],
    ['::ffff:127.0.0.1'],
    ['8.8.8.8', '10.0.0.1'],
    ['127.0.0.1', 'fd00::1'],
    [],
  ]) {
    names.set('site.test', all);
    await refused(get(origin), /leads to an address that is not public/);
  }
  assert.equal(asked, []);
});

test('inner addresses in any writing are refused, though they are given', async () => {
  const hosts = [
    'http://127.0.0.2',
    'http://[::1]',
    'http://[::ffff:10.0.0.1]',
    'http://0x7f000002',
  ];
  const { get, asked } = await site(page, { hosts: hosts.map((host) => `${host}:PORT`) });
  for (const host of [...hosts, 'http://2130706434', 'http://0177.0.0.2'])
    await refused(get(`${host}:PORT/`), /not public/);
  assert.equal(asked, []);
});

test('a name that changes its address is resolved for each request, and asked there only', async () => {
  const { get, origin, names, asked } = await site((_, res) => {
    names.set('site.test', ['192.168.0.1']);
    res.writeHead(302, { location: '/again' }).end();
  });
  await refused(get(origin), /not public/);
  assert.is(asked.length, 1);
});

test('a redirect stays within the given hosts, and ends', async () => {
  const { get, origin, asked } = await site((req, res) => {
    const to: Record<string, string> = {
      '/on': '/here',
      '/out': 'http://evil.test/',
      '/file': 'file:///etc/passwd',
      '/inner': 'http://127.0.0.1:1/',
      '/loop': '/loop',
      '/user': origin.replace('://', '://me:secret@'),
    };
    const location = to[req.url ?? ''];
    if (location === undefined) return page(req, res);
    res.writeHead(307, { location }).end('x'.repeat(100_000));
  });
  assert.match(await get(`${origin}/on`), /\/here \(text\/markdown\)\n\n# Hello$/);
  await refused(get(`${origin}/out`), /http:\/\/evil\.test is not allowed/);
  await refused(get(`${origin}/file`), /is not allowed/);
  await refused(get(`${origin}/inner`), /http:\/\/127\.0\.0\.1:1 is not allowed/);
  await refused(get(`${origin}/user`), /no name and no password/);
  const before = asked.length;
  await refused(get(`${origin}/loop`), /leads on and on/);
  assert.is(asked.length - before, defaultLimits.http_tool_redirects + 1);
});

test('only text, within its bound, also when it is packed', async () => {
  const types = ['image/png', 'application/octet-stream', 'application/jsonp', 'video/mp4', ''];
  const { get, origin } = await site(
    ({ url = '' }, res) => {
      const [, what = '', rest = ''] = /^\/(\w+)\/(.*)$/.exec(url) ?? [];
      const type = { 'content-type': 'text/plain' };
      if (what === 'type') res.writeHead(200, rest === '' ? {} : { 'content-type': rest }).end('x');
      if (what === 'size') res.writeHead(200, type).end('x'.repeat(Number(rest)));
      if (what === 'bomb')
        res.writeHead(200, { ...type, 'content-encoding': rest }).end(gzipSync('x'.repeat(1e6)));
      if (what === 'gzip')
        res.writeHead(200, { ...type, 'content-encoding': 'gzip' }).end(gzipSync('packed'));
      if (what === 'lost') res.writeHead(404, type).end('not here');
    },
    { limits: { http_tool_bytes: 1000 } },
  );
  for (const type of types) await refused(get(`${origin}/type/${type}`), /is not text: it has/);
  for (const type of ['application/json', 'application/ld+json;charset=utf-8', 'TEXT/HTML'])
    assert.match(await get(`${origin}/type/${type}`), /\n\nx$/);
  assert.match(await get(`${origin}/size/1000`), /x{1000}$/);
  await refused(get(`${origin}/size/1001`), /more than 1000 bytes/);
  await refused(get(`${origin}/bomb/gzip`), /more than 1000 bytes/);
  await refused(get(`${origin}/bomb/zstd`), /packed in another way/);
  assert.match(await get(`${origin}/gzip/`), /\n\npacked$/);
  await refused(get(`${origin}/lost/`), /^HTTP 404 .*\n\nnot here$/s);
});

test('a site that never ends, or says nothing, is given up', async () => {
  const { get, origin } = await site(
    ({ url }, res) => {
      if (url === '/silent') return;
      res.writeHead(200, { 'content-type': 'text/plain' });
      res.write('x');
    },
    { limits: { http_tool_ms: 50 } },
  );
  await refused(get(`${origin}/silent`), /cannot be read: .*abort/);
  await refused(get(`${origin}/drips`), /cannot be read: .*abort/);
  const stop = new AbortController();
  const work = get(`${origin}/drips`, stop.signal);
  stop.abort(new Error('the run is cancelled'));
  await refused(work, /^the run is cancelled$/);
});

test('what speaks no HTTP is an error in words', async () => {
  const server = createSocketServer((socket) => void socket.resume().end('SSH-2.0-x\r\n'));
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  ends.push(() => server.close());
  const other = `http://site.test:${(server.address() as AddressInfo).port}`;
  const { get } = await site(page, { hosts: [other] });
  await refused(get(other), /cannot be read: Parse Error/);
});

test('a site whose certificate no authority has signed is not read', async () => {
  const server = createSecureServer(makePair({ names: ['site.test'] }), page);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  ends.push(() => server.close());
  const other = `https://site.test:${(server.address() as AddressInfo).port}`;
  const { get } = await site(page, { hosts: [other] });
  await refused(get(other), /cannot be read: self-signed certificate/);
});

test('a host is a name, or an address without a path', () => {
  const read = (...hosts: unknown[]) => readMcpServer({ type: 'svc:http', hosts });
  for (const host of [
    'docs.python.org',
    'example.org:8443',
    'http://a.test',
    'http://[2606::1]:80',
  ])
    assert.type(read(host), 'object', host);
  for (const host of ['a/b', 'http://a.test/b', 'ftp://a.test', 'me@a.test', '', 7, 'a?b', '*.a b'])
    assert.is(read(host), 'hosts must be such as docs.python.org', String(host));
  assert.match(read() as string, /^hosts must be a list of at most 64 texts$/);
  assert.match(
    readMcpServer({ type: 'svc:files', folders: ['notes'] }) as string,
    /^folders must be whole paths$/,
  );
  const both = { type: 'svc:files', folders: ['/a'], command: 'x' };
  assert.match(readMcpServer(both) as string, /has no command/);
  assert.is(typeof readMcpServer({ type: 'stdio', command: 'x' }), 'object');
});

test('as a server, it asks nothing of this machine', async () => {
  const { port, asked } = await site(page);
  const host = `http://localhost:${port}`;
  const harness = await bootToolServers({ x: { type: 'svc:http', hosts: [host] } });
  ends.push(() => harness.leave());
  const call = { id: 'c', signal: AbortSignal.timeout(60_000), timeout_ms: 60_000 };
  const result = await harness.servers.call('x', 'get', { url: host }, call);
  assert.ok(result.is_error);
  assert.match(result.text, /localhost leads to an address that is not public/);
  assert.equal(asked, []);
});

test.run();
