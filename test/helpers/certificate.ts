import { createPrivateKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Makes self-signed certificates, in the DER form of RFC 5280. Node.js reads certificates and makes
 * none, and not every machine has openssl.
 */
export interface MadePair {
  cert: string;
  key: string;
}

export interface PairOptions {
  names?: readonly string[];
  addresses?: readonly string[];
  from?: Date;
  to?: Date;
}

const DAY_MS = 86_400_000;

export function makePair({
  names = ['localhost'],
  addresses = ['127.0.0.1'],
  from = new Date(Date.now() - DAY_MS),
  to = new Date(Date.now() + 30 * DAY_MS),
}: PairOptions = {}): MadePair {
  const { publicKey, privateKey } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const name = sequence(der(SET, sequence(COMMON_NAME, der(UTF8, Buffer.from('svc test')))));
  const toBeSigned = sequence(
    der(EXPLICIT_0, der(INTEGER, Buffer.from([2]))),
    der(INTEGER, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    sequence(ECDSA_SHA256),
    name,
    sequence(time(from), time(to)),
    name,
    publicKey,
    der(
      EXPLICIT_3,
      sequence(
        sequence(BASIC_CONSTRAINTS, der(OCTETS, sequence(der(BOOLEAN, Buffer.from([0xff]))))),
        sequence(ALTERNATIVE_NAMES, der(OCTETS, sequence(...alternatives(names, addresses)))),
      ),
    ),
  );
  const signature = sign('sha256', toBeSigned, createPrivateKey(privateKey));
  const whole = sequence(
    toBeSigned,
    sequence(ECDSA_SHA256),
    der(BITS, Buffer.concat([Buffer.from([0]), signature])),
  );
  const lines = whole.toString('base64').match(/.{1,64}/g) ?? [];
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
    key: privateKey,
  };
}

/** Writes a pair, and returns the settings that name it. */
export function writePair(
  folder: string,
  { cert, key }: MadePair,
): { tls_cert: string; tls_key: string } {
  const [tls_cert, tls_key] = [join(folder, 'tls.pem'), join(folder, 'tls.key')];
  writeFileSync(tls_cert, cert);
  writeFileSync(tls_key, key, { mode: 0o600 });
  return { tls_cert, tls_key };
}

function alternatives(names: readonly string[], addresses: readonly string[]): Buffer[] {
  return [
    ...names.map((name) => der(DNS_NAME, Buffer.from(name))),
    ...addresses.map((address) => der(IP_ADDRESS, Buffer.from(address.split('.').map(Number)))),
  ];
}

function sequence(...parts: Buffer[]): Buffer {
  return der(SEQUENCE, Buffer.concat(parts));
}

function time(date: Date): Buffer {
  const text = date.toISOString().replace(/\D/g, '').slice(0, 14);
  return der(GENERALIZED_TIME, Buffer.from(`${text}Z`));
}

function der(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const size = length < 0x80 ? [length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

const [BOOLEAN, INTEGER, BITS, OCTETS, UTF8] = [0x01, 0x02, 0x03, 0x04, 0x0c] as const;
const [GENERALIZED_TIME, SEQUENCE, SET] = [0x18, 0x30, 0x31] as const;
const [EXPLICIT_0, EXPLICIT_3, DNS_NAME, IP_ADDRESS] = [0xa0, 0xa3, 0x82, 0x87] as const;
const oid = (hex: string) => der(0x06, Buffer.from(hex, 'hex'));
const ECDSA_SHA256 = oid('2a8648ce3d040302');
const COMMON_NAME = oid('550403');
const BASIC_CONSTRAINTS = oid('551d13');
const ALTERNATIVE_NAMES = oid('551d11');
