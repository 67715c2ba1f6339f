import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { dispatch, unknownCommand } from '../../src/cli/terminal/parse/command-line.ts';
import { eventFlag, secondsFlag } from '../../src/cli/terminal/parse/flag-values.ts';
import { requireSetting } from '../../src/cli/upkeep/config/setting.ts';
import type { SvcError } from '../../src/errors.ts';

test('a time is seconds, or has a unit', () => {
  const read = (timeout: string) => secondsFlag({ timeout }, 'timeout', { min: 0.001 });
  assert.equal(
    ['5', '.5', '0.25', '90s', '10m', '2h', '1d', '250ms'].map(read),
    [5000, 500, 250, 90_000, 600_000, 7_200_000, 86_400_000, 250],
  );
  for (const wrong of ['', '1e3', '-1', '5 s', '1w', '2d', '1h30m', '0'])
    assert.throws(
      () => read(wrong),
      /--timeout must be a number of seconds from 0\.001 to 86400, or a time such as 90s/,
      wrong,
    );
});

test('the words of another tool for models are commands', () => {
  const read = (...argv: string[]) =>
    dispatch<[string, ...string[]]>(argv, {
      run: ({ name }, args) => [name, ...args],
      help: (name) => ['help', name],
    });
  const lines: [string[], string[]][] = [
    [['list'], ['model list']],
    [['ls', '--json'], ['model list']],
    [['ps'], ['model ps']],
    [
      ['pull', 'qwen3:0.6b', '--anyway'],
      ['model pull', 'qwen3:0.6b'],
    ],
    [
      ['rm', 'one', 'two'],
      ['model remove', 'one', 'two'],
    ],
    [
      ['show', 'one'],
      ['model show', 'one'],
    ],
    [
      ['cp', 'qwen3:0.6b', 'fast'],
      ['model alias', 'fast', 'qwen3:0.6b'],
    ],
    [
      ['model', 'show', 'list'],
      ['model show', 'list'],
    ],
    [
      ['rm', '--help'],
      ['help', 'model remove'],
    ],
    [
      ['help', 'ps'],
      ['help', 'model ps'],
    ],
  ];
  for (const [argv, meant] of lines) assert.equal(read(...argv), meant, argv.join(' '));
});

test('the word of another tool leads to the command of that meaning', () => {
  const hints: Record<string, string> = {
    get: 'Did you mean: svc model pull',
    'model rm': 'Did you mean: svc model remove',
    'provider ls': 'Did you mean: svc provider list',
    'runs inspect': 'Did you mean: svc runs show',
    stauts: 'Did you mean: svc status',
    'config sett': 'Did you mean: svc config set',
    'what is svc?': 'A prompt comes after run: svc run "what is svc?"',
    nonsense: 'See: svc --help',
  };
  for (const [name, hint] of Object.entries(hints)) assert.is(unknownCommand(name).hint, hint);
});

test('a flag for an event says of what it is the number', () => {
  assert.is(eventFlag({ at: '7' }, 'at'), 7);
  for (const wrong of ['x', '0', '-1', '1.5'])
    assert.throws(
      () => eventFlag({ at: wrong }, 'at'),
      `--at must be the number of an event of the log: a whole number of at least 1, not "${wrong}".`,
    );
  assert.is(eventFlag({ from: '0' }, 'from', 0), 0);
});

test('a setting is found by its words', () => {
  const hintOf = (name: string) => {
    try {
      requireSetting(name);
    } catch (error) {
      return (error as SvcError).hint;
    }
    return null;
  };
  assert.is(hintOf('budget.daily'), 'Did you mean: budget_per_day');
  assert.is(hintOf('log_leve'), 'Did you mean: log_level');
  assert.is(hintOf('zzz.qqq'), 'See: svc config show --json');
});

test.run();
