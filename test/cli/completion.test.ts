import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { machines } from '../../machines/all.ts';
import { describe } from '../../machines/describe.ts';
import { runMachine } from '../../machines/run/chart.ts';
import { commands } from '../../src/cli/terminal/commands.ts';
import { RUN_STATES } from '../../src/contract/words.ts';
import { buildsFor } from '../../src/home/engine-builds.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { atTerminal, commandOf, hasTerminal } from '../helpers/terminal.ts';

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
  assert.equal(complete(bash, 'svc config set log_level w'), ['warn']);
  assert.equal(complete(bash, 'svc config set history.prompts '), ['keep', 'omit']);
  assert.equal(complete(bash, 'svc config set model '), ['models-1', 'models:2']);
  assert.equal(complete(bash, 'svc launch co'), ['codex', 'continue']);
  assert.equal(complete(bash, 'svc engine install '), ['builds-1', 'builds:2']);
  assert.equal(complete(bash, 'svc pull '), ['catalogue-1', 'catalogue:2']);
  assert.equal(complete(bash, 'svc rm '), ['models-1', 'models:2']);
  assert.equal(complete(bash, 'svc runs export --output '), []);
});

test('a list of runs takes each state that a record of a run can have', ({ bash }) => {
  const paths = describe(runMachine).states.filter(({ type }) =>
    ['atomic', 'final'].includes(type),
  );
  const states = new Set(paths.map(({ path }) => path.split('.')[0]));
  assert.equal(
    [...RUN_STATES].sort(),
    [...states].sort(),
    'RUN_STATES is in src/contract/words.ts',
  );
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
  assert.equal(await list('builds'), Object.keys(buildsFor()));
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

/** Values of settings, programs and builds, where a Tab key asks for them. */
const OFFERS: readonly (readonly [line: string, offers: RegExp])[] = [
  ['svc config set log_level ', /\bdebug\b[\s\S]*\bwarn\b/],
  ['svc config set history.outputs ', /\bkeep\b[\s\S]*\bomit\b/],
  ['svc launch ', /\bclaude\b[\s\S]*\bopencode\b/],
  ['svc engine install ', /\bcuda\b[\s\S]*\bvulkan\b/],
  ['svc pull ', /\bqwen3:0\.6b\b/],
];

const hasFish = spawnSync('fish', ['--version']).status === 0;
if (!hasFish) console.log('skipped: no fish');
(hasFish ? test : test.skip)('fish offers values', async ({ home }) => {
  const file = join(home.folder, 'offers.fish');
  writeFileSync(file, (await home.svc(['completion', 'fish'])).stdout);
  for (const [line, offers] of OFFERS) {
    const ask = `function svc; ${commandOf([])} $argv; end; source ${file}; complete -C '${line}'`;
    const { stdout, stderr } = spawnSync('fish', ['-c', ask], { env: home.env, encoding: 'utf8' });
    assert.match(stdout, offers, `${line}: ${stdout}${stderr}`);
  }
});

const hasZsh = hasTerminal && spawnSync('zsh', ['--version']).status === 0;
if (!hasZsh) console.log('skipped: no zsh');
(hasZsh ? test : test.skip)('zsh offers values', async ({ home }) => {
  const file = join(home.folder, 'offers.zsh');
  writeFileSync(file, (await home.svc(['completion', 'zsh'])).stdout);
  const begin =
    `PS1='zsh# '; LISTMAX=999; autoload -U compinit; compinit -u -d ${home.folder}/dump; ` +
    `svc() { ${commandOf([])} "$@" }; source ${file}`;
  for (const [line, offers] of OFFERS) {
    let step = 0;
    const { text } = await atTerminal('zsh -f -i', home.env, (typed, all) => {
      const seen = stripVTControlCharacters(all);
      if (step === 0 && all.includes('\u001b[?2004h')) step = typed.write(`${begin}\r`) ? 1 : 1;
      if (step === 1 && seen.includes('zsh# ')) step = typed.write(`${line}\t\t`) ? 2 : 2;
      const offered = seen.slice(seen.lastIndexOf(line) + line.length);
      if (step === 2 && seen.includes(line) && offers.test(offered))
        step = typed.write('\u0003\rexit\r') ? 3 : 3;
      return step === 3;
    });
    assert.match(stripVTControlCharacters(text), offers, line);
  }
});

test.run();
