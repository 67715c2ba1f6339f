import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
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
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { loadConfig } from '../../src/config/config.ts';
import { withLock } from '../../src/config/lock.ts';
import {
  providersFile,
  removeProvider,
  saveProvider,
} from '../../src/config/providers/providers-file.ts';
import { SvcError } from '../../src/errors.ts';
import { providerConfig } from '../helpers/provider-config.ts';
import { gate } from '../helpers/scripted-provider.ts';
import { waitFor } from '../helpers/wait.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
let home = '';
let file = '';
let added = '';

test.before.each(() => {
  home = mkdtempSync(join(tmpdir(), 'svc-providers-file-'));
  file = join(home, 'config.json');
  added = providersFile(file);
});
test.after.each(() => rmSync(home, { recursive: true, force: true }));

const ollama = providerConfig({ base_url: 'http://127.0.0.1:11434/v1', model: 'llama3.2' });
const openai = providerConfig({
  kind: 'cloud',
  base_url: 'https://api.openai.com/v1',
  model: null,
  key: 'env:OPENAI_API_KEY',
});
const load = () => loadConfig(file, { env: {} }).providers;

test('a provider is added, changed and removed', async () => {
  await saveProvider(file, 'ollama', ollama);
  await saveProvider(file, 'openai', openai);
  assert.equal({ ...load() }, { ollama, openai });
  await saveProvider(file, 'ollama', { ...ollama, model: null, base_url: 'http://127.0.0.1:1/v1' });
  assert.equal(load().ollama, { ...ollama, model: null, base_url: 'http://127.0.0.1:1/v1' });
  await removeProvider(file, 'ollama');
  assert.equal({ ...load() }, { openai });
  await removeProvider(file, 'ollama');
  assert.equal({ ...load() }, { openai });
});

test('the configuration file is never written', async () => {
  const mine = '\uFEFF{\r\n\t// my settings\r\n\t"http":   "127.0.0.1:1", /* odd */\r\n}';
  mkdirSync(join(home, 'dotfiles'));
  writeFileSync(join(home, 'dotfiles', 'svc.json'), mine, { mode: 0o644 });
  symlinkSync('dotfiles/svc.json', file);
  await saveProvider(file, 'ollama', ollama);
  await removeProvider(file, 'ollama');
  await saveProvider(file, 'openai', openai);
  assert.is(readFileSync(file, 'utf8'), mine);
  assert.ok(lstatSync(file).isSymbolicLink());
  assert.is(statSync(join(home, 'dotfiles', 'svc.json')).mode & 0o777, 0o644);
  assert.equal({ ...load() }, { openai });
});

test('providers of both files are there, each with where it came from', async () => {
  writeFileSync(file, JSON.stringify({ providers: { openai } }));
  await saveProvider(file, 'ollama', ollama);
  const { providers, sources } = loadConfig(file, { env: {} });
  assert.equal({ ...providers }, { ollama, openai });
  assert.is(sources['providers.ollama'], 'providers.json');
  assert.is(sources['providers.openai'], 'file');
});

test('a name in both files has the settings of the configuration file', async () => {
  await saveProvider(file, 'ollama', ollama);
  writeFileSync(file, JSON.stringify({ providers: { ollama: openai } }));
  const { providers, sources } = loadConfig(file, { env: {} });
  assert.equal(providers.ollama, openai);
  assert.is(sources['providers.ollama'], 'file');
});

test('a provider of the configuration file is not added again', async () => {
  writeFileSync(file, '{\n  "providers": {\n    "openai": { "base_url": "https://a/v1" }\n  }\n}');
  await assertRefused(
    saveProvider(file, 'openai', openai),
    'provider_exists',
    `A provider openai is configured already, at ${file}:3:5.`,
  );
  assert.not.ok(existsSync(added));
});

test('a provider of the configuration file is removed there, by its user', async () => {
  const mine = '{\n  "providers": {\n    "openai": { "base_url": "https://a/v1" }\n  }\n}';
  writeFileSync(file, mine);
  const error = await assertRefused(
    removeProvider(file, 'openai'),
    'invalid_request',
    `The provider openai is set in your configuration, at ${file}:3:5.`,
  );
  assert.match(error.hint, 'Remove it there, then run: svc restart');
  assert.is(readFileSync(file, 'utf8'), mine);
});

test('a provider that is in both files stays in both', async () => {
  await saveProvider(file, 'ollama', ollama);
  const before = readFileSync(added, 'utf8');
  writeFileSync(file, JSON.stringify({ providers: { ollama } }));
  await assertRefused(removeProvider(file, 'ollama'), 'invalid_request', 'is set in your');
  assert.is(readFileSync(added, 'utf8'), before);
});

test('a name of the prototype is a name like others', async () => {
  await saveProvider(file, 'constructor', ollama);
  assert.equal(load().constructor, ollama);
  await removeProvider(file, 'constructor');
  assert.equal(Object.keys(load()), []);
});

test('a mistake in the file is named with its place', async () => {
  writeFileSync(added, '{\n  "a": { "base_url": "ftp://a" }\n}');
  assert.throws(load, `${added}:2:10: provider "a": base_url must be`);
});

test('a change that changes nothing does not write', async () => {
  await saveProvider(file, 'ollama', ollama);
  const before = statSync(added).ino;
  await saveProvider(file, 'ollama', ollama);
  await removeProvider(file, 'other');
  assert.is(statSync(added).ino, before);
});

test('an absent file is made, private to its owner', async () => {
  file = join(home, 'new', 'folder', 'config.json');
  await saveProvider(file, 'ollama', ollama);
  assert.is(statSync(providersFile(file)).mode & 0o777, 0o600);
  assert.is(statSync(join(home, 'new')).mode & 0o777, 0o700);
  assert.is(statSync(join(home, 'new', 'folder')).mode & 0o777, 0o700);
});

test('a file that others could read is private after the next change', async () => {
  writeFileSync(added, '{}');
  chmodSync(added, 0o644);
  await saveProvider(file, 'ollama', ollama);
  assert.is(statSync(added).mode & 0o777, 0o600);
});

test('a file that is not understood is not changed, in either place', async () => {
  const broken = ['{"a": ', '[]', '{"a": 1, "a": 2}', Buffer.from([0x7b, 0xff])];
  for (const place of [file, added]) {
    rmSync(added, { force: true });
    for (const text of broken) {
      writeFileSync(place, text);
      for (const change of [
        () => saveProvider(file, 'ollama', ollama),
        () => removeProvider(file, 'a'),
      ])
        await assertRefused(change(), 'config_invalid', `${place}:1:`);
      assert.equal(readFileSync(place), Buffer.from(text));
    }
  }
});

test('a folder that cannot be made is named', async () => {
  writeFileSync(join(home, 'taken'), '');
  await assertRefused(
    saveProvider(join(home, 'taken', 'config.json'), 'ollama', ollama),
    'home_unusable',
    /cannot be written: .* \((ENOTDIR|EEXIST)\)/,
  );
});

test('changes at the same time in one process are all kept', async () => {
  const ids = Array.from({ length: 8 }, (_, index) => `p${index}`);
  await Promise.all(ids.map((id) => saveProvider(file, id, ollama)));
  assert.equal(Object.keys(load()).sort(), ids.sort());
});

test('changes at the same time by several processes are all kept', async () => {
  const children = ['a', 'b', 'c', 'd'].map((name) =>
    edit(`for (let i = 0; i < 8; i += 1) await saveProvider(file, '${name}' + i, config)`),
  );
  assert.equal(await Promise.all(children.map(ended)), [0, 0, 0, 0]);
  assert.is(Object.keys(load()).length, 32);
});

test('a second process waits for the lock, up to a bound', async () => {
  const lock = `${file}.lock`;
  const held = gate();
  const holding = withLock(lock, () => held.opened);
  const error = await withLock(lock, () => Promise.resolve('held twice'), 20).catch(
    (thrown: unknown) => thrown,
  );
  assert.is((error as SvcError).code, 'busy');
  const next = withLock(lock, () => Promise.resolve('held'));
  held.open();
  await holding;
  assert.is(await next, 'held');
});

test('the death of a process releases its lock', async () => {
  const holder = edit(
    `await withLock(file + '.lock', async () => { process.stdout.write('held'); await new Promise((resolve) => setTimeout(resolve, 60_000)) })`,
  );
  await new Promise((resolve) => holder.stdout?.once('data', resolve));
  const error = await withLock(`${file}.lock`, () => Promise.resolve(), 20).catch(
    (thrown: unknown) => thrown,
  );
  assert.is((error as SvcError).code, 'busy', 'it is held');
  const waiting = saveProvider(file, 'ollama', ollama);
  holder.kill('SIGKILL');
  await waiting;
  assert.equal(load().ollama, ollama);
});

test('a process that dies in the middle of a change leaves a whole file, and does not stop the next', async () => {
  writeFileSync(added, '{}');
  for (let round = 0; round < 5; round += 1) {
    const child = edit(
      `process.stdout.write('ready'); for (let i = 0; ; i += 1) await saveProvider(file, 'p' + (i % 50), { ...config, model: 'm' + i })`,
    );
    await new Promise((resolve) => child.stdout?.once('data', resolve));
    const before = statSync(added).ino;
    await waitFor('it has written', () => statSync(added).ino !== before);
    child.kill('SIGKILL');
    await ended(child);
    load();
  }
  await saveProvider(file, 'ollama', ollama);
  assert.equal(load().ollama, ollama);
  assert.equal(readdirSync(home).sort(), ['providers.json', 'providers.json.lock']);
});

async function assertRefused(
  change: Promise<void>,
  code: string,
  message: string | RegExp,
): Promise<SvcError> {
  const error = await change.then(
    () => assert.unreachable('it was accepted'),
    (thrown: unknown) => thrown as SvcError,
  );
  assert.instance(error, SvcError);
  assert.is((error as SvcError).code, code);
  assert.match((error as SvcError).message, message);
  return error as SvcError;
}

/** Runs statements in another process. */
function edit(statements: string): ChildProcess {
  const program = `
    import { saveProvider } from './src/config/providers/providers-file.ts';
    import { withLock } from './src/config/lock.ts';
    const file = ${JSON.stringify(file)};
    const config = ${JSON.stringify(ollama)};
    ${statements}`;
  return spawn(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

function ended(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) =>
    child.exitCode !== null || child.signalCode !== null
      ? resolve(child.exitCode)
      : child.once('exit', resolve),
  );
}

test.run();
