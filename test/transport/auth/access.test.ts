import type { IncomingMessage } from 'node:http';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readOrigin } from '../../../src/config/value.ts';
import { SvcError } from '../../../src/errors.ts';
import { createAccess } from '../../../src/transport/auth/access.ts';

const test = suite('access');

const PORT = 4780;

/** The result of a request from this origin, if the configuration allows these origins. */
function ask(allowed: readonly string[], origin: string): string | null {
  const allowed_origins = allowed.map(
    (value) => readOrigin(value) ?? 'the configuration refuses it',
  );
  const settings = { auth: false, http: `127.0.0.1:${PORT}`, allowed_origins };
  const access = createAccess({ settings, token: () => null, sessions: { find: () => null } });
  const host = `127.0.0.1:${PORT}`;
  const socket = { localPort: PORT, localAddress: '127.0.0.1', remoteAddress: '127.0.0.1' };
  const request = {
    url: '/v1/runs',
    method: 'GET',
    headers: { host, origin },
    rawHeaders: [],
    headersDistinct: { host: [host], origin: [origin] },
    socket,
  };
  try {
    access.checkSource(request as unknown as IncomingMessage);
    return access.foreignOrigin(request as unknown as IncomingMessage);
  } catch (error) {
    assert.instance(error, SvcError);
    return (error as SvcError).code;
  }
}

test('the origin of an allowed editor or extension gets in, and null does not', () => {
  for (const allowed of [
    'vscode-webview://abc123',
    'chrome-extension://abcdef/',
    'moz-extension://1-2',
    'tauri://localhost',
    'file://x',
  ]) {
    const origin = allowed.replace(/\/$/, '');
    assert.is(ask([allowed], origin), origin);
    for (const other of [
      'null',
      'NULL',
      'vscode-webview://abc124',
      'vscode-webview://',
      'file://',
      'undefined',
      '',
    ])
      assert.is(ask([allowed], other), 'forbidden_origin', `${other} beside ${allowed}`);
  }
});

test('an origin is compared without case, and returned as it was sent', () => {
  assert.is(ask(['https://App.Example/'], 'https://app.example'), 'https://app.example');
  assert.is(ask(['VSCode-Webview://ABC123'], 'vscode-webview://abc123'), 'vscode-webview://abc123');
  assert.is(ask(['http://b.example:80'], 'http://B.example'), 'http://B.example');
  assert.is(ask(['http://b.example:80'], 'https://b.example'), 'forbidden_origin');
});

test('a page of this machine hears of its token only where tokens count', () => {
  for (const [origin, auth, hint] of [
    ['http://localhost:5173', true, /Send the token/],
    ['http://localhost:5173', false, /^Allow it with the setting/],
    ['https://app.example', true, /^Allow it with the setting/],
    ['null', true, /a file has no origin/],
  ] as const) {
    const settings = { auth, http: `127.0.0.1:${PORT}`, allowed_origins: [] };
    const access = createAccess({ settings, token: () => null, sessions: { find: () => null } });
    const host = `127.0.0.1:${PORT}`;
    const request = {
      url: '/v1/runs',
      method: 'GET',
      headers: { host, origin },
      rawHeaders: [],
      headersDistinct: { host: [host], origin: [origin] },
      socket: { localPort: PORT, localAddress: '127.0.0.1', remoteAddress: '127.0.0.1' },
    };
    try {
      access.checkSource(request as unknown as IncomingMessage);
      assert.unreachable(origin);
    } catch (error) {
      assert.match((error as SvcError).hint, hint, `${origin} ${auth}`);
    }
  }
});

const TOKEN = 'the-right-token-0123456789';

/** What a daemon with authentication does with a request. No configuration allows its origin. */
function askApp(
  origin: string,
  { auth = true, method = 'GET', ...sent }: Record<string, string | boolean> = {},
): { code: string | null; foreign: string | null } {
  const settings = { auth: auth === true, http: `127.0.0.1:${PORT}`, allowed_origins: [] };
  const access = createAccess({ settings, token: () => TOKEN, sessions: { find: () => null } });
  const headers = { host: `127.0.0.1:${PORT}`, origin, ...sent };
  const request = {
    url: '/v1/runs',
    method,
    headers,
    rawHeaders: [],
    headersDistinct: Object.fromEntries(Object.entries(headers).map(([k, each]) => [k, [each]])),
    socket: { localPort: PORT, localAddress: '127.0.0.1', remoteAddress: '127.0.0.1' },
  } as unknown as IncomingMessage;
  const foreign = access.foreignOrigin(request);
  try {
    access.checkSource(request);
    return { code: null, foreign };
  } catch (error) {
    return { code: (error as SvcError).code, foreign };
  }
}

const APPS = [
  'http://localhost:3000',
  'https://localhost',
  'HTTP://LocalHost:8080',
  'http://tauri.localhost',
  'http://127.0.0.1:5173',
  'http://0.0.0.0:8000',
  'https://[::1]:9000',
  'app://obsidian.md',
  'capacitor://localhost',
  'file://',
  'tauri://localhost',
  'vscode-webview://1abc',
  'vscode-file://vscode-app',
];
const right = { authorization: `Bearer ${TOKEN}` };

test('a page of this machine and an app get in with a valid token, and only with it', () => {
  for (const origin of APPS) {
    for (const token of [right, { 'x-api-key': TOKEN }])
      assert.equal(askApp(origin, token), { code: null, foreign: origin });
    assert.equal(askApp(origin), { code: 'forbidden_origin', foreign: null }, origin);
    const cookie = { cookie: `svc_session_${PORT}=anything` };
    assert.equal(askApp(origin, cookie), { code: 'forbidden_origin', foreign: null }, origin);
    // The page can read why.
    const wrong = askApp(origin, { authorization: 'Bearer wrong' });
    assert.equal(wrong, { code: 'unauthorised', foreign: origin });
    assert.equal(askApp(origin, { ...right, auth: false }).code, 'forbidden_origin');
  }
});

test('a browser asks without the token whether an app may ask', () => {
  const question = { method: 'OPTIONS', 'access-control-request-method': 'POST' };
  for (const origin of APPS) {
    assert.equal(askApp(origin, question), { code: null, foreign: origin });
    assert.equal(askApp(origin, { ...question, auth: false }).code, 'forbidden_origin');
    const plain = askApp(origin, { method: 'OPTIONS' });
    assert.equal(plain, { code: 'forbidden_origin', foreign: null });
  }
});

test('no web site is an app, whatever token it has', () => {
  for (const origin of [
    'null',
    'https://evil.example',
    'http://localhost.evil.example',
    'http://evil.example:3000',
    'http://evillocalhost',
    'http://127.0.0.1.evil.example',
    'http://127.0.0.2:3000',
    'http://localhost:3000@evil.example',
    'chrome-extension://abcdef',
    'app:evil',
    'https://app.example',
  ])
    assert.equal(askApp(origin, right), { code: 'forbidden_origin', foreign: null }, origin);
});

test.run();
