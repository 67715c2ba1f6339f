import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readQuickLine } from '../../../../src/cli/quick-command.ts';
import { commands, groupOf } from '../../../../src/cli/terminal/commands.ts';
import { dispatch, formOf } from '../../../../src/cli/terminal/parse/command-line.ts';

/** What the whole program makes of the line. Null: it asks for help, or is wrong. */
function parsed(argv: readonly string[]): unknown {
  try {
    return dispatch(argv, {
      run: ({ name }, args, flags) => ({ name, args, flags }),
      help: () => null,
    });
  } catch {
    return null;
  }
}

function quick(name: string, argv: readonly string[]): unknown {
  const spec = commands.find((spec) => spec.name === name);
  assert.ok(spec);
  const line = readQuickLine(argv, formOf(spec));
  return line === null ? null : { name, ...line };
}

for (const spec of commands.filter(({ isQuick }) => isQuick)) {
  const { name } = spec;
  const { flags } = formOf(spec);

  test(`svc ${name} reads each of its lines as the whole program does, and no other`, () => {
    const first = name.split(' ')[0] ?? '';
    const word = fc.oneof(
      fc.constantFrom('5', '007', '1e3', 'x y', '', '-', '--', '--json', '--no-json', '-h', '-jf'),
      fc.constantFrom('--json=1', '--no-such', '--constructor', '-constructor', '--__proto__'),
      fc.constantFrom(...flags.flatMap((flag) => [`--${flag.name}`, `--${flag.name}=5`]), 'help'),
      fc.constantFrom(...flags.map((flag) => `-${flag.short ?? flag.name[0]}`), '-x'),
      fc.constantFrom(first, ...groupOf(first).map((spec) => spec.name.split(' ')[1] ?? '')),
      fc.string(),
    );
    const words = fc.array(word, { maxLength: 4 });
    let read = 0;
    const everyLine = fc.property(
      fc.array(word, { maxLength: 1 }),
      words,
      words,
      (before, between, after) => {
        const [one = '', ...two] = name.split(' ');
        const argv =
          two.length === 0
            ? [...before, one, ...between, ...after]
            : [...before, one, ...between.slice(0, 1), ...two, ...after];
        const whole = parsed(argv) as { name: string } | null;
        if (whole !== null && whole.name === name) read += 1;
        assert.equal(quick(name, argv), whole?.name === name ? whole : null, argv.join(' '));
      },
    );
    // Few lines of a command with arguments are right: now and then hardly one of 500 is.
    for (let round = 0; round < 20 && read <= 2; round += 1) fc.assert(everyLine, { numRuns: 500 });
    assert.ok(read > 2, `${read} lines were right`);
  });
}

test('a flag has the same letter in every command', () => {
  const letters = Map.groupBy(
    commands.flatMap((spec) => formOf(spec).flags),
    ({ name }) => name,
  );
  for (const [name, flags] of letters)
    assert.is(new Set(flags.map(({ short }) => short)).size, 1, `--${name}`);
});

test('every spelling is read without the whole program', () => {
  const tail = { name: 'logs', args: [], flags: { tail: '5' } };
  for (const argv of [
    ['logs', '--tail', '5'],
    ['logs', '--tail=5'],
    ['logs', '-n5'],
    ['logs', '-n=5'],
    ['--tail=5', 'logs'],
  ])
    assert.equal(quick('logs', argv), tail, argv.join(' '));
  const list = { name: 'runs list', args: [], flags: { json: true } };
  for (const argv of [
    ['--json', 'runs', 'list'],
    ['runs', '--json', 'list'],
  ])
    assert.equal(quick('runs list', argv), list, argv.join(' '));
  assert.equal(quick('run', ['run', '--provider=local', '--model', 'a', '-mb', '--', '-x']), {
    name: 'run',
    args: ['-x'],
    flags: { provider: 'local', model: ['a', 'b'] },
  });
  assert.equal(quick('version', ['-v']), { name: 'version', args: [], flags: {} });
});

test('help and wrong lines are left to the whole program', () => {
  for (const argv of [
    ['status', '--at'],
    ['status', '--at', '--why'],
    ['status', '--why', '--why'],
    ['status', '--help'],
    ['status', '-w'],
    ['status', '--', '--why'],
    ['status', 'word'],
    ['stop'],
  ])
    assert.is(quick('status', argv), null, argv.join(' '));
});

test.run();
