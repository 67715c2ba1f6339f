import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readFiles } from '../../../src/transport/http/console-files.ts';
import { ask, boot, parseRaw, wire } from './boot.ts';

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

test('only files of known types are read from the folder', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-console-'));
  for (const name of [
    'index.html',
    'app.js',
    'app.css',
    'a.svg',
    'secret.txt',
    'app.ts',
    'noextension',
  ])
    writeFileSync(join(folder, name), name);
  mkdirSync(join(folder, 'inner'));
  for (const name of ['part.js', 'secret.ts']) writeFileSync(join(folder, 'inner', name), name);
  assert.equal([...readFiles(folder).keys()].sort(), [
    'a.svg',
    'app.css',
    'app.js',
    'index.html',
    'inner/part.js',
  ]);
  assert.is(readFiles(folder).get('app.js')?.content.toString(), 'app.js');
  rmSync(folder, { recursive: true });
  assert.is(readFiles(folder).size, 0);
});

test('the page and its files need no token, have a strict policy, and are cached until they change', async () => {
  const http = await boot();
  const names = [...readFiles('src/console').keys(), 'marked.js'];
  for (const path of names.map((name) => (name === 'index.html' ? '/' : `/console/${name}`))) {
    const accept = path === '/' ? 'text/html,*/*;q=0.8' : '*/*';
    const { status, headers } = await ask(`${http.url}${path}`, { headers: { accept } });
    assert.is(status, 200, path);
    assert.is(headers['content-security-policy'], POLICY);
    assert.equal(
      [headers['x-content-type-options'], headers['referrer-policy'], headers['cache-control']],
      ['nosniff', 'no-referrer', 'no-cache'],
    );
    const again = await ask(`${http.url}${path}`, {
      headers: { accept, 'if-none-match': headers.etag ?? '' },
    });
    assert.equal([again.status, again.text], [304, '']);
    assert.is(
      (await ask(`${http.url}${path}`, { headers: { 'if-none-match': '"other"' } })).status,
      200,
    );
  }
  await http.close();
});

test('the library that reads Markdown is a file of its package, and names no other file', async () => {
  const http = await boot();
  const { status, text, headers } = await ask(`${http.url}/console/marked.js`);
  assert.is(status, 200);
  assert.match(headers['content-type'] ?? '', 'text/javascript');
  assert.match(text, 'MIT');
  assert.match(text, /export\s*\{[^}]*\blexer\b/);
  assert.not.match(text, /sourceMappingURL|from\s*["']|\bimport\s*\(/);
  await http.close();
});

test('no other file is served', async () => {
  const http = await boot();
  for (const name of [
    'nothing.js',
    '..%2fserver.ts',
    '%2e%2e%2fserver.ts',
    '__proto__',
    'index.html',
    '..%5cserver.ts',
    'a/b',
    'daemon',
    'daemon%2f..%2fmain.js',
    'marked.esm.js.map',
    'node_modules/marked/package.json',
  ])
    assert.is((await ask(`${http.url}/console/${name}`)).status, 404, name);
  const raw = await wire(
    http.port,
    `GET /console/.. HTTP/1.1\r\nHost: ${http.host}\r\nConnection: close\r\n\r\n`,
  ).ended;
  assert.is(parseRaw(raw).status, 404, 'not even by a name that no client would send');
  assert.is(
    (await ask(`${http.url}/`, { headers: { origin: 'http://evil.example' } })).status,
    403,
  );
  await http.close();
});

test.run();
