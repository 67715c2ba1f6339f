import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { platform } from '../../src/home/platform.ts';
import {
  folderOf,
  ownerOf,
  readRuntimeFile,
  removeRuntimeFile,
  writeRuntimeFile,
} from '../../src/home/runtime-file.ts';
import { waitFor } from '../helpers/wait.ts';
import { runtimeFile } from './fake-daemon.ts';
import { startSleeper } from './sleeper.ts';

const test = suite<{ folder: string; path: string }>('the runtime file');

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-runtime-'));
  context.path = join(context.folder, 'state', 'runtime.json');
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, force: true }));

test('it is written whole, for its owner only, and read as it was', async ({ path }) => {
  await writeRuntimeFile(path, runtimeFile);
  assert.is(statSync(path).mode & 0o777, 0o600);
  assert.equal(readRuntimeFile(path), { kind: 'present', file: runtimeFile });
  writeFileSync(path, 'open to all', { mode: 0o644 });
  await Promise.all(
    [writeRuntimeFile(path, runtimeFile), writeRuntimeFile(path, runtimeFile)].map((written) =>
      written.catch(() => {}),
    ),
  );
  assert.is(statSync(path).mode & 0o777, 0o600);
  assert.equal(JSON.parse(readFileSync(path, 'utf8')), runtimeFile);
  assert.equal(readdirSync(join(path, '..')), ['runtime.json']);
});

test('it is of the folder in which it was written, also by another path or name, and not of a copy', async ({
  path,
  folder,
}) => {
  mkdirSync(join(path, '..'));
  const file = { ...runtimeFile, folder: folderOf(path) };
  await writeRuntimeFile(path, file);
  assert.is(file.folder.path, realpathSync(join(path, '..')));
  const present = { kind: 'present', file };
  assert.equal(readRuntimeFile(path), present);
  symlinkSync(join(path, '..'), join(folder, 'link'));
  assert.equal(readRuntimeFile(join(folder, 'link', 'runtime.json')), present);
  const copy = join(folder, 'copy', 'runtime.json');
  cpSync(join(path, '..'), join(copy, '..'), { recursive: true });
  assert.equal(readRuntimeFile(copy), { kind: 'missing' });
  renameSync(join(path, '..'), join(folder, 'moved'));
  assert.equal(readRuntimeFile(join(folder, 'moved', 'runtime.json')), present);
  assert.equal(readRuntimeFile(copy), { kind: 'missing' });
  // A daemon of an older version did not say it, and a newer program has to find it.
  writeFileSync(copy, JSON.stringify(runtimeFile));
  assert.equal(readRuntimeFile(copy), { kind: 'present', file: runtimeFile });
});

test('a missing, cut, foreign or absurd file is distinguished, and does not throw', ({
  path,
  folder,
}) => {
  assert.equal(readRuntimeFile(path), { kind: 'missing' });
  assert.is(readRuntimeFile(folder).kind, 'corrupt');
  mkdirSync(join(path, '..'));
  const whole = JSON.stringify(runtimeFile);
  const wrong = (change: object) => JSON.stringify({ ...runtimeFile, ...change });
  for (const text of [
    '',
    whole.slice(0, -1),
    'null',
    '[]',
    '"x"',
    '1',
    '{}',
    wrong({ pid: 0 }),
    wrong({ pid: -1 }),
    wrong({ pid: 1.5 }),
    wrong({ pid: '1' }),
    wrong({ process_start: 1 }),
    wrong({ addresses: null }),
    wrong({ addresses: { http: 1 } }),
    wrong({ folder: 1 }),
    wrong({ folder: { path: '/', device: 1, inode: '2' } }),
    wrong({ version: null }),
    wrong({ started_at: 1 }),
  ]) {
    writeFileSync(path, text);
    assert.is(readRuntimeFile(path).kind, 'corrupt', text);
  }
});

test('it is removed only by the boot that wrote it', async ({ path }) => {
  await writeRuntimeFile(path, runtimeFile);
  await removeRuntimeFile(path, 'another');
  assert.is(readRuntimeFile(path).kind, 'present');
  await removeRuntimeFile(path, runtimeFile.boot_id);
  assert.is(readRuntimeFile(path).kind, 'missing');
  await removeRuntimeFile(path, runtimeFile.boot_id);
});

test('a file that cannot be read is left, and the daemon says so', async ({ path }) => {
  mkdirSync(path, { recursive: true });
  const error = await removeRuntimeFile(path, runtimeFile.boot_id).catch((thrown) => thrown);
  assert.is(error.code, 'home_unusable');
  assert.match(error.message, /its runtime file .* cannot be read: it is a folder \(EISDIR\)/);
  assert.ok(existsSync(path));
});

test('a process is ours only with its start time; one that has ended is gone', async () => {
  const { pid, process_start, end } = await startSleeper();
  if (process.platform === 'linux') assert.type(process_start, 'string');
  assert.is(platform.processStart(pid), process_start);
  if (process_start !== null) {
    assert.is(ownerOf({ pid, process_start }), 'ours');
    assert.is(ownerOf({ pid, process_start: `${process_start}0` }), 'other');
  }
  assert.is(ownerOf({ pid, process_start: null }), 'unproven');
  await end();
  assert.is(ownerOf({ pid, process_start }), 'gone');
});

test('a process that has ended and was not collected by its parent is gone', async () => {
  if (process.platform !== 'linux') return;
  // The shell starts a child, prints its pid, and becomes a program that never reaps it.
  const parent = spawn('sh', ['-c', 'cat <&3 & echo $!; exec sleep 1000 3<&-'], {
    stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
  });
  try {
    const [line] = await once(parent.stdout as Readable, 'data');
    const pid = Number(String(line).trim());
    await waitFor('the shell is another program', () =>
      readFileSync(`/proc/${parent.pid}/cmdline`, 'latin1').startsWith('sleep'),
    );
    (parent.stdio[3] as Writable).end();
    await waitFor('it is a zombie', () =>
      readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') Z '),
    );
    assert.is(ownerOf({ pid, process_start: 'x' }), 'gone');
  } finally {
    parent.kill('SIGKILL');
    await once(parent, 'exit');
  }
});

test.run();
