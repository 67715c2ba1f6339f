import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readCommandLine } from './command-line.ts';

const torture = (...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(import.meta.dirname, 'run.ts'), ...args],
    { encoding: 'utf8' },
  );
  return { status, stdout, stderr };
};

test('the help of the tortures has their names and options, and is no error', () => {
  const { status, stdout, stderr } = torture('--help');
  assert.equal([status, stderr], [0, '']);
  for (const word of [
    'damage',
    'points',
    'failover',
    'owners',
    'prompt-cache',
    'fleet',
    'kills',
    '--cycles',
    '--minutes',
  ])
    assert.match(stdout, word);
});

test('what is no torture, no option or no number is an error of one sentence, without a stack', () => {
  for (const [args, sentence] of [
    [['fleets'], 'There is no torture "fleets". There are: damage, points,'],
    [['--seeds', '1'], "Unknown option '--seeds'"],
    [['--cycles', 'many'], '--cycles is a whole number from 1 to 999999999, not "many".'],
    [['--stride', '0'], '--stride is a whole number'],
    [['--clients'], "Option '--clients <value>' argument missing"],
  ] as const) {
    const { status, stdout, stderr } = torture(...args);
    assert.equal([status, stdout], [2, ''], stderr);
    assert.ok(stderr.startsWith(sentence), stderr);
    assert.match(stderr, 'npm run torture -- --help');
    assert.not.match(stderr, /^ {4}at /m);
  }
});

test('all tortures run unless some are named', () => {
  const all = [
    'damage',
    'points',
    'failover',
    'owners',
    'prompt-cache',
    'engine',
    'tools',
    'fleet',
    'kills',
  ];
  assert.equal(readCommandLine([])?.tortures, all);
  assert.equal(readCommandLine(['kills', 'damage'])?.tortures, ['damage', 'kills']);
  const { cycles, minutes, seed } = readCommandLine(['--minutes', '7']) ?? {};
  assert.equal([cycles, minutes, seed], [1000, 7, null]);
});

test.run();
