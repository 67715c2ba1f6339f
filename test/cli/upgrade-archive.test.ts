import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { withArchive } from '../../src/cli/upkeep/upgrade/archive.ts';
import { asSvcError } from '../../src/errors.ts';
import { SYSTEM } from '../../src/home/platform.ts';

/** The archive of an upgrade: what is refused, what is unpacked, and what is left behind. */

const test = suite<{ folder: string; temporary: string; before: NodeJS.ProcessEnv }>('archive');
test.before.each((context) => {
  context.before = { TMPDIR: process.env.TMPDIR, PATH: process.env.PATH };
  context.folder = mkdtempSync(join(tmpdir(), 'svc-archive-'));
  context.temporary = join(context.folder, 'temporary');
  mkdirSync(context.temporary);
  process.env.TMPDIR = context.temporary;
});
test.after.each(({ folder, before }) => {
  for (const [name, value] of Object.entries(before))
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  rmSync(folder, { recursive: true, force: true });
});

/** An archive of files; a file of the program may be run. */
function makeArchive(folder: string, files: Readonly<Record<string, string>>): string {
  const source = mkdtempSync(join(folder, 'source-'));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(source, 'svc', name, '..'), { recursive: true });
    writeFileSync(join(source, 'svc', name), text, { mode: 0o755 });
  }
  const file = join(source, 'svc.tar.gz');
  execFileSync('tar', ['-czf', file, '-C', source, 'svc']);
  return file;
}

const said = (version: string) =>
  JSON.stringify({ version, platform: SYSTEM, log_format: 1, log_kinds: {}, build: 'x' });
const whole = (version: string) => ({
  'bin/svc': `#!/bin/sh\necho '${said(version)}'\n`,
  'lib/svc/package.json': JSON.stringify({ version }),
});

/** Its message, with the digest of the file given. */
async function refusal(file: string): Promise<string> {
  const digest = createHash('sha256').update(readFileSync(file)).digest('hex');
  const error = asSvcError(
    await withArchive(file, digest, async () => assert.unreachable()).catch((thrown) => thrown),
  );
  assert.equal([error.code, error.spec.exit], ['upgrade_refused', 6], error.message);
  return error.message;
}

test('what is no whole archive of svc is called so, whichever part is missing', async ({
  folder,
  temporary,
}) => {
  const good = makeArchive(folder, whole('9.0.0'));
  const bytes = readFileSync(good);
  const { 'bin/svc': program, 'lib/svc/package.json': text } = whole('9.0.0');
  const files: Record<string, Buffer> = {
    garbage: Buffer.from('garbage\n'),
    empty: Buffer.alloc(0),
    cut: bytes.subarray(0, bytes.length - 40),
    head: bytes.subarray(0, 12),
    others: readFileSync(makeArchive(folder, { 'README.md': 'x' })),
    'no-package': readFileSync(makeArchive(folder, { 'bin/svc': program })),
    'no-program': readFileSync(makeArchive(folder, { 'lib/svc/package.json': text })),
  };
  const why: Record<string, string> = {
    garbage: 'tar says: gzip: stdin: not in gzip format. Nothing was changed.',
    cut: 'tar says: ',
    head: 'tar says: ',
    empty: '',
    others: 'it has no bin/svc and lib/svc/package.json',
    'no-package': 'it has no bin/svc and lib/svc/package.json',
    'no-program': 'it has no bin/svc and lib/svc/package.json',
  };
  for (const [name, content] of Object.entries(files)) {
    const file = join(folder, `${name}.tar.gz`);
    writeFileSync(file, content);
    assert.match(
      await refusal(file),
      `${file} is not a complete archive of svc: ${why[name]}`,
      name,
    );
  }
  assert.equal(readdirSync(temporary), []);
});

test('a program of an archive that fails, or says something else, is refused in words', async ({
  folder,
}) => {
  const own = (body: string) =>
    refusal(makeArchive(folder, { ...whole('9.0.0'), 'bin/svc': `#!/bin/sh\n${body}\n` }));
  assert.match(await own('echo "no such libc" >&2; exit 3'), 'svc says: no such libc.');
  assert.match(await own('exit 3'), 'svc ended with the exit code 3.');
  assert.match(await own('kill -9 $$'), 'svc was ended by SIGKILL.');
  for (const words of ['hello', 'null', ''])
    assert.match(await own(`echo '${words}'`), 'is not svc: it does not say its version.');
  assert.match(await own(`echo '${said('9.1.0')}'`), `says 9.1.0 for ${SYSTEM}, and its package`);
  const torn = { ...whole('9.0.0'), 'lib/svc/package.json': '{"version":' };
  assert.match(await refusal(makeArchive(folder, torn)), 'does not say its version');
});

test('what is no file, cannot be read, or is not unpacked here is said', async ({ folder }) => {
  const good = makeArchive(folder, whole('9.0.0'));
  execFileSync('mkfifo', [join(folder, 'pipe')]);
  const tried = async (file: string, sha256?: string) =>
    asSvcError(await withArchive(file, sha256, async () => {}).catch((thrown) => thrown));
  for (const file of [join(folder, 'pipe'), '/dev/zero'])
    assert.is((await tried(file, '0')).message, `${file} is not a file.`);
  const gone = await tried(join(good, 'x'), '0');
  assert.is(
    gone.message,
    `${join(good, 'x')}: a part of its path is a file, not a folder (ENOTDIR).`,
  );
  assert.is(
    gone.hint,
    'Name the archive of a version, or the folder that has it and its SHA256SUMS.',
  );
  assert.is(
    (await tried(good)).message,
    `There is no SHA256SUMS beside ${good}, so nothing says that it is whole.`,
  );
  assert.is((await tried(folder)).message, `The folder ${folder} has no SHA256SUMS.`);
  const beside = join(folder, 'beside');
  mkdirSync(join(beside, 'SHA256SUMS'), { recursive: true });
  assert.match(
    (await tried(beside)).message,
    'SHA256SUMS cannot be read: it is a folder (EISDIR).',
  );
  rmSync(join(beside, 'SHA256SUMS'), { recursive: true });
  writeFileSync(join(beside, 'SHA256SUMS'), `${'0'.repeat(64)}  a-${SYSTEM}.tar.gz\n`);
  assert.match((await tried(beside)).message, /SHA256SUMS names .*, and there is no such file\.$/);
  writeFileSync(join(good, '..', 'SHA256SUMS'), `${'0'.repeat(64)}  other.tar.gz\n`);
  assert.match((await tried(good)).message, `SHA256SUMS does not name ${good}, so nothing says`);
  process.env.PATH = folder;
  assert.match(await refusal(good), 'tar is not installed, and svc unpacks an archive with it.');
  writeFileSync(
    join(folder, 'tar'),
    '#!/bin/sh\necho "tar: x: No space left on device" >&2; exit 2\n',
    { mode: 0o755 },
  );
  assert.match(await refusal(good), /cannot be unpacked in .*No space left on device\.$/);
});

test('what is unpacked is the copy whose digest was taken, and no one else can reach it', async ({
  folder,
  before,
}) => {
  const good = makeArchive(folder, whole('9.0.0'));
  const evil = makeArchive(folder, whole('6.6.6'));
  const digest = createHash('sha256').update(readFileSync(good)).digest('hex');
  // The archive is replaced between the digest and the end of unpacking.
  const tar = execFileSync('sh', ['-c', 'command -v tar'], { encoding: 'utf8' }).trim();
  const log = join(folder, 'log');
  const body = `cp ${evil} ${good}; stat -c %a "$(dirname "$2")" > ${log}; exec ${tar} "$@"`;
  writeFileSync(join(folder, 'tar'), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  process.env.PATH = `${folder}${delimiter}${before.PATH}`;
  const version = await withArchive(good, digest, async (candidate) => candidate.version);
  assert.is(version, '9.0.0');
  assert.is(readFileSync(log, 'utf8'), '700\n');
});

test('only folders of this user that a killed command left are removed', async ({
  folder,
  temporary,
}) => {
  const { pid } = spawnSync('true');
  const own = (name: string) => join(temporary, `svc-upgrade-${pid}-${name}`);
  mkdirSync(join(own('ours'), 'svc'), { recursive: true, mode: 0o700 });
  mkdirSync(own('open'), { mode: 0o755 });
  writeFileSync(own('file'), '');
  const kept = join(folder, 'kept');
  mkdirSync(kept, { mode: 0o700 });
  writeFileSync(join(kept, 'x'), '');
  symlinkSync(kept, own('link'));
  const alive = join(temporary, `svc-upgrade-${process.pid}-alive`);
  mkdirSync(alive, { mode: 0o700 });
  const stay = [own('open'), own('file'), own('link'), alive, join(kept, 'x')];
  if (process.getuid?.() === 0) {
    mkdirSync(own('foreign'), { mode: 0o700 });
    chownSync(own('foreign'), 12_345, 12_345);
    stay.push(own('foreign'));
  }
  const file = makeArchive(folder, whole('9.0.0'));
  const digest = createHash('sha256').update(readFileSync(file)).digest('hex');
  await withArchive(file, digest, async () => {});
  assert.not.ok(existsSync(own('ours')));
  assert.equal(
    stay.filter((path) => !existsSync(path)),
    [],
  );
  assert.is(readdirSync(temporary).length, stay.length - 1, 'its own folders are gone');
});

test.run();
