import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ownHome } from '../../src/daemon/index.ts';
import type { SvcError } from '../../src/errors.ts';
import { prepareHome, readSecret } from '../../src/home/home.ts';
import { findPaths } from '../../src/home/paths.ts';

const test = suite<{ folder: string }>('the home of a daemon');

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-home-'));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, force: true }));

const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);
const failureOf = (work: Promise<unknown>) =>
  work.then(() => null).catch((error: SvcError) => error);
const pathsOf = (home: string) => findPaths({ SVC_HOME: home });

test('first starts at the same time agree on the token, and only its owner can read it', async ({
  folder,
}) => {
  const file = join(folder, 'token');
  const tokens = await Promise.all(Array.from({ length: 20 }, () => readSecret(file)));
  assert.is(new Set(tokens).size, 1);
  assert.is(readFileSync(file, 'utf8').trim(), tokens[0]);
  assert.is(mode(file), '600');
  assert.equal(readdirSync(folder), ['token']);
  assert.is(await readSecret(file), tokens[0]);
});

test('a truncated token is replaced', async ({ folder }) => {
  const file = join(folder, 'token');
  writeFileSync(file, 'short');
  const token = await readSecret(file);
  assert.ok(token.length >= 32);
  assert.is(await readSecret(file), token);
});

test('a token with a damaged byte is replaced by a token that clients can send', async ({
  folder,
}) => {
  const file = join(folder, 'token');
  for (const byte of [0x00, 0x20, 0xaa]) {
    const bytes = Buffer.from(await readSecret(file));
    bytes[11] = byte;
    writeFileSync(file, bytes);
    const token = await readSecret(file);
    assert.match(token, /^[\x21-\x7e]{32,}$/);
    assert.is(readFileSync(file, 'utf8').trim(), token);
  }
});

test('the error for a token file that cannot be made names the file', async ({ folder }) => {
  const file = join(folder, 'token');
  mkdirSync(file);
  const failure = await failureOf(readSecret(file));
  assert.is(failure?.code, 'home_unusable');
  assert.match(failure?.message ?? '', /token/);
  assert.equal(readdirSync(folder), ['token']);
});

test('only the owner can read what the daemon makes, for every umask', async ({ folder }) => {
  const before = process.umask(0);
  try {
    const paths = pathsOf(join(folder, 'deep', 'home'));
    await prepareHome(paths, true);
    await readSecret(paths.token);
    for (const made of [
      join(folder, 'deep'),
      paths.home,
      paths.data,
      paths.logs,
      paths.models,
      paths.cache,
    ])
      assert.is(mode(made), '700', made);
    assert.is(mode(paths.token), '600');
  } finally {
    process.umask(before);
  }
});

test('a home behind a symbolic link works; a broken link or a home that others can read is refused', async ({
  folder,
}) => {
  const real = join(folder, 'real');
  mkdirSync(real, { mode: 0o700 });
  symlinkSync(real, join(folder, 'link'));
  await prepareHome(pathsOf(join(folder, 'link')), true);
  assert.is(mode(join(real, 'data')), '700');
  symlinkSync(join(folder, 'nowhere'), join(folder, 'dangling'));
  assert.is(
    (await failureOf(prepareHome(pathsOf(join(folder, 'dangling')), true)))?.code,
    'home_unusable',
  );
  chmodSync(real, 0o755);
  assert.is(
    (await failureOf(prepareHome(pathsOf(join(folder, 'link')), true)))?.code,
    'home_unusable',
  );
});

test('the error for a file in the place of a folder names it', async ({ folder }) => {
  chmodSync(folder, 0o700);
  writeFileSync(join(folder, 'logs'), 'x');
  const failure = await failureOf(prepareHome(pathsOf(folder), true));
  assert.is(failure?.code, 'home_unusable');
  assert.match(failure?.message ?? '', /logs/);
});

test('a home whose lock cannot be taken is unusable, and the reason is named', async ({
  folder,
}) => {
  const paths = pathsOf(folder);
  mkdirSync(paths.lock, { recursive: true });
  const error = await failureOf(ownHome(paths, 0));
  assert.is(error?.code, 'home_unusable');
  assert.match(error?.message ?? '', `The lock ${paths.lock} cannot be taken: it is a folder.`);
});

test('a name that is not UTF-8 is refused, since Node reads another one', () => {
  const bytes = Buffer.from([0x2f, 0x73, 0xff]).toString();
  assert.throws(
    () => pathsOf(bytes),
    (error: SvcError) =>
      error.code === 'home_unusable' &&
      error.message === 'The folder "/s\ufffd" has bytes in its name that are not UTF-8.',
  );
});

test.run();
