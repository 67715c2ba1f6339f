import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { delimiter, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { programs } from '../../src/cli/launch/programs.ts';
import { type Home, makeHome, PROGRAM } from '../helpers/svc.ts';
import { Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';

/** svc launch, with programs that only say what they got. */

const test = suite<{ home: Home; bin: string }>('svc launch');
test.before((context) => {
  context.home = makeHome();
  context.bin = join(context.home.folder, 'bin');
  mkdirSync(context.bin);
  for (const name of ['claude', 'codex', 'opencode', 'aider']) {
    const file = join(context.bin, name);
    writeFileSync(file, SAYS);
    chmodSync(file, 0o755);
  }
});
test.after(({ home }) => home.close());

/** It asks the daemon with its token, as the program would, and ends with the code 5. */
const SAYS = `#!${process.execPath}
const { env, argv } = process;
const url = env.ANTHROPIC_BASE_URL ?? env.OPENAI_API_BASE;
const token = env.ANTHROPIC_AUTH_TOKEN ?? env.OPENAI_API_KEY;
const status = async (path) =>
  (await fetch(new URL(path, url), { headers: { authorization: 'Bearer ' + token } })).status;
(async () => {
  const seen = url === undefined ? [] : [await status('/v1/models'), await status('/v1/events')];
  console.log(JSON.stringify({ args: argv.slice(2), env, seen }));
  process.exitCode = 5;
})();
`;

const launch = (home: Home, bin: string, words: string[]) =>
  home.svc(['launch', ...words], { env: { PATH: `${bin}${delimiter}${process.env.PATH}` } });

test('a program gets the address, the model, and a token that ends with it', async ({
  home,
  bin,
}) => {
  const claude = await launch(home, bin, ['claude', '--', '-p', 'hi']);
  assert.is(claude.code, 5, claude.stderr);
  const { args, env, seen } = JSON.parse(claude.stdout);
  assert.equal(args, ['-p', 'hi']);
  assert.equal(env.ANTHROPIC_MODEL, 'local/svc-mini');
  assert.equal(seen, [200, 403], 'its token asks, and does not see the whole');
  assert.match(claude.stderr, /local\/svc-mini has a context of \d+ tokens, .* about 32768/);
  const { stdout } = await home.svc(['token', 'list', '--json']);
  assert.equal(JSON.parse(stdout).tokens, [], 'it was revoked');
  const codex = JSON.parse((await launch(home, bin, ['codex', '--', 'exec'])).stdout);
  assert.is(codex.args.at(-1), 'exec');
  assert.match(codex.args.join('\n'), /base_url = "http:\/\/127\.0\.0\.1:\d+\/v1"/);
  const opencode = JSON.parse((await launch(home, bin, ['opencode'])).stdout);
  assert.is(JSON.parse(opencode.env.OPENCODE_CONFIG_CONTENT).model, 'svc/local/svc-mini');
  const aider = JSON.parse((await launch(home, bin, ['aider', '-m', 'svc-mini'])).stdout);
  assert.equal(
    [aider.args, aider.seen],
    [
      ['--model', 'openai/local/svc-mini'],
      [200, 403],
    ],
  );
});

test('the token of a launch that was killed ends, without another launch', async ({
  home,
  bin,
}) => {
  const held = join(bin, 'held');
  const holds = `#!${process.execPath}
require('node:fs').writeFileSync(${JSON.stringify(held)} + '.part', JSON.stringify({
  pid: process.pid, url: process.env.ANTHROPIC_BASE_URL, token: process.env.ANTHROPIC_AUTH_TOKEN,
}));
require('node:fs').renameSync(${JSON.stringify(held)} + '.part', ${JSON.stringify(held)});
setInterval(() => {}, 1000);
`;
  const folder = join(bin, 'holding');
  mkdirSync(folder);
  writeFileSync(join(folder, 'claude'), holds, { mode: 0o755 });
  const env = { ...home.env, PATH: `${folder}${delimiter}${process.env.PATH}` };
  const child = spawn(process.execPath, [PROGRAM, 'launch', 'claude'], { env, stdio: 'ignore' });
  const gone = once(child, 'exit');
  await waitFor('the program has its token', () => existsSync(held));
  const { pid, url, token } = JSON.parse(readFileSync(held, 'utf8'));
  const status = async () =>
    (await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${token}` } })).status;
  try {
    assert.is(await status(), 200);
    child.kill('SIGKILL');
    await gone;
    assert.is(await status(), 401);
    await waitFor('it is no more in the list', async () => {
      const { stdout } = await home.svc(['token', 'list', '--json']);
      return JSON.parse(stdout).tokens.length === 0;
    });
  } finally {
    process.kill(pid, 'SIGKILL');
  }
});

test('a server that does not say what its models can is said to be unknown', async ({
  home,
  bin,
}) => {
  const upstream = await Upstream.start();
  try {
    const words = ['provider', 'add', 'fake', '--base-url', upstream.base_url, '--model', 'm'];
    assert.is((await home.svc(words)).code, 0);
    const { stderr } = await launch(home, bin, ['claude', '-m', 'fake/m']);
    const said = 'svc does not know whether fake/m calls tools. An agent needs them.';
    assert.match(stderr, said);
    assert.not.match(stderr, 'warning:');
    await home.svc(['provider', 'remove', 'fake']);
  } finally {
    await upstream.stop();
  }
});

test('what cannot be launched says what to do', async ({ home, bin }) => {
  const unknown = await launch(home, bin, ['claud']);
  assert.equal([unknown.code, /svc launch claude\?/.test(unknown.stderr)], [2, true]);
  const none = await launch(home, bin, ['aider', '-m', 'mini']);
  assert.equal([none.code, /no model "mini"/.test(none.stderr)], [7, true], none.stderr);
  const zed = await launch(home, bin, ['zed']);
  assert.equal([zed.code, /svc launch zed --config/.test(zed.stderr)], [2, true]);
  const missing = await launch(home, join(bin, 'none'), ['claude']);
  assert.equal([missing.code, /npm install -g @anthropic/.test(missing.stderr)], [2, true]);
});

test('a configuration is shown first, keeps what is there, and has a token that lasts', async ({
  home,
  bin,
}) => {
  const file = join(home.folder, '.claude', 'settings.json');
  mkdirSync(join(home.folder, '.claude'));
  writeFileSync(file, '{ // mine\n  "theme": "dark"\n}\n');
  const shown = await launch(home, bin, ['claude', '--config']);
  assert.is(shown.code, 2);
  assert.match(shown.stdout, /\+ env\.ANTHROPIC_AUTH_TOKEN: "<token>"/);
  assert.not.match(readFileSync(file, 'utf8'), /ANTHROPIC/);
  const written = await launch(home, bin, ['claude', '--config', '--yes']);
  assert.is(written.code, 0, written.stderr);
  const text = readFileSync(file, 'utf8');
  assert.ok(text.includes('// mine') && text.includes('"theme": "dark"'), text);
  assert.match(text, /"ANTHROPIC_AUTH_TOKEN": "[^"<]{20,}"/);
  assert.equal(readdirSync(join(home.folder, '.claude')), ['settings.json'], 'no lock is left');
  const again = await launch(home, bin, ['claude', '--config', '--yes']);
  assert.match(again.stderr, /svc token revoke claude/);
  const codex = await launch(home, bin, ['codex', '--config']);
  assert.match(codex.stdout, /^model = "local\/svc-mini"\nmodel_provider = "svc"\n/);
  // Continue reads no file without these three.
  const { stdout } = await launch(home, bin, ['continue', '--config']);
  assert.match(stdout, /^name: svc\nversion: .+\nschema: v1\nmodels:\n/);
});

test('each program can be started or configured', () => {
  for (const [name, { config, start }] of Object.entries(programs))
    assert.ok(
      start !== undefined || config.values !== undefined || config.text !== undefined,
      name,
    );
});

test.run();
