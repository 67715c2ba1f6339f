import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { packageRoot } from '../../src/home/paths.ts';
import { PROGRAM } from '../helpers/svc.ts';

/** The program as a Node of another version sees itself. */
function runAs(version: string) {
  const pretend = `Object.defineProperty(process.versions, 'node', { value: '${version}' })`;
  return spawnSync(
    process.execPath,
    ['--import', `data:text/javascript,${encodeURIComponent(pretend)}`, PROGRAM, 'version'],
    { encoding: 'utf8' },
  );
}

test('an old Node is refused with what to do, exit 1', () => {
  for (const version of ['12.22.0', '18.20.0', '22.13.1', '23.0.0', '23.5.0']) {
    const { status, stdout, stderr } = runAs(version);
    assert.is(status, 1);
    assert.is(stdout, '');
    assert.match(
      stderr,
      /^error: svc needs Node\.js 22\.14 or later, and 23\.6 of line 23; this is [\d.]+ \(node_too_old\)\nhint: Install Node\.js 24, or .*\n$/,
    );
  }
  for (const version of ['22.14.0', '23.6.0', '24.0.0', '26.0.0'])
    assert.is(runAs(version).status, 0);
});

test('the minimum is that of the package', () => {
  const { engines } = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8'));
  const [first, of23] = /^\^(\S+) \|\| >=(\S+)$/.exec(engines.node)?.slice(1) ?? [];
  assert.match(runAs('12.22.0').stderr, `Node.js ${first} or later, and ${of23} of line 23`);
});

test('the bin can be read by an old Node: no import before the check, and no newer syntax', () => {
  const text = readFileSync(PROGRAM, 'utf8');
  assert.match(text, /^#!\/usr\/bin\/env node\n/);
  assert.not.match(text, /^\s*import\s+[^(]/m);
  assert.not.match(text, /\?\?=|\|\|=|\bawait\b|\?\.|\?\?/);
});

test('compiled code is kept only in a private folder', () => {
  if (process.getuid === undefined) return;
  const own = `svc-${process.getuid()}`;
  for (const [make, kept] of [
    [() => {}, true],
    [(folder: string) => mkdirSync(join(folder, own), { mode: 0o700 }), true],
    [
      (folder: string) =>
        chmodSync(mkdirSync(join(folder, own, 'x'), { recursive: true }) ?? '', 0o770),
      false,
    ],
    [(folder: string) => symlinkSync(folder, join(folder, own)), false],
    [(folder: string) => writeFileSync(join(folder, own), ''), false],
  ] as const) {
    const folder = mkdtempSync(join(tmpdir(), 'svc-code-'));
    make(folder);
    const { NODE_COMPILE_CACHE: _, ...env } = process.env;
    const { status, stderr } = spawnSync(process.execPath, [PROGRAM, 'version'], {
      env: { ...env, TMPDIR: folder },
      encoding: 'utf8',
    });
    assert.equal([status, stderr], [0, '']);
    assert.is(existsSync(join(folder, own, 'code')), kept);
    rmSync(folder, { recursive: true });
  }
});

test('svc version needs no daemon', () => {
  const { version } = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8'));
  for (const argv of [['version'], ['--version'], ['-v']]) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...argv], {
      encoding: 'utf8',
    });
    assert.equal([status, stdout, stderr], [0, `svc ${version}\n`, '']);
  }
  const { stdout } = spawnSync(process.execPath, [PROGRAM, 'version', '--json'], {
    encoding: 'utf8',
  });
  assert.is(JSON.parse(stdout).version, version);
});

test.run();
