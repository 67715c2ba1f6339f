import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

/** Runs the runner on planted files, in a process. */
function run(
  fixture: string,
  ...args: string[]
): { lines: string[]; code: number | null; text: string } {
  const command = ['test/run.ts', '--root', `test/fixtures/runner/${fixture}`, ...args];
  const { stdout, stderr, status } = spawnSync(process.execPath, command, {
    encoding: 'utf8',
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
  assert.is(lines.at(-1), '2 passed, 0 failed');
  assert.is(lines.at(-2), '1 skipped');
  assert.is(code, 0);
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
