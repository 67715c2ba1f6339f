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

test.run();
