import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { isClearText, refuseOpenBind } from '../../src/config/address.ts';
import { type CertificateFiles, isNameOf, readCertificate } from '../../src/config/certificate.ts';
import type { SvcError } from '../../src/errors.ts';
import { makePair, writePair } from '../helpers/certificate.ts';

const test = suite<{ folder: string }>('the certificate of the listeners');

const DAY_MS = 86_400_000;

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-tls-'));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, force: true }));

function refusal(files: CertificateFiles): SvcError {
  try {
    readCertificate(files);
  } catch (error) {
    return error as SvcError;
  }
  throw new Error('it was accepted');
}

test('a good pair is read, and knows its names', ({ folder }) => {
  const made = makePair({ names: ['svc.example.org', '*.wild.example'], addresses: ['10.0.0.7'] });
  const read = readCertificate(writePair(folder, made));
  assert.is(read?.cert.toString(), made.cert);
  const isName = (host: string) => read !== null && isNameOf(read, host);
  for (const host of ['svc.example.org', 'a.wild.example', '10.0.0.7']) assert.ok(isName(host));
  for (const host of ['evil.example', 'wild.example', '10.0.0.8', '']) assert.not(isName(host));
  assert.is(readCertificate({ tls_cert: null, tls_key: null }), null);
});

test('half a pair is a mistake of the configuration', ({ folder }) => {
  const { tls_cert, tls_key } = writePair(folder, makePair());
  for (const [files, missing] of [
    [{ tls_cert, tls_key: null }, 'tls_key'],
    [{ tls_cert: null, tls_key }, 'tls_cert'],
  ] as const) {
    const { code, param } = refusal(files);
    assert.equal([code, param], ['config_invalid', missing]);
  }
});

test('a pair that cannot be served is refused, with the reason', ({ folder }) => {
  const other = join(folder, 'other');
  mkdirSync(other);
  const good = writePair(folder, makePair());
  const write = (name: string, text: string) => {
    const file = join(folder, name);
    writeFileSync(file, text);
    return file;
  };
  const expired = makePair({
    from: new Date(Date.now() - 2 * DAY_MS),
    to: new Date(Date.now() - DAY_MS),
  });
  const early = makePair({ from: new Date(Date.now() + DAY_MS) });
  const { privateKey: locked } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' },
  });
  const large = write('large.pem', '');
  truncateSync(large, 2 ** 21);
  const cases: [CertificateFiles, string, RegExp][] = [
    [
      { ...good, tls_cert: join(folder, 'none') },
      'tls_cert',
      /none cannot be read: there is no such file \(ENOENT\)/,
    ],
    [
      { ...good, tls_key: join(folder, 'none') },
      'tls_key',
      /none cannot be read: there is no such file \(ENOENT\)/,
    ],
    [{ ...good, tls_cert: other }, 'tls_cert', /is not a file/],
    [{ ...good, tls_cert: large }, 'tls_cert', /more than 1048576 bytes/],
    [{ ...good, tls_cert: write('text', 'hello') }, 'tls_cert', /no certificate in PEM form/],
    [{ ...good, tls_key: good.tls_cert }, 'tls_key', /no private key in PEM form/],
    [{ ...good, tls_key: write('locked', locked) }, 'tls_key', /without a passphrase/],
    [{ ...good, tls_key: writePair(other, makePair()).tls_key }, 'tls_key', /does not belong to/],
    [writePair(other, expired), 'tls_cert', /expired at 20/],
  ];
  for (const [files, param, why] of cases) {
    const error = refusal(files);
    assert.equal([error.code, error.param], ['certificate_invalid', param], error.message);
    assert.match(error.message, why);
  }
  assert.match(refusal(writePair(other, early)).message, /is not valid before 20/);
});

test('other machines reach no listener without authentication, and gRPC only over TLS', () => {
  const loopback = '127.0.0.1:0';
  const open = '0.0.0.0:0';
  const base = { auth: true, http: loopback, grpc: loopback, tls_cert: null };
  const code = (given: Partial<Parameters<typeof refuseOpenBind>[0]>) => {
    try {
      refuseOpenBind({ ...base, ...given });
      return null;
    } catch (error) {
      return (error as SvcError).code;
    }
  };
  assert.is(code({ http: open }), null);
  assert.is(code({ grpc: open }), 'address_refused');
  assert.is(code({ grpc: open, tls_cert: '/c' }), null);
  for (const tls_cert of [null, '/c'])
    for (const listener of [{ http: open }, { grpc: open }])
      assert.is(code({ ...listener, auth: false, tls_cert }), 'address_refused');
  assert.is(isClearText({ http: open, tls_cert: null }), true);
  assert.is(isClearText({ http: open, tls_cert: '/c' }), false);
  assert.is(isClearText({ http: loopback, tls_cert: null }), false);
});

test.run();
