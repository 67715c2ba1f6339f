import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';

const RELEASE = join(import.meta.dirname, '..', 'tools', 'release', 'run.ts');

/** A repository whose checks and packages do nothing. */
const test = suite<{ folder: string; git: (...args: string[]) => string }>('release');
test.before.each((context) => {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), 'svc-release-'));
  context.folder = folder;
  const identity = ['-c', 'user.name=A', '-c', 'user.email=a@localhost', '-c', 'core.hooksPath='];
  context.git = (...args) =>
    execFileSync('git', [...identity, ...args], { cwd: folder, encoding: 'utf8' }).trim();
  const scripts = { check: 'true', test: 'false', package: 'mkdir dist; true' };
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ version: '1.2.0', scripts }));
  writeFileSync(join(folder, 'CHANGELOG.md'), '# C\n\n## 1.2.0\n\nNew.\n\n## 1.1.0\n\nOld.\n');
  context.git('init', '--quiet');
  context.git('add', '.');
  context.git('commit', '--quiet', '--message', 'first');
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, force: true }));

const IDENTITY = { GIT_COMMITTER_NAME: 'A', GIT_COMMITTER_EMAIL: 'a@localhost' };
const release = (folder: string, ...args: string[]) =>
  spawnSync(process.execPath, [RELEASE, '--out', 'dist', ...args], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, ...IDENTITY },
  });

test('the steps make the notes and the tag, and the next ones are named', ({ folder, git }) => {
  const { status, stdout, stderr } = release(folder, '--skip-tests');
  assert.is(status, 0, stderr);
  assert.is(readFileSync(join(folder, 'dist', 'NOTES.md'), 'utf8'), 'New.\n');
  assert.is(git('cat-file', '-t', 'v1.2.0'), 'tag');
  assert.match(stdout, `sign.sh ${join(folder, 'dist')}`);
  assert.match(stdout, 'git push origin v1.2.0');
});

test('a failed step ends it in words, and before a tag is made', ({ folder, git }) => {
  const failed = release(folder);
  assert.is(failed.status, 1);
  assert.match(failed.stdout, /types and lint …\n {2}\d+ s\ntests …\n$/);
  assert.match(failed.stderr, 'error: npm run --silent test failed');
  assert.not.match(failed.stderr, 'at ');
  assert.is(git('tag', '--list'), '');
});

test('a changed file and a tag of another commit are refused', ({ folder, git }) => {
  writeFileSync(join(folder, 'CHANGELOG.md'), '# C\n\n## 1.2.0\n\nOther.\n');
  const changed = release(folder, '--skip-tests');
  assert.match(changed.stderr, 'error: Commit these changes first:\nM CHANGELOG.md');
  git('tag', '--annotate', 'v1.2.0', '--message', 'v');
  git('commit', '--quiet', '--all', '--message', 'second');
  assert.match(release(folder, '--skip-tests').stderr, 'v1.2.0 is of another commit');
});

test.run();
