import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
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
import { loadConfig, type ProviderConfig } from '../../src/config/config.ts';
import { setProvider, unsetProvider } from '../../src/config/file.ts';
import { withLock } from '../../src/config/lock.ts';
import { SvcError } from '../../src/errors.ts';
import { gate } from '../helpers/scripted-provider.ts';
import { waitFor } from '../helpers/wait.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
let home = '';
let file = '';

test.before.each(() => {
  home = mkdtempSync(join(tmpdir(), 'svc-config-file-'));
  file = join(home, 'config.json');
});
test.after.each(() => rmSync(home, { recursive: true, force: true }));

const ollama: ProviderConfig = {
  adapter: 'openai-compatible',
  kind: 'local',
  base_url: 'http://127.0.0.1:11434/v1',
  model: 'llama3.2',
  key_env: null,
  max_runs: null,
};
const openai: ProviderConfig = {
  adapter: 'openai-compatible',
  kind: 'cloud',
  base_url: 'https://api.openai.com/v1',
  model: null,
  key_env: 'OPENAI_API_KEY',
  max_runs: null,
};
const load = () => loadConfig(file, { env: {} }).providers;

test('a provider is added, changed and taken out', async () => {
  await setProvider(file, 'ollama', ollama);
  await setProvider(file, 'openai', openai);
  assert.equal({ ...load() }, { ollama, openai });
  await setProvider(file, 'ollama', { ...ollama, model: null, base_url: 'http://127.0.0.1:1/v1' });
  assert.equal(load().ollama, { ...ollama, model: null, base_url: 'http://127.0.0.1:1/v1' });
  await unsetProvider(file, 'ollama');
  assert.equal({ ...load() }, { openai });
  await unsetProvider(file, 'ollama');
  assert.equal({ ...load() }, { openai });
});

test('what the person wrote stays as it is, byte for byte', async () => {
  const mine =
    '\uFEFF{\r\n\t// my settings\r\n\t"http":   "127.0.0.1:1", /* odd */\r\n\t"providers": {\r\n\t\t"a": { "base_url": "http://a/v1" }, // keep\r\n\t},\r\n}\r\n';
  writeFileSync(file, mine);
  await setProvider(file, 'ollama', ollama);
  const edited = readFileSync(file, 'utf8');
  assert.ok(
    edited.startsWith('\uFEFF{\r\n\t// my settings\r\n\t"http":   "127.0.0.1:1", /* odd */\r\n'),
  );
  assert.not.match(edited.replaceAll('\r\n', ''), '\n');
  await unsetProvider(file, 'ollama');
  assert.is(readFileSync(file, 'utf8'), mine);
});

test('a changed provider keeps its comments', async () => {
  writeFileSync(
    file,
    '{\n  "providers": {\n    "ollama": {\n      "base_url": "http://old/v1", // at home\n      "key_env": "KEY" // no longer\n    }\n  }\n}\n',
  );
  await setProvider(file, 'ollama', ollama);
  assert.equal(load().ollama, ollama);
  assert.match(
    readFileSync(file, 'utf8'),
    /"base_url": "http:\/\/127\.0\.0\.1:11434\/v1", \/\/ at home/,
  );
});

test('an edit that changes nothing does not write', async () => {
  await setProvider(file, 'ollama', ollama);
  const before = statSync(file).ino;
  await setProvider(file, 'ollama', ollama);
  await unsetProvider(file, 'other');
  assert.is(statSync(file).ino, before);
});

test('the file is made where there is none, for nobody else to read', async () => {
  file = join(home, 'new', 'folder', 'config.json');
  await setProvider(file, 'ollama', ollama);
  assert.is(statSync(file).mode & 0o777, 0o600);
  assert.is(statSync(join(home, 'new')).mode & 0o777, 0o700);
  assert.is(statSync(join(home, 'new', 'folder')).mode & 0o777, 0o700);
});

test('a file that others could read is for nobody else afterwards', async () => {
  writeFileSync(file, '{}');
  chmodSync(file, 0o644);
  await setProvider(file, 'ollama', ollama);
  assert.is(statSync(file).mode & 0o777, 0o600);
});

test('a file that is not understood is not touched', async () => {
  const broken = [
    '{"http": ',
    '[]',
    '{"providers": []}',
    '{"providers": {"a": 5}}',
    '{"a": 1, "a": 2}',
    Buffer.from([0x7b, 0xff]),
  ];
  for (const text of broken) {
    writeFileSync(file, text);
    for (const edit of [
      () => setProvider(file, 'ollama', ollama),
      () => unsetProvider(file, 'a'),
    ]) {
      const error = await edit().catch((thrown: unknown) => thrown);
      assert.instance(error, SvcError);
      assert.is((error as SvcError).code, 'config_invalid');
      assert.ok((error as SvcError).message.startsWith(`${file}:1:`), (error as SvcError).message);
    }
    assert.equal(readFileSync(file), Buffer.from(text));
  }
});

test('a link stays a link, and the file behind it is edited', async () => {
  mkdirSync(join(home, 'dotfiles'));
  writeFileSync(join(home, 'dotfiles', 'svc.json'), '{\n  // at home\n}\n');
  symlinkSync('svc.json', join(home, 'dotfiles', 'current.json'));
  symlinkSync('dotfiles/current.json', file);
  await setProvider(file, 'ollama', ollama);
  assert.is(readlinkSync(file), 'dotfiles/current.json');
  assert.ok(lstatSync(join(home, 'dotfiles', 'svc.json')).isFile());
  assert.match(readFileSync(join(home, 'dotfiles', 'svc.json'), 'utf8'), /at home[\s\S]*ollama/);
  assert.equal(
    readdirSync(join(home, 'dotfiles')).sort(),
    ['current.json', 'svc.json'],
    'nothing is left beside it',
  );
});

test('a link to a file that is not there makes that file', async () => {
  symlinkSync(join(home, 'later.json'), file);
  await setProvider(file, 'ollama', ollama);
  assert.ok(lstatSync(file).isSymbolicLink());
  assert.equal(load().ollama, ollama);
});

test('a link that leads nowhere, and a folder that cannot be made, are told', async () => {
  symlinkSync('config.json', file);
  await assertRefused(file, 'config_invalid', /is a link that leads nowhere/);
  writeFileSync(join(home, 'taken'), '');
  await assertRefused(
    join(home, 'taken', 'config.json'),
    'home_unusable',
    /cannot be written \((ENOTDIR|EEXIST)\)/,
  );
});

test('edits at one time in one process are all kept', async () => {
  const ids = Array.from({ length: 20 }, (_, index) => `p${index}`);
  await Promise.all(ids.map((id) => setProvider(file, id, ollama)));
  assert.equal(Object.keys(load()).sort(), ids.sort());
});

test('edits at one time by several processes are all kept', async () => {
  writeFileSync(file, '{\n  // mine\n  "http": "127.0.0.1:1"\n}\n');
  const children = ['a', 'b', 'c', 'd'].map((name) =>
    edit(`for (let i = 0; i < 8; i += 1) await setProvider(file, '${name}' + i, config)`),
  );
  assert.equal(await Promise.all(children.map(ended)), [0, 0, 0, 0]);
  assert.is(Object.keys(load()).length, 32);
  assert.match(readFileSync(file, 'utf8'), '// mine');
});

test('a lock that is held is waited for, within a bound', async () => {
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

test('a process that dies while it holds the lock keeps nobody', async () => {
  const holder = edit(
    `await withLock(file + '.lock', async () => { process.stdout.write('held'); await new Promise((resolve) => setTimeout(resolve, 60_000)) })`,
  );
  await new Promise((resolve) => holder.stdout?.once('data', resolve));
  const error = await withLock(`${file}.lock`, () => Promise.resolve(), 20).catch(
    (thrown: unknown) => thrown,
  );
  assert.is((error as SvcError).code, 'busy', 'it is held');
  const waiting = setProvider(file, 'ollama', ollama);
  holder.kill('SIGKILL');
  await waiting;
  assert.equal(load().ollama, ollama);
});

test('what an editor saves while the file is being edited is kept', async () => {
  writeFileSync(file, '{}');
  let saved = 0;
  const config = {
    ...ollama,
    /** Read in the middle of the edit: that is when the editor saves. */
    get model() {
      saved += 1;
      if (saved < 3) writeFileSync(file, `{"http": "127.0.0.1:${saved}"}`);
      return 'm';
    },
  };
  await setProvider(file, 'ollama', config);
  assert.is(loadConfig(file, { env: {} }).http, '127.0.0.1:2');
  assert.is(load().ollama?.model, 'm');
});

test('a file that changes all the time is left alone', async () => {
  let saved = 0;
  const config = {
    ...ollama,
    get model() {
      saved += 1;
      writeFileSync(file, `{"http": "127.0.0.1:${saved}"}`);
      return 'm';
    },
  };
  const error = await setProvider(file, 'ollama', config).catch((thrown: unknown) => thrown);
  assert.is((error as SvcError).code, 'busy');
  assert.equal(Object.keys(load()), []);
  assert.equal(readdirSync(home).sort(), ['config.json', 'config.json.lock']);
});

test('a process that dies in the middle of an edit leaves a whole file, and nothing that stops the next', async () => {
  writeFileSync(file, '{}');
  for (let round = 0; round < 5; round += 1) {
    const child = edit(
      `process.stdout.write('ready'); for (let i = 0; ; i += 1) await setProvider(file, 'p' + (i % 50), { ...config, model: 'm' + i })`,
    );
    await new Promise((resolve) => child.stdout?.once('data', resolve));
    const before = statSync(file).ino;
    await waitFor('it has written', () => statSync(file).ino !== before);
    child.kill('SIGKILL');
    await ended(child);
    load();
  }
  await setProvider(file, 'ollama', ollama);
  assert.equal(load().ollama, ollama);
  assert.equal(readdirSync(home).sort(), ['config.json', 'config.json.lock']);
});

async function assertRefused(path: string, code: string, message: RegExp): Promise<void> {
  const error = await setProvider(path, 'ollama', ollama).catch((thrown: unknown) => thrown);
  assert.instance(error, SvcError);
  assert.is((error as SvcError).code, code);
  assert.match((error as SvcError).message, message);
}

/** A process of its own that edits the file. */
function edit(statements: string): ChildProcess {
  const program = `
    import { setProvider } from './src/config/file.ts';
    import { withLock } from './src/config/lock.ts';
    const file = ${JSON.stringify(file)};
    const config = ${JSON.stringify(ollama)};
    ${statements}`;
  return spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', program], {
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
