import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';

/** `.ci/run` in a checkout whose npm is a script of the test. */
const ci = suite<{ folder: string }>('.ci/run');
const hasBash = process.platform !== 'win32' && spawnSync('bash', ['--version']).status === 0;
if (!hasBash) console.log('skipped: no bash');
const test = hasBash ? ci : ci.skip;

ci.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-ci-'));
});
ci.after.each(({ folder }) => rmSync(folder, { recursive: true }));

/** Runs it. `npm` has a line of shell for each call, by the first word of its arguments. */
function run(folder: string, npm: Record<string, string>) {
  for (const name of ['.ci', 'README.md']) cpSync(name, join(folder, name), { recursive: true });
  mkdirSync(join(folder, 'bin'));
  const cases = Object.entries(npm).map(([word, line]) => `${word}) ${line} ;;`);
  const calls = join(folder, 'calls');
  const script = [
    '#!/usr/bin/env bash',
    `echo "$* cached=$([ -e "$XDG_CACHE_HOME" ] && echo yes || echo no)" >>"${calls}"`,
    'case $1 in',
    ...cases,
    'esac',
  ];
  writeFileSync(join(folder, 'bin/npm'), script.join('\n'));
  chmodSync(join(folder, 'bin/npm'), 0o755);
  const path = `${join(folder, 'bin')}${delimiter}${process.env.PATH}`;
  const { status, stdout } = spawnSync('bash', [join(folder, '.ci/run')], {
    encoding: 'utf8',
    env: { ...process.env, PATH: path, XDG_CACHE_HOME: folder },
  });
  return {
    status,
    last: stdout.trimEnd().split('\n').at(-1),
    calls: existsSync(calls) ? readFileSync(calls, 'utf8').trimEnd().split('\n') : [],
  };
}

const says = (...lines: string[]) => lines.map((line) => `echo '${line}'`).join('; ');
const MODELS = 'no models of npm run test-models';
const FIRST = ['install cached=no', 'test cached=no'];

test('it types the command of the README, without the models of an earlier run', ({ folder }) => {
  const { status, last, calls } = run(folder, { test: says('7 passed, 0 failed') });
  assert.equal(calls, FIRST);
  assert.equal([status, last], [0, '7 passed, 0 failed']);
});

test('a second pass has only what lacked models, and its sum is the last line', ({ folder }) => {
  const { status, last, calls } = run(folder, {
    test: says(`3 skipped: ${MODELS}, no grpcurl`, '7 passed, 0 failed, 3 skipped'),
    exec: says('9 passed, 0 failed, 1 skipped'),
  });
  assert.equal(calls, [
    ...FIRST,
    'run -s test-models cached=yes',
    `exec -- node test/run.ts --lacked ${MODELS} cached=yes`,
  ]);
  assert.equal([status, last], [0, '9 passed, 0 failed, 1 skipped']);
});

test('what failed in the second pass fails', ({ folder }) => {
  const { status, last } = run(folder, {
    test: says(`3 skipped: ${MODELS}`, '7 passed, 0 failed, 3 skipped'),
    exec: `${says('9 passed, 1 failed')}; exit 1`,
  });
  assert.equal([status, last], [1, '9 passed, 1 failed']);
});

test('models that cannot be had are no failure', ({ folder }) => {
  const { status, last, calls } = run(folder, {
    test: says(`3 skipped: ${MODELS}`, '7 passed, 0 failed, 3 skipped'),
    run: 'exit 1',
  });
  assert.equal(calls, [...FIRST, 'run -s test-models cached=yes']);
  assert.equal([status, last], [0, '7 passed, 0 failed, 3 skipped']);
});

for (const [what, npm, expected] of [
  ['an install that fails', { install: 'exit 1' }, '0 passed, 1 failed'],
  ['a check that fails before the tests', { test: 'exit 1' }, '0 passed, 1 failed'],
  ['a run in which nothing passed', { test: says('0 passed, 0 failed') }, '0 passed, 0 failed'],
  ['a test that fails', { test: `${says('7 passed, 2 failed')}; exit 1` }, '7 passed, 2 failed'],
] as const)
  test(`${what} ends in exit 1`, ({ folder }) => {
    const { status, last } = run(folder, npm);
    assert.equal([status, last], [1, expected]);
  });

ci.run();
