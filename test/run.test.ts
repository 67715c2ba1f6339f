import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

/** The outcomes of the run under test are not those of the run that has this file. */
const folder = mkdtempSync(join(tmpdir(), 'svc-runner-'));
const outcomes = join(folder, 'outcomes.json');
test.after(() => rmSync(folder, { recursive: true }));

/** Runs the runner on planted files, in a process. */
function run(
  fixture: string,
  ...args: string[]
): { lines: string[]; code: number | null; text: string } {
  return runWith({}, fixture, ...args);
}

function runWith(env: NodeJS.ProcessEnv, fixture: string, ...args: string[]) {
  const root = `test/fixtures/runner/${fixture}`;
  const command = ['test/run.ts', '--root', root, '--outcomes', outcomes, ...args];
  const { stdout, stderr, status } = spawnSync(process.execPath, command, {
    encoding: 'utf8',
    env: { ...process.env, ...env },
    timeout: 60_000,
  });
  assert.is(stderr, '');
  return { lines: stdout.trimEnd().split('\n'), code: status, text: stdout };
}

/** False for a zombie: a dead process stays in the table until its parent collects it. */
function isAlive(pid: number): boolean {
  try {
    return (
      process.kill(pid, 0) &&
      !(existsSync(`/proc/${pid}`) && / Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')))
    );
  } catch {
    return false;
  }
}

test('tests that pass end in exit 0, and skipped ones are counted', () => {
  const { lines, code } = run('passes');
  assert.is(lines.at(-1), '2 passed, 0 failed, 1 skipped');
  assert.is(lines.at(-2), '1 skipped: planted');
  assert.is(code, 0);
});

test('a file whose tests are all skipped has not failed', () => {
  const { lines, code, text } = run('lacking');
  assert.match(text, /^skip .*lacking\/a\.test\.ts {2}0 passed, 2 skipped/m);
  assert.is(lines.at(-2), '3 skipped: no other thing, no planted thing');
  assert.is(lines.at(-1), '2 passed, 0 failed, 3 skipped');
  assert.is(code, 0);
});

test('a run in which every test is skipped fails', () => {
  const { lines, code } = run('lacking', 'lacking/a');
  assert.is(lines.at(-1), '0 passed, 0 failed, 2 skipped');
  assert.is(code, 1);
});

test('a second run has only what lacked something, and the sum counts each file once', () => {
  run('lacking');
  const { lines, code, text } = runWith({ PLANTED: '1' }, 'lacking', '--lacked', 'planted thing');
  assert.match(text, /^tier all: 1 files$/m);
  assert.match(text, /^ok .*lacking\/a\.test\.ts {2}2 passed/m);
  assert.is(lines.at(-2), '1 skipped: no other thing');
  assert.is(lines.at(-1), '4 passed, 0 failed, 1 skipped');
  assert.is(code, 0);
  const again = run('lacking', '--lacked', 'planted thing');
  assert.match(again.text, /^tier all: 0 files$/m);
  assert.is(again.lines.at(-1), '4 passed, 0 failed, 1 skipped');
});

test('a second run keeps the failures of the first, and needs one', () => {
  run('together');
  const { lines, code, text } = run('together', '--lacked', 'planted');
  assert.match(text, /^tier all: 0 files$/m);
  assert.is(lines.at(-1), '3 passed, 1 failed, 3 skipped');
  assert.is(code, 1);
  rmSync(outcomes);
  const { stderr, status } = spawnSync(
    process.execPath,
    [
      'test/run.ts',
      '--root',
      'test/fixtures/runner/passes',
      '--outcomes',
      outcomes,
      '--lacked',
      'x',
    ],
    { encoding: 'utf8' },
  );
  assert.match(stderr, '--lacked needs the outcomes of a whole run before it');
  assert.is(status, 1);
});

if (process.platform === 'linux')
  test('the processor time of a file has that of a process which has left it', () => {
    const { text, code } = run('daemon');
    assert.ok(Number(/ ([\d.]+) s cpu$/m.exec(text)?.[1]) > 0.5, text);
    assert.is(code, 0, text);
  });

test('a failing test is printed in full and ends in exit 1', () => {
  const { lines, code, text } = run('fails');
  assert.is(lines.at(-1), '1 passed, 1 failed');
  assert.match(text, 'planted failure');
  assert.is(code, 1);
});

const refused: Record<string, { says: RegExp; sum: string }> = {
  empty: { says: /no test ran/, sum: '0 passed, 1 failed' },
  forgotten: { says: /\.run\(\) is missing/, sum: '0 passed, 1 failed' },
  unsaid: {
    says: /1 skipped, and no line "skipped: …" says why/,
    sum: '1 passed, 1 failed, 1 skipped',
  },
  only: { says: /marked \.only/, sum: '0 passed, 1 failed' },
  hooked: { says: /1 did not run: a hook failed/, sum: '0 passed, 1 failed' },
  crashes: { says: /it crashed: SIGKILL/, sum: '0 passed, 1 failed' },
  silent: { says: /failed after its tests had passed/, sum: '1 passed, 1 failed' },
};

for (const [fixture, { says, sum }] of Object.entries(refused)) {
  test(`the planted file "${fixture}" fails with the reason`, () => {
    const { lines, code, text } = run(fixture);
    assert.match(text, says);
    assert.is(lines.at(-1), sum);
    assert.is(code, 1);
  });
}

test('a failed test that leaves a listener open is reported in seconds, not at the bound', () => {
  const { lines, code, text } = run('open', '--leave', '1');
  assert.match(text, 'planted failure');
  assert.match(text, /it went on after its tests: one of them left something open/);
  assert.is(lines.at(-1), '1 passed, 1 failed');
  assert.is(code, 1);
});

test('a file that hangs is killed at its bound', () => {
  const { lines, code, text } = run('hangs', '--bound', '2');
  assert.match(text, /killed at its bound of 2 s/);
  assert.is(lines.at(-1), '0 passed, 1 failed');
  assert.is(code, 1);
});

test('small files share a process, and each has its own counts and output', () => {
  const { lines, code, text } = run('together');
  assert.match(text, /^FAIL .*a\.test\.ts {2}1 passed, 1 failed, 1 skipped/m);
  assert.match(text, 'planted failure');
  for (const file of ['b', 'c'])
    assert.match(text, new RegExp(`^ok .*${file}\\.test\\.ts  1 passed, 1 skipped`, 'm'));
  assert.match(lines.at(-2) ?? '', /^3 skipped: planted, process \d+$/);
  assert.is(lines.at(-1), '3 passed, 1 failed, 3 skipped');
  assert.is(code, 1);
});

test('with --bail the first file that fails ends the others', () => {
  const { lines, code, text } = run('together', '--bail', '--jobs', '1');
  assert.match(text, /^FAIL .*a\.test\.ts {2}1 passed, 1 failed, 1 skipped/m);
  assert.not.match(text, /^ok/m);
  assert.is(lines.at(-1), '1 passed, 2 failed, 1 skipped');
  assert.is(code, 1);
});

test('a file that a filter names has its own process, unless several are asked for', () => {
  const { lines, text } = run('together', 'together/');
  assert.match(lines.at(-2) ?? '', /^3 skipped: planted, process \d+, process \d+$/, text);
  const shared = run('together', 'together/', '--together', '16');
  assert.match(shared.lines.at(-2) ?? '', /^3 skipped: planted, process \d+$/, shared.text);
});

test('a file that changes what files share fails, and does not reach the next file', () => {
  const { lines, code, text } = run('changes');
  for (const what of ['process.env.PLANTED', 'Date.now', 'the listeners of process for "SIGUSR2"'])
    assert.ok(text.includes(`it changed what files share: ${what}\n`), text);
  assert.match(text, /^ok .*d\.test\.ts {2}1 passed/m);
  assert.is(lines.at(-1), '5 passed, 3 failed');
  assert.is(code, 1);
});

test('a file that crashes, hangs, leaves something open or cannot be loaded fails alone', () => {
  const { lines, code, text } = run('begun', '--bound', '10', '--leave', '1');
  const reasons: Record<string, RegExp> = {
    b: /it crashed: SIGKILL/,
    c: /killed at its bound of 10 s/,
    d: /one of them left something open \(TCPServerWrap\)/,
    e: /it could not be loaded: SyntaxError: .*planted in/,
  };
  for (const [file, reason] of Object.entries(reasons)) {
    const part = text.split(new RegExp(`^FAIL .*/${file}\\.test\\.ts`, 'm'))[1] ?? '';
    assert.match(part.split(/^(?:ok|FAIL) /m)[0] ?? '', reason);
  }
  for (const file of ['a', 'f']) assert.match(text, new RegExp(`^ok .*/${file}\\.test\\.ts`, 'm'));
  assert.is(lines.at(-1), '3 passed, 4 failed');
  assert.is(code, 1);
});

test('a leaked process in another session is named and killed', () => {
  const { lines, code, text } = run('leaks', '--leave', '3');
  assert.match(text, /it left 1 running: .*setInterval/);
  assert.is(lines.at(-1), '1 passed, 1 failed');
  assert.is(code, 1);
  const pid = Number(/left pid (\d+)/.exec(text)?.[1]);
  assert.ok(pid > 0);
  assert.not.ok(isAlive(pid));
});

test('a filter that matches nothing ends in exit 1', () => {
  const { lines, code } = run('passes', 'no-such-file');
  assert.is(lines.at(-1), '0 passed, 0 failed');
  assert.is(code, 1);
});

test('planted files are not run as tests of the project', () => {
  const { lines, code } = run('../..', 'test/fixtures/runner/none-of-this-name');
  assert.is(lines.at(-1), '0 passed, 0 failed');
  assert.is(code, 1);
});

test.run();
