import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { commands } from '../../src/cli/commands.ts';
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
  const words = line.split(' ');
  const program = `${script}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _svc; printf '%s\\n' "\${COMPREPLY[@]}"`;
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
  assert.equal(complete(bash, 'svc ').sort(), [...first, '--help', '--version'].sort());
  assert.equal(complete(bash, 'svc st'), ['start', 'stop', 'status']);
  assert.equal(complete(bash, 'svc runs '), [
    'list',
    'show',
    'attach',
    'cancel',
    'why',
    'replay',
    'export',
  ]);
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
  assert.equal(complete(bash, 'svc completion '), ['bash', 'zsh', 'fish', '--json', '--help']);
  assert.equal(complete(bash, 'svc run --model '), []);
  assert.equal(complete(bash, 'svc run -m '), []);
});

for (const shell of ['zsh', 'fish']) {
  test(`the script for ${shell} has every command and every flag`, async ({ home }) => {
    const { code, stdout } = await home.svc(['completion', shell]);
    assert.is(code, 0);
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
