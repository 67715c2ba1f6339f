import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { machines } from '../../machines/all.ts';
import { describe } from '../../machines/describe.ts';
import { runMachine } from '../../machines/run/chart.ts';
import { commands } from '../../src/cli/commands.ts';
import { RUN_STATES } from '../../src/contract/options.ts';
import { type Home, makeHome } from '../helpers/svc.ts';

const test = suite<{ home: Home; bash: string }>('svc completion');

test.before(async (context) => {
  context.home = makeHome();
  context.bash = (await context.home.svc(['completion', 'bash'])).stdout;
});
test.after(async ({ home }) => {
  await home.close();
});

/** What bash offers when Tab is pressed at the end of the line. */
function complete(script: string, line: string): string[] {
  // What `svc completion --list` prints, without a process of svc.
  const svc = `svc() { [ "$2" = --list ] && printf '%s\\n' "$3-1" "$3:2"; }`;
  const program = `${svc}\n${script}\nCOMP_LINE='${line}' COMP_POINT=${line.length}; _svc; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { status, stdout, stderr } = spawnSync('bash', ['--norc', '-c', program], {
    encoding: 'utf8',
  });
  assert.equal([status, stderr], [0, '']);
  return stdout.split('\n').filter(Boolean);
}

test('bash takes the script', ({ bash }) => {
  const { status, stderr } = spawnSync('bash', ['-n'], { input: bash, encoding: 'utf8' });
  assert.equal([status, stderr], [0, '']);
});

test('bash offers commands, then the commands of a group', ({ bash }) => {
  const first = new Set(commands.map(({ name }) => name.split(' ')[0]));
  assert.equal(complete(bash, 'svc ').sort(), [...first, 'help', '--help', '--version'].sort());
  assert.equal(complete(bash, 'svc st'), ['start', 'stop', 'status']);
  const second = commands.flatMap(({ name }) => /^runs (.+)$/.exec(name)?.[1] ?? []);
  assert.equal(complete(bash, 'svc runs '), second);
  assert.equal(complete(bash, 'svc provider re'), ['remove']);
});

test('bash offers every flag of every command', ({ bash }) => {
  for (const { name, flags } of commands) {
    const offered = complete(bash, `svc ${name} --`);
    for (const flag of flags)
      assert.ok(offered.includes(`--${flag.name}`), `${name} --${flag.name}`);
    assert.ok(offered.includes('--help'));
  }
});

test('bash offers the values a flag is chosen from, and leaves free ones to the files', ({
  bash,
}) => {
  assert.equal(complete(bash, 'svc health --source '), ['http', 'grpc', 'socket']);
  assert.equal(complete(bash, 'svc provider add x --kind c'), ['cloud']);
  assert.equal(complete(bash, 'svc logs --level wa'), ['warn']);
  assert.equal(complete(bash, 'svc completion '), [
    'bash',
    'zsh',
    'fish',
    '--json',
    '--help',
    '-h',
  ]);
  assert.equal(complete(bash, 'svc machines --format a'), ['ascii']);
  assert.equal(complete(bash, 'svc runs list --state fa'), ['failed']);
  assert.equal(complete(bash, 'svc run --recovery e'), ['end']);
  assert.equal(complete(bash, 'svc help comp'), ['completion']);
  assert.equal(complete(bash, 'svc help runs sh'), ['show']);
  assert.equal(complete(bash, 'svc run --conversation runs-'), ['runs-1']);
  assert.equal(complete(bash, 'svc run --system '), []);
  assert.equal(complete(bash, 'svc runs export --output '), []);
});

test('a list of runs takes each state that a record of a run can have', ({ bash }) => {
  const paths = describe(runMachine).states.filter(({ type }) =>
    ['atomic', 'final'].includes(type),
  );
  const states = new Set(paths.map(({ path }) => path.split('.')[0]));
  assert.equal([...RUN_STATES].sort(), [...states].sort());
  assert.equal(complete(bash, 'svc runs list --state '), [...RUN_STATES]);
});

test('svc machines names each machine, in the order of their table', ({ bash }) => {
  const names = machines.map(({ id }) => id);
  const args = commands.find(({ name }) => name === 'machines')?.args ?? '';
  assert.match(args, `[${names.join('|')}|diff]`);
  const offered = complete(bash, 'svc machines ');
  assert.equal(offered.slice(0, names.length), names);
});

test('bash asks svc for names, and a name may have a colon', ({ bash }) => {
  assert.equal(complete(bash, 'svc run --model '), ['models-1', 'models:2']);
  assert.equal(complete(bash, 'svc run -m models:'), ['2'], 'bash keeps what is before a colon');
  assert.equal(complete(bash, 'svc run -p '), ['providers-1', 'providers:2']);
  assert.equal(complete(bash, 'svc runs show '), ['runs-1', 'runs:2']);
  assert.equal(complete(bash, 'svc runs replay runs-'), ['runs-1']);
  assert.equal(complete(bash, 'svc runs show --j'), ['--json']);
  assert.equal(complete(bash, 'svc logs --run '), ['runs-1', 'runs:2']);
  assert.equal(complete(bash, 'svc model show '), ['models-1', 'models:2']);
  assert.equal(complete(bash, 'svc provider test '), ['providers-1', 'providers:2']);
  assert.equal(complete(bash, 'svc nodes drain '), ['nodes-1', 'nodes:2']);
});

test('names come without a daemon, which is not started for them', async ({ home }) => {
  const list = async (kind: string) => {
    const { code, stdout, stderr } = await home.svc(['completion', '--list', kind]);
    assert.equal([code, stderr], [0, '']);
    return stdout.split('\n').filter(Boolean);
  };
  mkdirSync(home.paths.models, { recursive: true });
  writeFileSync(join(home.paths.models, 'tiny.gguf'), '');
  writeFileSync(
    home.paths.config,
    JSON.stringify({
      aliases: { fast: 'tiny', 'a b': 'tiny' },
      providers: { near: { base_url: 'http://127.0.0.1:9/v1' } },
    }),
  );
  assert.equal(await list('runs'), []);
  assert.equal(await list('models'), ['local/svc-mini', 'local/tiny', 'fast']);
  assert.equal(await list('providers'), ['local', 'near']);
  assert.ok((await list('settings')).includes('limits.queue_runs'));
  writeFileSync(home.paths.config, '{');
  assert.equal(await list('providers'), [], 'a broken file offers nothing');
  assert.not.ok(existsSync(home.paths.runtime));
});

for (const shell of ['zsh', 'fish']) {
  test(`the script for ${shell} has every command and every flag`, async ({ home }) => {
    const { code, stdout } = await home.svc(['completion', shell]);
    assert.is(code, 0);
    if (shell === 'zsh') assert.match(stdout, /^#compdef svc\n/);
    for (const { name, flags } of commands) {
      for (const word of name.split(' ')) assert.match(stdout, word);
      for (const flag of flags)
        assert.match(stdout, shell === 'zsh' ? `--${flag.name}[` : `-l ${flag.name} `);
    }
    const file = join(home.folder, `svc.${shell}`);
    writeFileSync(file, stdout);
    const { error, stderr } = spawnSync(shell, ['-n', file], { encoding: 'utf8' });
    if (error === undefined) assert.is(stderr, '');
  });
}

test.run();
