import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { commands, flagsOf } from '../../../src/cli/commands.ts';
import { dispatch } from '../../../src/cli/parse/command-line.ts';
import { plainForm } from '../../../src/cli/parse/plain-form.ts';
import { type PlainForm, readPlainLine } from '../../../src/cli/parse/plain-line.ts';

/** What the parser makes of the line. Null: it asks for help, or is wrong. */
function parsed(name: string, argv: readonly string[]): unknown {
  try {
    return dispatch([...name.split(' '), ...argv], {
      run: (_, args, flags) => ({ args, flags }),
      help: () => null,
    });
  } catch {
    return null;
  }
}

const formOf = (wanted: string): PlainForm => {
  const spec = commands.find(({ name }) => name === wanted);
  assert.ok(spec);
  return plainForm(spec);
};

for (const spec of commands.filter(({ isQuick }) => isQuick)) {
  const { name } = spec;
  const form = plainForm(spec);
  const flags = flagsOf(spec).filter((flag) => flag.name !== 'help' && flag.name !== 'json');

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
      { numRuns: 500 },
    );
    assert.ok(plain > 5, `${plain} lines were plain`);
  });
}

test('any other line is left to the parser', () => {
  const status = formOf('status');
  const run = formOf('run');
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
  assert.is(readPlainLine([], formOf('runs show')), null);
  assert.is(readPlainLine(['a', 'b'], formOf('runs show')), null);
  assert.equal(readPlainLine(['a', 'b'], formOf('runs search'))?.args, ['a', 'b']);
});

test.run();
