import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { causesOf, isCertificateCode, systemCode } from '../src/causes.ts';

const coded = (code: string, cause?: unknown) =>
  Object.assign(new Error(code, { cause }), { code });

test('the first code of the system in the chain counts, never foreign text', () => {
  const chain = new Error('a', { cause: coded('not a code', coded('ECONNRESET', coded('EPIPE'))) });
  assert.is(systemCode(chain), 'ECONNRESET');
  for (const none of [new Error('a'), coded('no'), 'text', null]) assert.is(systemCode(none), null);
});

test('a chain of causes that turns back ends', () => {
  const error = new Error('a');
  error.cause = error;
  assert.is(causesOf(error).length, 10);
});

test('codes about a certificate are known apart from others', () => {
  for (const code of [
    'CERT_HAS_EXPIRED',
    'DEPTH_ZERO_SELF_SIGNED_CERT',
    'ERR_TLS_CERT_ALTNAME_INVALID',
  ])
    assert.ok(isCertificateCode(code), code);
  for (const code of ['ECONNRESET', null]) assert.not(isCertificateCode(code), String(code));
});

test.run();
