import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { commands } from '../../src/cli/terminal/commands.ts';
import type { CommandModule } from '../../src/cli/terminal/context.ts';
import { perform } from '../../src/cli/terminal/execute.ts';
import { dispatch } from '../../src/cli/terminal/parse/command-line.ts';
import { helpText } from '../../src/cli/terminal/parse/help.ts';
import { SvcError } from '../../src/errors.ts';
import { packageRoot } from '../../src/home/paths.ts';
import { type Home, makeHome } from '../helpers/svc.ts';

const test = suite<{ home: Home }>('the command line');

test.before((context) => {
  context.home = makeHome();
});
test.after(async ({ home }) => {
  await home.close();
});

/** What the parser makes of a command line. */
const read = (name: string, argv: string[]) =>
  dispatch([...name.split(' '), ...argv], {
    run: (spec, args, flags) => {
      assert.is(spec.name, name);
      return { args, flags };
    },
    help: (shown) => assert.unreachable(`help of ${shown}`) as never,
  });
const refused = (name: string, argv: string[]): string => {
  try {
    read(name, argv);
  } catch (error) {
    assert.instance(error, SvcError);
    assert.is((error as SvcError).code, 'usage');
    return `${(error as SvcError).message} ${(error as SvcError).hint}`;
  }
  return assert.unreachable(`${name} ${argv.join(' ')} was taken`) as never;
};

test('every command of the table has code', async () => {
  for (const { name, file } of commands)
    assert.type((await import(`../../src/cli/${file}.ts`)).run, 'function', name);
});

test('the build has a file of every quick command, of the help and of the daemon, and no other', () => {
  const built = readdirSync(join(packageRoot(), 'dist', 'src', 'cli', 'quick'));
  assert.equal(
    built.filter((file) => file.endsWith('.js')).sort(),
    [...commands.filter(({ isQuick }) => isQuick), { name: 'help' }, { name: 'serve' }]
      .map(({ name }) => `${name.replace(' ', '-')}.js`)
      .sort(),
  );
});

test('every group and every command has its help', () => {
  const groups = ['', 'model', 'provider', 'runs', 'config'];
  for (const name of [...groups, ...commands.map((command) => command.name)]) {
    const words = name === '' ? [] : name.split(' ');
    let shown: string | null = null;
    dispatch([...words, '--help'], {
      run: () => assert.unreachable(`${name} runs`) as never,
      help: (of) => {
        shown = of;
      },
    });
    assert.is(shown, name);
    const text = helpText(name);
    assert.match(text, `svc ${name}`);
    for (const { name: flag } of commands.find((command) => command.name === name)?.flags ?? [])
      assert.match(text, `--${flag}`);
    const written = text.split('\n').filter((line) => !line.startsWith('  svc '));
    assert.ok(
      written.every((line) => line.length <= 100),
      `${name} is too wide`,
    );
  }
});

test('help is on stdout with exit 0', async ({ home }) => {
  for (const name of ['', 'runs', 'runs show', 'serve']) {
    const words = name === '' ? [] : name.split(' ');
    const { code, stdout, stderr } = await home.svc([...words, '--help']);
    assert.equal([code, stdout, stderr], [0, `${helpText(name)}\n`, ''], name);
  }
  for (const [argv, name] of [
    [[], ''],
    [['runs'], 'runs'],
    [['help', 'runs'], 'runs'],
  ] as const) {
    const { code, stdout } = await home.svc(argv);
    assert.equal([code, stdout], [0, `${helpText(name)}\n`]);
  }
});

/** Command lines that the parser refuses, and what the hint names. */
const UNKNOWN: readonly (readonly [argv: readonly string[], hint: string])[] = [
  [['rn', 'x'], 'svc run'],
  [['sttaus'], 'svc status'],
  [['stat'], 'svc status'],
  [['runs', 'lst'], 'svc runs list'],
  [['zzzzzz'], 'svc --help'],
  [['runs', 'zzzzzz'], 'svc runs --help'],
  [['run', 'x', '--modle', 'y'], '--model'],
  [['logs', '--folow'], '--follow'],
  [['--jsn', 'status'], '--json'],
  [['run', '-1 + 2'], '--'],
  [['status', '--no-json'], '--json'],
  [['run', 'x', '--start'], '--stats'],
  [['run', 'x', '-v'], 'run'],
  [['run', 'x', '--constructor'], 'svc run'],
  [['constructor'], 'svc'],
  [['__all__'], 'svc'],
  [['runs', '--limit', '3'], 'svc <command>'],
  [[''], 'svc --help'],
];

test('an unknown command or flag is refused with a suggestion', () => {
  for (const [argv, hint] of UNKNOWN)
    try {
      dispatch(argv, {
        run: () => assert.unreachable(`${argv.join(' ')} runs`) as never,
        help: () => assert.unreachable(`${argv.join(' ')} shows help`) as never,
      });
      assert.unreachable(argv.join(' '));
    } catch (error) {
      assert.instance(error, SvcError, argv.join(' '));
      assert.is((error as SvcError).code, 'usage');
      assert.match((error as SvcError).hint, hint);
    }
});

test('the program refuses them with exit 2, as text and as JSON', async ({ home }) => {
  // A command that needs all code, one of a group, and quick ones.
  for (const first of ['rn', 'runs', 'run', 'status']) {
    const [argv, hint] = UNKNOWN.find(([[word]]) => word === first) ?? [[], ''];
    const { code, stdout, stderr } = await home.svc(argv);
    assert.is(code, 2, argv.join(' '));
    assert.is(stdout, '');
    assert.match(stderr, /^error: .+\nhint: .+\n$/);
    assert.match(stderr.split('\n')[1] ?? '', hint);
    const json = await home.svc([...argv, '--json']);
    assert.equal([json.code, json.stdout], [2, '']);
    assert.is(JSON.parse(json.stderr).error.code, 'usage');
  }
});

test('arguments are counted, and only a prompt may have several words', () => {
  assert.match(refused('runs show', []), 'needs <id>');
  assert.match(refused('status', ['x']), 'takes no arguments');
  assert.match(refused('runs show', ['a', 'b']), '"b" is one too many');
  assert.equal(read('run', ['what', 'is', 'svc', '--seed', '1']).args, ['what', 'is', 'svc']);
  assert.match(refused('runs attach', ['']), '<id> of svc runs attach must not be empty');
  assert.match(refused('runs export', ['']), 'must not be empty');
});

test('flags that exclude each other are refused', async ({ home }) => {
  for (const argv of [
    ['status', '--why', '--at', '3'],
    ['run', 'p', '--detach', '--cancel-on-disconnect'],
  ]) {
    const { code, stdout, stderr } = await home.svc([...argv, '--json']);
    assert.equal([code, stdout, JSON.parse(stderr).error.code], [2, '', 'usage'], argv.join(' '));
  }
});

test('a flag is given once, with a value if it takes one and without if it does not', () => {
  assert.match(refused('stop', ['--timeout']), 'needs a value');
  assert.match(refused('run', ['x', '--system', '--cloud']), '--system=--cloud');
  assert.match(refused('run', ['x', '--cloud=yes']), 'takes no value');
  assert.match(refused('run', ['x', '--seed', '1', '--seed=2']), 'twice');
  assert.match(refused('run', ['x', '-p', 'a', '--provider', 'b']), 'twice');
  assert.equal(read('status', ['--json', '--json']).flags, { json: true });
});

test('the flag for the model may be given again, each time with a value', () => {
  assert.equal(read('run', ['x', '-m', 'a', '--model', 'b']).flags, { model: ['a', 'b'] });
  assert.equal(read('run', ['x', '-m', 'a']).flags, { model: 'a' });
  assert.match(refused('run', ['x', '-m', 'a', '-m']), 'needs a value');
});

test('values stay text, and a dash can be part of one', () => {
  assert.equal(read('run', ['007', '--seed', '007']), { args: ['007'], flags: { seed: '007' } });
  assert.equal(read('run', ['--system=-x', '--', '-y']), { args: ['-y'], flags: { system: '-x' } });
  assert.equal(read('run', ['-', '--temperature', '-1']), {
    args: ['-'],
    flags: { temperature: '-1' },
  });
  assert.equal(read('run', ['', '-pollama']), { args: [''], flags: { provider: 'ollama' } });
  assert.equal(read('run', ['--cloud', 'true', '--no-stream']), {
    args: ['true'],
    flags: { cloud: true, 'no-stream': true },
  });
  assert.equal(read('run', ['run', '--system', '']), { args: ['run'], flags: { system: '' } });
  assert.equal(read('run', ['--', '--json']), { args: ['--json'], flags: {} });
  assert.equal(read('run', ['x', '--no-start']), { args: ['x'], flags: { 'no-start': true } });
});

test('a tail takes a number or nothing', () => {
  for (const [argv, flags] of [
    [['--tail'], { tail: true }],
    [['-n'], { tail: true }],
    [['--tail', '5'], { tail: '5' }],
    [['--tail=5'], { tail: '5' }],
    [['-n', '5'], { tail: '5' }],
    [['-n5'], { tail: '5' }],
    [['-fn', '5'], { tail: '5', follow: true }],
    [['--tail', '--follow'], { tail: true, follow: true }],
    [['-n', '-f'], { tail: true, follow: true }],
    [['--tail', '-5'], { tail: '-5' }],
    [['--tail', 'abc'], { tail: 'abc' }],
  ] as const) {
    const { flags: found, args } = read('logs', [...argv]);
    assert.equal(args, []);
    assert.equal({ ...found }, flags, argv.join(' '));
  }
});

test('the error of a wrong value points to the help of its command', async ({ home }) => {
  assert.match((await home.svc(['run', 'x', '--seed', '-1'])).stderr, 'hint: See: svc run --help');
  assert.match((await home.svc(['logs', '--level', 'loud'])).stderr, 'hint: See: svc logs --help');
});

test('a log without matching lines says so', async ({ home }) => {
  const { code, stdout, stderr } = await home.svc(['logs', '--level', 'INFO']);
  assert.equal([code, stdout, stderr], [0, '', 'No matching lines.\n']);
});

/** Runs a command in this process. */
const performed = (argv: readonly string[]) =>
  dispatch<Promise<number>>(argv, {
    run: async ({ name, file }, args, flags) => {
      const { run }: CommandModule = await import(`../../src/cli/${file}.ts`);
      return perform(name, run, { args, flags });
    },
    help: () => assert.unreachable(`${argv.join(' ')} shows help`) as never,
  });

test('a malformed value is refused before any request', async () => {
  for (const argv of [
    ['logs', '--tail', 'abc'],
    ['logs', '--tail', '-5'],
    ['logs', '--tail', '1.5'],
    ['logs', '--tail', '1e3'],
    ['logs', '--tail='],
    ['logs', '--level', 'loud'],
    ['logs', '--since', 'yesterday'],
    ['run', 'x', '--timeout', '0'],
    ['run', 'x', '--timeout', '-1'],
    ['run', 'x', '--timeout', 'NaN'],
    ['run', 'x', '--timeout', 'Infinity'],
    ['run', 'x', '--max-tokens', '0'],
    ['run', 'x', '--max-tokens', '1.5'],
    ['run', 'x', '--temperature', '3'],
    ['run', 'x', '--seed', '-1'],
    ['run', 'x', '--seed', '4294967296'],
    ['run', 'x', '--model', ''],
    ['stop', '--timeout', 'soon'],
    ['health', '--source', 'pigeon'],
    ['runs', 'list', '--limit', '0'],
    ['runs', 'list', '--state', 'sleeping'],
    ['provider', 'add', 'x'],
    ['provider', 'add', 'X', '--base-url', 'http://127.0.0.1'],
    ['provider', 'add', 'x', '--base-url', 'ftp://127.0.0.1'],
    ['provider', 'add', 'x', '--base-url', 'http://127.0.0.1', '--kind', 'remote'],
    ['completion', 'tcsh'],
  ]) {
    const error = await performed([...argv, '--json']).then(
      () => assert.unreachable(`${argv.join(' ')} was taken`) as never,
      (thrown: SvcError) => thrown,
    );
    assert.ok(['usage', 'invalid_request'].includes(error.code), `${argv.join(' ')}: ${error}`);
    assert.is(error.spec.exit, 2);
  }
});

test('the program refuses a malformed value with exit 2', async ({ home }) => {
  for (const argv of [
    ['logs', '--level', 'loud'],
    ['run', 'x', '--timeout', '0'],
    ['start', '--wait', '0'],
    ['start', '--log-level', 'loud'],
    ['start', '--http', 'nowhere'],
    ['serve', '--grpc', '127.0.0.1:70000'],
  ]) {
    const { code, stdout, stderr } = await home.svc([...argv, '--json']);
    assert.equal([code, stdout], [2, ''], argv.join(' '));
    assert.ok(['usage', 'invalid_request'].includes(JSON.parse(stderr).error.code), stderr);
  }
});

test.run();
