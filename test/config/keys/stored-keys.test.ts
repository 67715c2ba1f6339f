import {
  chmodSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createKeys } from '../../../src/config/keys/keys.ts';
import type { KeyOwner } from '../../../src/config/keys/port.ts';
import type { Keychain } from '../../../src/config/keys/stored-keys.ts';
import { StoredKeys } from '../../../src/config/keys/stored-keys.ts';
import { SvcError } from '../../../src/errors.ts';

const SECRET = 'sk-0123456789-secret';
const OWNER: KeyOwner = {
  key: 'env:KEY',
  base_url: 'https://api.example.test/v1',
  adapter: 'openai-compatible',
  options: {},
};
let folder = '';
const file = () => join(folder, 'openai.json');

test.before.each(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-stored-'));
});
test.after.each(() => rmSync(folder, { recursive: true, force: true }));

const absent = () =>
  Promise.reject(new SvcError('keychain_unavailable', undefined, { cause: new Error('no bus') }));
const NO_KEYCHAIN: Keychain = { write: absent, read: absent, remove: absent };

function fakeKeychain(): Keychain & { entries: Map<string, string>; reads: number } {
  const entries = new Map<string, string>();
  const fake = {
    entries,
    reads: 0,
    write: async (account: string, key: string) => void entries.set(account, key),
    read: async (account: string) => {
      fake.reads += 1;
      return entries.get(account) ?? null;
    },
    remove: async (account: string) => void entries.delete(account),
  };
  return fake;
}

async function refused(work: Promise<unknown>, code = 'provider_unauthorised'): Promise<string> {
  const error = await work.then(
    () => assert.unreachable('it was not refused'),
    (thrown: unknown) => thrown,
  );
  assert.instance(error, SvcError);
  assert.is((error as SvcError).code, code);
  assert.not.match(JSON.stringify(error) + String((error as Error).stack), 'secret');
  return (error as SvcError).message;
}

test('a folder that cannot be searched is an error, not a provider without a key', async () => {
  const loop = join(folder, 'loop');
  symlinkSync(loop, loop);
  const keys = new StoredKeys(loop, NO_KEYCHAIN);
  assert.match(
    await refused(keys.read('openai', OWNER)),
    /cannot be read: it is a link that leads to itself \(ELOOP\)/,
  );
});

test('without a keychain, a private file has the key', async () => {
  const keys = new StoredKeys(folder, NO_KEYCHAIN);
  assert.is(await keys.read('openai', OWNER), null);
  assert.is(keys.place('openai'), null);
  assert.is(await keys.store('openai', OWNER, SECRET), 'file');
  assert.is(statSync(file()).mode & 0o777, 0o600);
  assert.is(await new StoredKeys(folder, NO_KEYCHAIN).read('openai', OWNER), SECRET);
  assert.is(keys.place('openai'), 'file');
});

test('the keychain has the key, and the file has none', async () => {
  const keychain = fakeKeychain();
  const keys = new StoredKeys(folder, keychain);
  assert.is(await keys.store('openai', OWNER, SECRET), 'keychain');
  assert.not.match(readFileSync(file(), 'utf8'), SECRET);
  assert.equal([...keychain.entries.values()], [SECRET]);
  const daemon = new StoredKeys(folder, keychain);
  keychain.reads = 0;
  assert.is(await daemon.read('openai', OWNER), SECRET);
  assert.is(await daemon.read('openai', OWNER), SECRET);
  assert.is(keychain.reads, 1, 'the keychain is asked once for each stored key');
});

test('another process sees a new key at its next request, and the old one is gone', async () => {
  const keychain = fakeKeychain();
  const daemon = new StoredKeys(folder, keychain);
  const command = new StoredKeys(folder, keychain);
  await command.store('openai', OWNER, SECRET);
  assert.is(await daemon.read('openai', OWNER), SECRET);
  await command.store('openai', OWNER, 'sk-another');
  assert.is(await daemon.read('openai', OWNER), 'sk-another');
  assert.equal([...keychain.entries.values()], ['sk-another']);
  await command.store('openai', OWNER, 'sk-third', 'file');
  assert.is(await daemon.read('openai', OWNER), 'sk-third');
  assert.is(keychain.entries.size, 0);
});

test('a key that was removed is not used again, though its file comes back', async () => {
  const keychain = fakeKeychain();
  const keys = new StoredKeys(folder, keychain);
  await keys.store('openai', OWNER, SECRET);
  assert.is(await keys.read('openai', OWNER), SECRET);
  const kept = readFileSync(file());
  assert.is(await keys.remove('openai'), true);
  assert.is(await keys.read('openai', OWNER), null);
  writeFileSync(file(), kept, { mode: 0o600 });
  assert.match(await refused(keys.read('openai', OWNER)), 'has no key of openai any more');
});

test('no other address gets the key', async () => {
  const keys = new StoredKeys(folder, NO_KEYCHAIN);
  await keys.store('openai', OWNER, SECRET);
  const elsewhere = { ...OWNER, base_url: 'https://evil.example.test/v1' };
  assert.match(await refused(keys.read('openai', elsewhere)), 'svc provider key openai');
  const otherPath = { ...OWNER, base_url: 'https://api.example.test/v2' };
  assert.is(await keys.read('openai', otherPath), SECRET);
  const azure = { ...OWNER, base_url: null, adapter: 'azure', options: { resource: 'mine' } };
  await keys.store('azure', azure, SECRET);
  assert.is(await keys.read('azure', azure), SECRET);
  await refused(keys.read('azure', { ...azure, options: { resource: 'yours' } }));
});

test('a stored key counts before the reference of the configuration', async () => {
  const stored = new StoredKeys(folder, NO_KEYCHAIN);
  const keys = createKeys({ KEY: 'sk-of-the-shell' }, { id: 'openai', keys: stored });
  assert.is(await keys.read(OWNER), 'sk-of-the-shell');
  assert.is(keys.stored(), null);
  await stored.store('openai', OWNER, SECRET);
  assert.is(await keys.read(OWNER), SECRET);
  assert.is(keys.stored(), 'file');
  await keys.forget();
  assert.is(await keys.read(OWNER), 'sk-of-the-shell');
  assert.is(await stored.remove('openai'), false);
});

test('a file that others can read, a damaged one and an empty keychain are refused', async () => {
  const keychain = fakeKeychain();
  const keys = new StoredKeys(folder, keychain);
  await keys.store('openai', OWNER, SECRET);
  keychain.entries.clear();
  assert.match(
    await refused(new StoredKeys(folder, keychain).read('openai', OWNER)),
    'has no key of openai any more',
  );
  assert.match(
    await refused(new StoredKeys(folder, NO_KEYCHAIN).read('openai', OWNER)),
    'does not answer the daemon',
  );
  await keys.store('openai', OWNER, SECRET, 'file');
  chmodSync(file(), 0o644);
  assert.match(await refused(keys.read('openai', OWNER)), 'other users');
  chmodSync(file(), 0o600);
  writeFileSync(file(), '{"key":"sk-secret"}');
  assert.match(await refused(keys.read('openai', OWNER)), 'damaged');
});

test('only the keychain, when it is asked for by name', async () => {
  const keys = new StoredKeys(folder, NO_KEYCHAIN);
  await refused(keys.store('openai', OWNER, SECRET, 'keychain'), 'keychain_unavailable');
  assert.is(await keys.read('openai', OWNER), null, 'nothing was stored');
});

test('a key with line breaks inside is refused before it is stored', async () => {
  const keys = new StoredKeys(folder, NO_KEYCHAIN);
  await refused(keys.store('openai', OWNER, 'sk-secret\nx-header: 1'));
  assert.is(await keys.read('openai', OWNER), null);
});

test.run();
