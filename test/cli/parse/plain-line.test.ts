import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { commands, flagsOf } from '../../../src/cli/commands.ts';
import { dispatch } from '../../../src/cli/parse/command-line.ts';
import { type PlainForm, readPlainLine } from '../../../src/cli/parse/plain-line.ts';
import { form as health } from '../../../src/cli/quick/health.ts';
import { form as logs } from '../../../src/cli/quick/logs.ts';
import { form as run } from '../../../src/cli/quick/run.ts';
import { form as status } from '../../../src/cli/quick/status.ts';
import { form as version } from '../../../src/cli/quick/version.ts';

const FORMS: Record<string, PlainForm> = { version, status, health, logs, run };

/** What the parser makes of the line. Null: it asks for help, or is wrong. */
function parsed(name: string, argv: readonly string[]): unknown {
  try {
    return dispatch([name, ...argv], {
      run: (_, args, flags) => ({ args, flags }),
      help: () => null,
    });
  } catch {
    return null;
  }
}

for (const [name, form] of Object.entries(FORMS)) {
  const spec = commands.find((command) => command.name === name);
  assert.ok(spec);
  const flags = flagsOf(spec).filter((flag) => flag.name !== 'help' && flag.name !== 'json');

  test(`a plain line of svc ${name} has flags of the command, and takes as many words`, () => {
    const { switches = [], values = [], short = {} } = form;
    const named = (hasValue: boolean) =>
      flags.filter(({ value }) => (value !== undefined) === hasValue).map((flag) => flag.name);
    for (const flag of switches) assert.ok(named(false).includes(flag), flag);
    for (const flag of values) assert.ok(named(true).includes(flag), flag);
    for (const [letter, flag] of Object.entries(short))
      assert.ok(
        flags.some((one) => one.short === letter && one.name === flag),
        letter,
      );
    assert.is(form.words ?? 0, spec.args.split(' ').filter(Boolean).length);
  });

  test(`the parser reads a plain line of svc ${name} the same way`, () => {
    const word = fc.oneof(
      fc.constantFrom('5', '007', '1e3', 'x y', '', '-', '--', '--json', '--no-json', '-h', '-jf'),
      fc.constantFrom('--json=1', '--no-such', '--constructor', '-constructor', '--__proto__'),
      fc.constantFrom(...flags.flatMap((flag) => [`--${flag.name}`, `--${flag.name}=5`]), 'help'),
      fc.constantFrom(...flags.map((flag) => `-${flag.short ?? flag.name[0]}`), '-x'),
      fc.string(),
    );
    let plain = 0;
    fc.assert(
      fc.property(fc.array(word, { maxLength: 5 }), (argv) => {
        const line = readPlainLine(argv, form);
        if (line === null) return;
        plain += 1;
        assert.equal(line, parsed(name, argv), argv.join(' '));
      }),
      { numRuns: 2000 },
    );
    assert.ok(plain > 50, `${plain} lines were plain`);
  });
}

test('any other line is left to the parser', () => {
  for (const argv of [
    ['--at'],
    ['--at', ''],
    ['--at', '--why'],
    ['--at=5'],
    ['--why', '--why'],
    ['--help'],
    ['-w'],
    ['--', '--why'],
    ['word'],
    [''],
  ])
    assert.is(readPlainLine(argv, status), null, argv.join(' '));
  assert.equal(readPlainLine(['--at', '5', '--why', '--json'], status), {
    args: [],
    flags: { at: '5', why: true, json: true },
  });
  assert.equal(readPlainLine(['-m', 'x', 'What is svc?'], run), {
    args: ['What is svc?'],
    flags: { model: 'x' },
  });
});

test.run();
