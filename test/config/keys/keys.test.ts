import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createKeys } from '../../../src/config/keys/keys.ts';
import { SvcError } from '../../../src/errors.ts';
import { KEY_FILE_BYTES_MAX } from '../../../src/limits.ts';

const SECRET = 'sk-0123456789-secret';
let folder = '';
let file = '';

test.before.each(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-keys-'));
  file = join(folder, 'key');
});
test.after.each(() => rmSync(folder, { recursive: true, force: true }));

const owner = (key: string | null) => ({
  key,
  base_url: 'https://api.example.test/v1',
  adapter: 'openai-compatible',
  options: {},
});
const read = (key: string | null, env: NodeJS.ProcessEnv = {}) => createKeys(env).read(owner(key));

async function refused(key: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  const error = await read(key, env).then(
    () => assert.unreachable('it was read'),
    (thrown: unknown) => thrown,
  );
  assert.instance(error, SvcError);
  assert.is((error as SvcError).code, 'provider_unauthorised');
  assert.not.ok((error as SvcError).retryable);
  assert.not.match(JSON.stringify(error) + String((error as Error).stack), 'secret');
  return (error as SvcError).message;
}

test('no reference is no key', async () => {
  assert.is(await read(null), null);
});

test('a variable is read for each request', async () => {
  const env: NodeJS.ProcessEnv = { KEY: ` ${SECRET}\n` };
  const keys = createKeys(env);
  assert.is(await keys.read(owner('env:KEY')), SECRET);
  env.KEY = 'other';
  assert.is(await keys.read(owner('env:KEY')), 'other');
  assert.match(await refused('env:NONE'), 'The variable NONE for the key is not set');
  assert.match(await refused('env:KEY', { KEY: `${SECRET}\r\nx: 1` }), 'not valid in a key');
});

test('a private file is read for each request', async () => {
  writeFileSync(file, `${SECRET}\n`, { mode: 0o600 });
  assert.is(await read(`file:${file}`), SECRET);
  writeFileSync(file, 'other', { mode: 0o600 });
  assert.is(await read(`file:${file}`), 'other');
  symlinkSync(file, join(folder, 'link'));
  assert.is(await read(`file:${join(folder, 'link')}`), 'other');
});

test('a file that others can read is refused, with what to do', async () => {
  for (const mode of [0o644, 0o640, 0o604, 0o620, 0o602]) {
    writeFileSync(file, SECRET);
    chmodSync(file, mode);
    assert.is(
      await refused(`file:${file}`),
      `The key file ${file} can be used by other users; only its owner may read it (chmod 600).`,
      mode.toString(8),
    );
  }
});

test('what is no key file is named', async () => {
  assert.match(
    await refused(`file:${file}`),
    `${file} cannot be read: there is no such file (ENOENT).`,
  );
  mkdirSync(file, { mode: 0o700 });
  assert.match(await refused(`file:${file}`), 'is not a file');
  rmSync(file, { recursive: true });
  execFileSync('mkfifo', ['-m', '600', file]);
  assert.match(await refused(`file:${file}`), 'is not a file');
  rmSync(file);
  writeFileSync(file, ' \n', { mode: 0o600 });
  assert.match(await refused(`file:${file}`), 'is empty');
  writeFileSync(file, 'secret'.repeat(KEY_FILE_BYTES_MAX), { mode: 0o600 });
  assert.match(await refused(`file:${file}`), 'is larger than a key can be');
  writeFileSync(file, `${SECRET}\nsecond line`, { mode: 0o600 });
  assert.match(await refused(`file:${file}`), 'not valid in a key');
});

test.run();
