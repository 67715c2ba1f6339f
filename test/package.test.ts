import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { suite, test } from 'uvu';
import * as assert from 'uvu/assert';
import { parse } from 'yaml';
import { formula, winget } from '../tools/package/manifests.ts';
import { isNeedless } from '../tools/package/needless.ts';
import { PLATFORMS } from '../tools/package/platforms.ts';
import { setModes } from '../tools/package/stage.ts';
import { makeSystemPackages, systemUnit, userUnit } from '../tools/package/system.ts';
import { notesOf } from '../tools/release/notes.ts';

const FILES = join(import.meta.dirname, '..', 'tools', 'package', 'files');
const { devDependencies } = JSON.parse(
  readFileSync(join(FILES, '..', '..', '..', 'package.json'), 'utf8'),
);

test('an archive has the Node.js that the checkout runs', () => {
  for (const { node, cpu } of Object.values(PLATFORMS))
    assert.is(node.name, `node-linux-${cpu}@${devDependencies.node}`);
});

test('what a program reads stays in the archive, and what it never reads does not', () => {
  const platform = PLATFORMS['linux-x64'];
  assert.ok(platform);
  const needed = [
    'pino/pino.js',
    'pino/LICENSE',
    'sleep-promise/LICENSE.md',
    '@grpc/proto-loader/build/src/index.js',
    '@kwsites/file-exists/dist/test/index.js',
    'better-sqlite3/prebuilds/linux-x64.node',
    '@node-llama-cpp/linux-x64/bins/linux-x64/llama-addon.node',
    '@koromix/koffi-linux-x64/linux_x64/koffi.node',
    'koffi/src/koffi/src/static.js',
    'koffi/LICENSE.txt',
  ];
  const needless = [
    'pino/test/basic.test.js',
    'pino/pino.d.ts',
    'pino/README.md',
    'pino/index.html',
    'a/node_modules/@b/c/docs/x.js',
    'rc/.npmignore',
    '.bin/which',
    'typescript/lib/tsc.js',
    'better-sqlite3/prebuilds/linux-arm64.node',
    'better-sqlite3/deps/sqlite3.c',
    '@node-llama-cpp/linux-arm64/bins/x.node',
    'koffi/src/koffi/src/call.cc',
    'koffi/lib/native/base/base.cc',
  ];
  for (const file of needed) assert.not(isNeedless(file, platform), file);
  for (const file of needless) assert.ok(isNeedless(file, platform), file);
});

test('the service of the machine has an account and a folder, and starts with the machine', () => {
  const unit = systemUnit();
  for (const line of [
    'User=svc',
    'StateDirectory=svc',
    'Environment="SVC_HOME=/var/lib/svc"',
    'WantedBy=multi-user.target',
    'ExecStart="/usr/lib/svc/lib/node" "/usr/lib/svc/lib/svc/dist/src/main.js" "serve"',
  ])
    assert.ok(unit.split('\n').includes(line), line);
});

test('the service of a user reads the variables of that user', () => {
  assert.match(userUnit(), '\nEnvironmentFile=-%h/.config/svc/service.env\n');
});

test('the notes of a release are what the changelog says of its version, read in two minutes', () => {
  const root = join(FILES, '..', '..', '..');
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const notes = notesOf(readFileSync(join(root, 'CHANGELOG.md'), 'utf8'), version);
  for (const text of ['What it promises', 'What is not there'])
    assert.ok(notes.includes(text), text);
  assert.ok(notes.split(/\s+/).length < 400);
  assert.is(notesOf('# C\n\n## 2.0.0\n\nTwo.\n\n## 1.0.0\n\nOne.\n', '1.0.0'), 'One.');
  assert.throws(() => notesOf('## 1.0.0\n', '1.0.0'), /says nothing of 1\.0\.0/);
});

const release = {
  version: '1.2.3',
  baseUrl: 'https://example.org/files/',
  homepage: 'https://example.org',
  publisher: 'Some People',
};

test('the manifests have the archives that there are, with their digests', () => {
  const sums = new Map([
    ['svc-1.2.3-linux-x64.tar.gz', 'aa'],
    ['svc-1.2.3-linux-x64.deb', 'bb'],
    ['svc-1.2.3-darwin-arm64.tar.gz', 'cc'],
    ['svc-1.2.3-win-x64.zip', 'dd'],
  ]);
  const brew = formula({ ...release, sums }) ?? '';
  for (const text of [
    'on_linux do\n    on_intel do\n      url "https://example.org/files/svc-1.2.3-linux-x64.tar.gz"',
    'sha256 "aa"',
    'on_macos do\n    on_arm do',
    'sha256 "cc"',
  ])
    assert.ok(brew.includes(text), text);
  assert.is(brew.split('on_arm').length, 2, 'there is no archive for Linux on arm64');
  assert.not.match(brew, 'bb');
  const files = winget({ ...release, sums });
  assert.equal(Object.keys(files).length, 3);
  const installer = parse(files[join('winget', 'SomePeople.svc.installer.yaml')] ?? '');
  assert.equal(installer.Installers, [
    {
      Architecture: 'x64',
      InstallerUrl: 'https://example.org/files/svc-1.2.3-win-x64.zip',
      InstallerSha256: 'DD',
      NestedInstallerFiles: [
        { RelativeFilePath: 'svc-1.2.3-win-x64\\bin\\svc.cmd', PortableCommandAlias: 'svc' },
      ],
    },
  ]);
});

test('without archives there is no manifest', () => {
  assert.is(formula({ ...release, sums: new Map() }), null);
  assert.equal(winget({ ...release, sums: new Map([['svc-1.2.3-linux-x64.tar.gz', 'aa']]) }), {});
});

const modeOf = (path: string) => statSync(path).mode & 0o777;

/** Calls `work` with a folder in which everything is closed to other users. */
function inClosedFolder(work: (folder: string) => void): void {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), 'svc-package-'));
  const umask = process.umask(0o077);
  const path = process.env.PATH;
  try {
    work(folder);
  } finally {
    process.umask(umask);
    process.env.PATH = path;
    rmSync(folder, { recursive: true, force: true });
  }
}

test('the files of an archive have the same modes under any umask', () => {
  inClosedFolder((folder) => {
    mkdirSync(join(folder, 'bin'));
    for (const file of ['install.sh', 'bin/svc', 'bin/other']) {
      writeFileSync(join(folder, file), '');
      chmodSync(join(folder, file), file === 'bin/other' ? 0o777 : 0o600);
    }
    setModes(folder);
    assert.equal(
      ['bin', 'bin/svc', 'bin/other', 'install.sh'].map((file) => modeOf(join(folder, file))),
      [0o755, 0o755, 0o644, 0o755],
    );
  });
});

test('the packages of systems are the same from any machine, and remove their folders', () => {
  inClosedFolder((folder) => {
    const root = join(folder, 'root');
    for (const place of ['lib/svc', 'share/man/man1'])
      mkdirSync(join(root, place), { recursive: true });
    writeFileSync(join(root, 'share/man/man1/svc.1'), '');
    // An nfpm that writes what it was asked for.
    writeFileSync(join(folder, 'nfpm'), '#!/bin/sh\nexec cp "$3" "$7"\n', { mode: 0o700 });
    process.env.PATH = `${folder}:${process.env.PATH}`;
    const platform = PLATFORMS['linux-x64'];
    assert.ok(platform);
    const options = { platform, root, scratch: folder, version: '1.2.3', epoch_s: 1, out: folder };
    for (const file of makeSystemPackages(options)) {
      const { contents, rpm } = JSON.parse(readFileSync(file, 'utf8')) as {
        contents: { dst: string; type?: string; file_info?: { mode: number } }[];
        rpm: { buildhost: string };
      };
      assert.is(rpm.buildhost, 'localhost');
      const own = contents.filter(({ dst }) => /^\/usr\/(lib|share\/doc)\/svc\//.test(dst));
      assert.ok(own.length > 3);
      for (const { dst } of own)
        assert.ok(
          contents.some((other) => other.dst === dirname(dst) && other.type === 'dir'),
          dst,
        );
      for (const { dst, type, file_info } of contents)
        if (type !== 'tree' && type !== 'symlink')
          assert.is(
            file_info?.mode,
            type === 'dir' || dst.endsWith('/bin/svc') ? 0o755 : 0o644,
            dst,
          );
    }
  });
});

/** The scripts of an archive whose Node.js prints how it was called. */
const scripts = suite<{ folder: string; archive: string }>('scripts');
scripts.before.each((context) => {
  context.folder = mkdtempSync(join(realpathSync(tmpdir()), 'svc-archive-'));
  context.archive = join(context.folder, 'a b');
  for (const place of ['bin', 'lib', 'share/man/man1'])
    mkdirSync(join(context.archive, place), { recursive: true });
  const put = (file: string, text: string) => {
    writeFileSync(join(context.archive, file), text);
    chmodSync(join(context.archive, file), 0o755);
  };
  put('lib/node', '#!/bin/sh\nfor word do printf "<%s>" "$word"; done\necho\n');
  put('share/man/man1/svc.1', '');
  copyFileSync(join(FILES, 'svc'), join(context.archive, 'bin', 'svc'));
  copyFileSync(join(FILES, 'install.sh'), join(context.archive, 'install.sh'));
});
scripts.after.each(({ folder }) => rmSync(folder, { recursive: true, force: true }));

const called = (program: string, ...args: string[]) =>
  execFileSync(program, args, { encoding: 'utf8' }).trim();

scripts('the program is found through links, and gets its words as they are', (context) => {
  const { folder, archive } = context;
  const expected = `<${archive}/lib/svc/dist/src/main.js><run><a  b>`;
  symlinkSync(join(archive, 'bin', 'svc'), join(folder, 'absolute'));
  symlinkSync('absolute', join(folder, 'relative'));
  for (const program of [join(archive, 'bin', 'svc'), join(folder, 'relative')])
    assert.is(called(program, 'run', 'a  b'), expected);
  assert.is(
    execFileSync('sh', ['svc', 'run', 'a  b'], { cwd: join(archive, 'bin'), encoding: 'utf8' }),
    `${expected}\n`,
  );
});

/** Which version is in use, and which was before. */
const inUse = (prefix: string) =>
  ['current', 'previous'].map((name) => {
    const link = join(prefix, 'lib', 'svc', name);
    return lstatSync(link, { throwIfNoEntry: false }) && basename(realpathSync(link));
  });

scripts(
  'the next version is switched to and back by a link, and all is removed whole',
  (context) => {
    const { folder, archive } = context;
    const prefix = join(folder, 'prefix');
    const install = join(archive, 'install.sh');
    const say = (version: string) =>
      writeFileSync(
        join(archive, 'lib', 'node'),
        `#!/bin/sh\nif [ "$2" = version ]; then echo "svc ${version}"; exit; fi\n` +
          'for word do printf "<%s>" "$word"; done\necho\n',
      );
    say('1.0.0');
    called(install, '--prefix', prefix);
    assert.equal(inUse(prefix), ['1.0.0', undefined]);
    assert.is(spawnSync(install, ['--back', '--prefix', prefix]).status, 1);
    say('1.1.0');
    mkdirSync(join(prefix, 'lib', 'svc', 'versions', '.new.1'));
    assert.match(called(install, `--prefix=${prefix}`), 'is not in your PATH');
    assert.equal(inUse(prefix), ['1.1.0', '1.0.0']);
    assert.is(
      called(join(prefix, 'bin', 'svc'), 'status'),
      `<${realpathSync(prefix)}/lib/svc/versions/1.1.0/lib/svc/dist/src/main.js><status>`,
    );
    assert.match(called(install, '--back', '--prefix', prefix), 'svc 1.0.0 is in use again');
    assert.equal(inUse(prefix), ['1.0.0', '1.1.0']);
    called(install, '--prefix', prefix);
    assert.equal(inUse(prefix), ['1.1.0-2', '1.0.0']);
    assert.equal(readdirSync(join(prefix, 'lib', 'svc', 'versions')), ['1.0.0', '1.1.0-2']);
    const itself = join(prefix, 'lib', 'svc', 'install.sh');
    assert.match(spawnSync(itself, ['--prefix', prefix], { encoding: 'utf8' }).stderr, 'from here');
    writeFileSync(join(prefix, 'bin', 'other'), '');
    assert.match(called(itself, '--uninstall', '--prefix', prefix), 'main.js><uninstall>');
    assert.equal(readdirSync(join(prefix, 'bin')), ['other']);
    assert.not(existsSync(join(prefix, 'lib', 'svc')));
    assert.equal(readdirSync(prefix), ['bin']);
  },
);

scripts('a program without versions becomes the one before', ({ folder, archive }) => {
  const prefix = join(folder, 'prefix');
  const program = join(prefix, 'lib', 'svc');
  mkdirSync(join(program, 'bin'), { recursive: true });
  writeFileSync(join(program, 'bin', 'svc'), '#!/bin/sh\necho "svc 0.1.0"\n', { mode: 0o755 });
  writeFileSync(join(program, 'install.sh'), '#!/bin/sh\nexit 2\n', { mode: 0o755 });
  called(join(archive, 'install.sh'), '--prefix', prefix);
  assert.is(inUse(prefix)[1], 'first');
  const back = called(join(program, 'install.sh'), '--back', '--prefix', prefix);
  assert.match(back, 'svc 0.1.0 is in use again');
  called(join(program, 'install.sh'), '--uninstall', '--prefix', prefix);
  assert.not(existsSync(program));
});

scripts('a script that is killed leaves a version in use at each of its steps', (context) => {
  const { folder, archive } = context;
  const prefix = join(folder, 'prefix');
  const node = (version: string) =>
    writeFileSync(join(archive, 'lib', 'node'), `#!/bin/sh\necho "svc ${version}"\n`);
  node('1.0.0');
  called(join(archive, 'install.sh'), '--prefix', prefix);
  node('2.0.0');
  // The shell asks before each command that changes a file, and is killed at the last of them.
  const script = readFileSync(join(archive, 'install.sh'), 'utf8');
  const steps = ['cp', 'mv', 'ln', 'rm', 'mkdir'];
  const counting = steps
    .map(
      (name) =>
        `${name}() { step=$((step + 1)); [ $step != $LAST ] || kill -9 $$; command ${name} "$@"; }`,
    )
    .join('\n');
  writeFileSync(
    join(archive, 'install.sh'),
    script.replace('set -eu', () => `set -eu\nstep=0\n${counting}`),
  );
  const seen = new Set<string>();
  for (let last = 1; ; last += 1) {
    const { signal } = spawnSync(join(archive, 'install.sh'), ['--prefix', prefix], {
      env: { ...process.env, LAST: String(last) },
    });
    seen.add(called(join(prefix, 'bin', 'svc'), 'version'));
    if (signal === null) break;
    assert.ok(last < 100);
  }
  assert.equal([...seen], ['svc 1.0.0', 'svc 2.0.0']);
  assert.ok(readdirSync(join(prefix, 'lib', 'svc', 'versions')).length <= 2);
});

scripts('every user can run what somebody with a closed umask installed', (context) => {
  const { folder, archive } = context;
  const install = join(archive, 'install.sh');
  chmodSync(join(archive, 'lib'), 0o700);
  chmodSync(join(archive, 'lib', 'node'), 0o700);
  const prefix = join(folder, 'prefix');
  execFileSync('sh', ['-c', 'umask 077; exec "$0" --prefix "$1"', install, prefix]);
  for (const entry of readdirSync(prefix, { recursive: true, withFileTypes: true })) {
    if (entry.isSymbolicLink()) continue;
    const path = join(entry.parentPath, entry.name);
    assert.is(modeOf(path) & 0o044, 0o044, path);
    if (entry.isDirectory()) assert.is(modeOf(path), 0o755, path);
  }
  assert.is(modeOf(join(prefix, 'lib', 'svc', 'current', 'lib', 'node')), 0o755);
});

scripts('only the folders that were made are removed', ({ folder, archive }) => {
  const prefix = join(folder, 'prefix');
  for (const place of ['bin', 'share/zsh']) mkdirSync(join(prefix, place), { recursive: true });
  const before = readdirSync(prefix, { recursive: true }).sort();
  for (let times = 0; times < 2; times += 1)
    called(join(archive, 'install.sh'), '--prefix', prefix);
  called(join(prefix, 'lib', 'svc', 'install.sh'), '--uninstall', '--prefix', prefix);
  assert.equal(readdirSync(prefix, { recursive: true }).sort(), before);
});

scripts('a file of somebody else is neither replaced nor removed', (context) => {
  const { folder, archive } = context;
  const prefix = join(folder, 'prefix');
  mkdirSync(join(prefix, 'bin'), { recursive: true });
  writeFileSync(join(prefix, 'bin', 'svc'), 'mine');
  const tried = spawnSync(join(archive, 'install.sh'), ['--prefix', prefix], { encoding: 'utf8' });
  assert.is(tried.status, 1);
  assert.match(tried.stderr, 'belongs to something else');
  assert.not(existsSync(join(prefix, 'lib', 'svc')));
  rmSync(join(prefix, 'bin', 'svc'));
  called(join(archive, 'install.sh'), '--prefix', prefix);
  rmSync(join(prefix, 'bin', 'svc'));
  writeFileSync(join(prefix, 'bin', 'svc'), 'mine');
  called(join(prefix, 'lib', 'svc', 'install.sh'), '--uninstall', '--prefix', prefix);
  assert.ok(lstatSync(join(prefix, 'bin', 'svc')).isFile());
});

scripts('wrong words are refused, and nothing changes', ({ folder, archive }) => {
  const run = (...args: string[]) =>
    spawnSync(join(archive, 'install.sh'), args, {
      encoding: 'utf8',
      env: { PATH: process.env.PATH },
    });
  for (const args of [['--what'], ['--prefix'], []])
    assert.is(run(...args).status, 2, args.join(' '));
  assert.is(run('--uninstall', '--prefix', join(folder, 'none')).status, 1);
  assert.match(run('--help').stdout, '--uninstall');
  assert.equal(readdirSync(folder), ['a b']);
});

test.run();
scripts.run();
