import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { faultsOf, withSwitches } from './faults.ts';

const mutate = (...args: string[]) =>
  spawnSync(process.execPath, ['test/mutate/run.ts', ...args], { encoding: 'utf8' });

/** TypeScript's parser, a process, may say that it was ended. */
const PARSER_ENDED = /^(context canceled\s*)?$/;

test('faults change what runs, and no type and no comment', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-planted-'));
  const file = join(folder, 'planted.ts');
  writeFileSync(
    file,
    [
      "type One = 1 | true | 'é';",
      '// é: 1 < 2',
      'export async function most(one: One, other: number): Promise<boolean> {',
      '  if (other < 7 && one !== 1) await Promise.all([]);',
      '  other.toFixed();',
      '  return other > 0 ? true : false;',
      '}',
    ].join('\n'),
  );
  try {
    assert.equal(
      faultsOf([file]).map(({ line, what }) => `${line} ${what}`),
      [
        '3 most returns at once',
        '4 not: other < 7 && one !== 1',
        '4 && is ||: other < 7 && one !== 1',
        '4 < is <=: other < 7',
        '4 7 is one more',
        '4 !== is ===: one !== 1',
        '4 1 is one more',
        '4 without: await Promise.all([]);',
        '4 no await Promise.all([])',
        '5 without: other.toFixed();',
        '6 not: other > 0',
        '6 > is >=: other > 0',
        '6 0 is one more',
        '6 true is false',
        '6 false is true',
      ],
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('each fault has its switch, also inside another one', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-planted-'));
  const file = join(folder, 'planted.ts');
  const text = 'if (a && 7 < b) call(7);\n';
  writeFileSync(file, text);
  try {
    const faults = new Map(faultsOf([file]).entries());
    const numbers = [...faults].filter(([, { what }]) => /^(&&|7|without)/.test(what));
    assert.equal(
      numbers.map(([id, { what }]) => `${id} ${what}`),
      ['1 && is ||: a && 7 < b', '3 7 is one more', '4 without: call(7);', '5 7 is one more'],
    );
    assert.is(
      withSwitches(text, new Map(numbers)),
      'if ((isPlanted_(1) ? (a || 7 < b) : (a && (isPlanted_(3) ? (7 + 1) : (7)) < b))) ' +
        '{ if (isPlanted_(4)) { ; } else { call((isPlanted_(5) ? (7 + 1) : (7))); } }\n',
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a planted fault is found by a test near to it, and no copy is left', () => {
  const { stdout, stderr, status } = mutate('--file', 'src/async/clock.ts:40', '--count', '1');
  assert.match(stderr, PARSER_ENDED);
  assert.match(stdout, /^src\/async\/clock\.ts:40 {2}.*\n {2}test\/.*\.test\.ts$/m);
  assert.match(stdout, /^1 found, 0 not found, seed 1$/m);
  assert.is(status, 0);
  assert.equal(
    readdirSync(tmpdir()).filter((name) => name.startsWith('svc-mutate-')),
    [],
  );
});

test('tests that take longer than their time end, and the command goes on', () => {
  const bounds = ['--count', '2', '--within', '1'];
  const { stdout, stderr } = mutate('--file', 'src/limits.ts', ...bounds);
  assert.match(stderr, PARSER_ENDED);
  assert.match(stdout, /^[0-2] found, [0-2] not found, seed 1$/m);
});

test('faults that it does not get to are not found', async () => {
  const args = ['test/mutate/run.ts', '--file', 'src/async/clock.ts', '--count', '9'];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines: string[] = [];
  for await (const line of createInterface(child.stdout)) {
    lines.push(line);
    child.kill('SIGINT');
  }
  const [, found, lost, left] =
    lines.at(-1)?.match(/^(\d+) found, (\d+) not found, (\d+) not tried, seed 1$/) ?? [];
  assert.is(Number(found) + Number(lost) + Number(left), 9, lines.join('\n'));
  assert.ok(Number(left) > 0, lines.join('\n'));
});

test('the list names faults without trying them', () => {
  const { stdout, status } = mutate('--file', 'src/async/clock.ts:40', '--list');
  assert.match(stdout, /^src\/async\/clock\.ts:40 {2}- is \+: .*$/m);
  assert.not.match(stdout, 'found');
  assert.is(status, 0);
});

test('what is no number of faults is refused with the usage', () => {
  const { stderr, status } = mutate('--count', 'many');
  assert.match(stderr, 'npm run mutate');
  assert.is(status, 2);
});

test.run();
