import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { hasTerminal, typeAt } from '../helpers/terminal.ts';
import { SCRIPTED } from '../helpers/tool-servers.ts';

/** The commands for tool servers, without and with a daemon. */

const homes: Home[] = [];
test.after.each(async () => {
  for (const home of homes.splice(0)) await home.close();
});

function newHome(): { home: Home; file: string } {
  const home = makeHome();
  homes.push(home);
  return { home, file: join(dirname(home.paths.config), 'mcp.json') };
}

test('add, set, list and remove work without a daemon, and keep comments', async () => {
  const { home, file } = newHome();
  const add = ['mcp', 'add', 'x', '--env', 'TOKEN', '--', process.execPath, SCRIPTED, '--flag'];
  assert.is((await home.svc(add)).code, 0);
  assert.is(statSync(file).mode & 0o777, 0o600);
  const written = JSON.parse(readFileSync(file, 'utf8')).mcpServers.x;
  assert.equal(written.args, [SCRIPTED, '--flag']);
  assert.equal(written.env, { TOKEN: `\${env:TOKEN}` });
  assert.match((await home.svc(add)).stderr, /configured already.*\n.*svc mcp remove x$/m);
  writeFileSync(file, readFileSync(file, 'utf8').replace('{', '{ // mine'));
  const set = await home.svc(['mcp', 'set', 'x', '--trusted', '--tool', 'put=deny']);
  assert.is(set.code, 0, set.stderr);
  const text = readFileSync(file, 'utf8');
  assert.ok(text.includes('// mine') && text.includes('"trusted": true'), text);
  const { stdout } = await home.svc(['mcp', 'list', '--json']);
  const [server] = JSON.parse(stdout).servers;
  assert.equal([server.name, server.state, server.trusted], ['x', 'stopped', true]);
  assert.is((await home.svc(['mcp', 'set', 'y', '--trusted'])).code, 7);
  assert.is((await home.svc(['mcp', 'add', 'a/b', '--url', 'http://localhost/'])).code, 2);
  assert.is((await home.svc(['mcp', 'add', 'both', '--url', 'http://localhost/', 'x'])).code, 2);
  assert.is((await home.svc(['mcp', 'remove', 'x'])).code, 0);
  assert.is((await home.svc(['mcp', 'remove', 'x'])).code, 7);
  assert.is((await home.svc(['mcp', 'show', 'x'])).code, 3);
});

const THEIRS = {
  'My Server': {
    command: 'npx',
    args: ['-y', 'a package', `\${HOME}/notes`, `\${DEBUG:-off}`],
    env: { KEY: 'secret-value', TOKEN: `\${env:OPENAI_API_KEY}`, OWN: `\${key:OWN}` },
    svc: { trusted: true },
  },
  issues: { url: 'https://issues.test/mcp', headers: { 'X-Key': `\${env:OPENAI_API_KEY}` } },
  old: { type: 'sse', url: 'http://a/' },
};

function theirs(folder: string): string {
  const from = join(folder, 'their.json');
  writeFileSync(from, JSON.stringify({ servers: THEIRS }));
  return from;
}

test('the files of other programs are imported, without what they allow', async () => {
  const { home, file } = newHome();
  const from = theirs(home.folder);
  const { code, stdout } = await home.svc(['mcp', 'import', from, '--yes', '--json']);
  assert.is(code, 6);
  const { imported, servers, skipped } = JSON.parse(stdout);
  assert.equal([imported, skipped[0].name], [['My-Server', 'issues'], 'old']);
  assert.equal(servers, [
    {
      name: 'My-Server',
      target: 'npx …',
      variables: ['HOME', 'DEBUG', 'OPENAI_API_KEY'],
      keys: ['OWN'],
      env: ['KEY'],
      headers: [],
    },
    {
      name: 'issues',
      target: 'https://issues.test/mcp',
      variables: ['OPENAI_API_KEY'],
      keys: [],
      env: [],
      headers: ['X-Key'],
    },
  ]);
  const { svc, env } = JSON.parse(readFileSync(file, 'utf8')).mcpServers['My-Server'];
  assert.equal([svc, env], [undefined, THEIRS['My Server'].env]);
  assert.not.match((await home.svc(['mcp', 'list', '--json'])).stdout, /secret-value/);
});

const SHOWN = `My-Server starts npx -y "a package" "\${HOME}/notes" "\${DEBUG:-off}"
  gets these variables of yours: HOME, DEBUG, OPENAI_API_KEY
  gets these stored keys: OWN
  gets these values of the file: KEY
issues asks https://issues.test/mcp
  gets these variables of yours: OPENAI_API_KEY
  gets these headers: X-Key
`;

test('a removed server takes its stored keys along, and no other key', async () => {
  const { home, file } = newHome();
  const env = { A: `\${key:A}`, B: `\${key:/../openai}` };
  writeFileSync(file, JSON.stringify({ mcpServers: { x: { command: 'x', env } } }));
  assert.is((await home.svc(['mcp', 'set', 'x', '--key', 'A'], { stdin: 'stored-key' })).code, 0);
  const other = join(home.paths.keys, 'openai.json');
  writeFileSync(other, '{}');
  assert.ok(existsSync(join(home.paths.keys, 'mcp.x.A.json')));
  assert.is((await home.svc(['mcp', 'remove', 'x'])).code, 0);
  assert.equal(readdirSync(home.paths.keys), ['openai.json']);
});

test('an import shows what each server starts and gets, before it writes', async () => {
  const { home, file } = newHome();
  const from = theirs(home.folder);
  const refused = await home.svc(['mcp', 'import', from]);
  assert.equal([refused.code, refused.stdout], [2, SHOWN]);
  assert.match(refused.stderr, /Left out old: .*\nerror: Nothing was written\.\n.*--yes/s);
  assert.is((await home.svc(['mcp', 'import', from, '--json'])).code, 2);
  assert.not.ok(existsSync(file));
  const agreed = await home.svc(['mcp', 'import', from, '--yes']);
  assert.equal([agreed.code, agreed.stdout], [6, `${SHOWN}Added My-Server.\nAdded issues.\n`]);
});

if (hasTerminal)
  for (const [answer, isWritten] of [
    ['no', false],
    ['yes', true],
  ] as const)
    test(`at a terminal, an import is ${isWritten ? 'done' : 'left'} at the word ${answer}`, async () => {
      const { home, file } = newHome();
      const args = ['mcp', 'import', theirs(home.folder)];
      const { text } = await typeAt(args, home.env, 'yes', answer);
      assert.ok(text.includes(SHOWN), text);
      assert.is(existsSync(file), isWritten);
      assert.is(text.includes('Nothing was written.'), !isWritten);
    });

test('with a daemon: test, show, an allowed tool, hostile texts, and a server that dies', async () => {
  const { home, file } = newHome();
  assert.is((await home.svc(['start'])).code, 0);
  const add = (name: string, fault: string) =>
    home.svc(['mcp', 'add', name, '--', process.execPath, SCRIPTED, fault]);
  assert.is((await add('x', 'none')).code, 0);
  const tested = await home.svc(['mcp', 'test', 'x']);
  assert.is(tested.code, 0, tested.stderr);
  assert.match(tested.stdout, /^x answers: 9 tools, after \d+ ms\.\n {2}echo\n/);
  assert.is((await home.svc(['mcp', 'set', 'x', '--tool', 'count=allow'])).code, 0);
  const rule = JSON.parse(readFileSync(file, 'utf8')).mcpServers.x.svc.tools.count;
  assert.match(rule.digest, /^[0-9a-f]{64}$/);
  const shown = JSON.parse((await home.svc(['mcp', 'show', 'x', '--json'])).stdout);
  const policies = shown.tools.map((tool: { name: string; policy: string }) => [
    tool.name,
    tool.policy,
  ]);
  assert.equal(policies.slice(0, 2), [
    ['echo', 'ask'],
    ['count', 'allow'],
  ]);
  assert.is((await add('hostile', 'hostile')).code, 0);
  const hostile = await home.svc(['mcp', 'show', 'hostile', '--full']);
  assert.is(hostile.code, 0, hostile.stderr);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what must not be there
  assert.not.match(hostile.stdout, /[\u001b\u0007\u202e]/);
  assert.is((await add('dead', 'dies-at-start')).code, 0);
  const dead = await home.svc(['mcp', 'test', 'dead', '--json']);
  assert.is(dead.code, 9);
  assert.is(JSON.parse(dead.stderr).error.code, 'mcp_unavailable');
  assert.match((await home.svc(['mcp', 'list'])).stdout, /dead +(failing|stopped).*exit code 3/s);
  const status = await home.svc(['status']);
  assert.match(status.stdout, /tools +x ready, idle\n/);
  assert.match(status.stdout, /tools +dead (failing|stopped): .*exit code 3/);
  const doctor = JSON.parse((await home.svc(['doctor', '--json'])).stdout);
  const checks = doctor.checks.filter(({ name }: { name: string }) => name.startsWith('tools '));
  assert.equal(
    checks.map(({ name, status }: { name: string; status: string }) => [name, status]),
    [
      ['tools x', 'ok'],
      ['tools hostile', 'ok'],
      ['tools dead', 'warn'],
    ],
  );
  assert.is((await home.svc(['api', 'POST', '/v1/mcp/x/test'])).code, 0);
  assert.is((await home.svc(['stop'])).code, 0);
});

test('svc itself as a server: folders and hosts, never its own home', async () => {
  const { home, file } = newHome();
  const notes = mkdtempSync(join(tmpdir(), 'svc-notes-'));
  writeFileSync(join(notes, 'a.md'), 'hello');
  const add = await home.svc(['mcp', 'add', 'notes', '--folder', relative('.', notes)]);
  assert.is(add.code, 0, add.stderr);
  assert.is(
    (await home.svc(['mcp', 'add', 'web', '--host', 'docs.test', '--host', 'b.test'])).code,
    0,
  );
  assert.equal(JSON.parse(readFileSync(file, 'utf8')).mcpServers, {
    notes: { type: 'svc:files', folders: [notes] },
    web: { type: 'svc:http', hosts: ['docs.test', 'b.test'] },
  });
  const both = ['mcp', 'add', 'both', '--folder', notes, '--url', 'http://localhost/'];
  for (const args of [both, ['mcp', 'add', 'none'], ['mcp', 'add', 'x', '--host', 'a/b']])
    assert.is((await home.svc(args)).code, 2);
  const foreign = join(home.folder, 'their.json');
  writeFileSync(foreign, JSON.stringify({ servers: { x: { type: 'svc:files', folders: ['/'] } } }));
  const imported = await home.svc(['mcp', 'import', foreign]);
  assert.is(imported.code, 6);
  assert.match(imported.stderr, /Left out x: what svc itself may reach is for you to say/);
  assert.match(
    (await home.svc(['mcp', 'list'])).stdout,
    /notes +stopped +- +trusted +svc:files \//,
  );
  assert.is((await home.svc(['start'])).code, 0);
  assert.match((await home.svc(['mcp', 'test', 'notes'])).stdout, /answers: 5 tools/);
  assert.match((await home.svc(['mcp', 'show', 'web'])).stdout, /get +allow +reads/);
  const own = dirname(home.paths.config);
  assert.is((await home.svc(['mcp', 'set', 'notes', '--folder', own])).code, 0);
  const closed = await home.svc(['mcp', 'test', 'notes']);
  assert.is(closed.code, 9);
  assert.match(closed.stderr, /is closed to tools/);
  const program = [process.execPath, SCRIPTED];
  assert.is((await home.svc(['mcp', 'set', 'notes', '--', ...program])).code, 0);
  const { type, folders, command } = JSON.parse(readFileSync(file, 'utf8')).mcpServers.notes;
  assert.equal([type, folders, command], [undefined, undefined, process.execPath]);
  assert.match((await home.svc(['mcp', 'test', 'notes'])).stdout, /answers: 9 tools/);
  assert.is((await home.svc(['stop'])).code, 0);
});

test.run();
