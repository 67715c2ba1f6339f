import { existsSync, globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readRuntimeFile } from '../../src/home/runtime-file.ts';
import { answerScripted } from '../clients/scripted-model.ts';
import { browse, loginServers } from '../helpers/login-servers.ts';
import { type Home, makeHome, type Outcome, type Started } from '../helpers/svc.ts';
import { hasTerminal, onTerminal } from '../helpers/terminal.ts';
import { Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';

/** A login at a tool server with the built program, and the daemon that uses it. */

const ends: (() => unknown)[] = [];
test.after.each(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function stage() {
  const upstream = await Upstream.start(answerScripted);
  ends.push(() => upstream.stop());
  const remote = await loginServers();
  ends.push(() => remote.close());
  const home = makeHome();
  ends.push(() => home.close());
  mkdirSync(dirname(home.paths.config), { recursive: true, mode: 0o700 });
  const providers = { up: { base_url: upstream.base_url, model: 'scripted' } };
  writeFileSync(home.paths.config, JSON.stringify({ default_provider: 'up', providers }));
  const add = ['mcp', 'add', 'locked', '--url', remote.url, '--policy', 'allow'];
  assert.is((await home.svc(add)).code, 0);
  return { home, remote, file: join(home.paths.keys, 'mcp.locked.@login.json') };
}

/** The page that a login asks a person to open. */
function pageOf(login: Started): Promise<string> {
  return waitFor(login.stderr, () => /^http:\S+$/m.exec(login.stderr())?.[0] ?? null);
}

async function logIn(home: Home, ...flags: string[]): Promise<Outcome> {
  const login = home.spawn(['mcp', 'login', 'locked', ...flags]);
  await browse(await pageOf(login));
  return login.ended;
}

/** What is stored about the login. */
function kept(file: string): string {
  return Buffer.from(JSON.parse(readFileSync(file, 'utf8')).key, 'base64url').toString();
}

const ask = (home: Home) => home.svc(['run', '--tools', 'locked', "locked__say ''"]);

test('a login outlives kills, is refreshed in silence, and ends with a refusal or a logout', async () => {
  const { home, remote, file } = await stage();
  const killed = home.spawn(['mcp', 'login', 'locked', '--no-browser']);
  await pageOf(killed);
  killed.child.kill('SIGKILL');
  await killed.ended;
  assert.not.ok(existsSync(file));
  const first = await logIn(home);
  assert.is(first.code, 0, first.stderr);
  assert.is(first.stdout, 'Logged in at locked.\n');
  assert.is(statSync(file).mode & 0o777, 0o600);

  const answered = await ask(home);
  assert.is(answered.code, 0, answered.stderr);
  assert.is(remote.said.length, 1);
  const found = readRuntimeFile(home.paths.runtime);
  assert.is(found.kind, 'present');
  if (found.kind === 'present') process.kill(found.file.pid, 'SIGKILL');
  remote.access.clear();
  const again = await ask(home);
  assert.is(again.code, 0, again.stderr);
  assert.is(remote.said.length, 2);

  remote.access.clear();
  remote.refresh.clear();
  const refused = await ask(home);
  assert.match(refused.stdout + refused.stderr, /needs a login: svc mcp login locked/);
  assert.is(remote.said.length, 2);
  assert.not.match(kept(file), /access|refresh/);
  const status = await home.svc(['status']);
  assert.match(
    status.stdout,
    /tools +locked (open|stopped): .* needs a login: svc mcp login locked/,
  );
  const doctor = await home.svc(['doctor']);
  assert.match(doctor.stdout, /warn +tools locked +.*\n +-> Log in: svc mcp login locked/);
  const listed = JSON.parse((await home.svc(['mcp', 'list', '--json'])).stdout);
  assert.is(listed.servers[0].code, 'mcp_login_needed');
  const tested = await home.svc(['mcp', 'test', 'locked', '--json']);
  assert.equal([tested.code, JSON.parse(tested.stderr).error.code], [5, 'mcp_login_needed']);

  const second = await logIn(home, '--json');
  assert.equal(JSON.parse(second.stdout), {
    name: 'locked',
    logged_in: true,
    not_granted: [],
    tools: 1,
  });
  assert.is((await ask(home)).code, 0);
  assert.is(remote.said.length, 3);
  assert.is((await home.svc(['mcp', 'logout', 'locked'])).stdout, 'Logged out of locked.\n');
  assert.not.ok(existsSync(file));
  assert.match((await home.svc(['mcp', 'logout', 'locked'])).stdout, /There is no login/);
  assert.is((await home.svc(['mcp', 'test', 'locked'])).code, 5);
  assert.is((await logIn(home)).code, 0);
  assert.is((await home.svc(['mcp', 'remove', 'locked'])).code, 0);
  assert.not.ok(existsSync(file));
  assert.is((await home.svc(['stop'])).code, 0);
  const texts = globSync(`${home.folder}/**/*`, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'));
  assert.ok(texts.length > 5 && remote.issued.length === 8);
  for (const token of remote.issued) assert.not.ok(texts.some((text) => text.includes(token)));
});

test('what cannot log in says why', async () => {
  const { home, remote } = await stage();
  assert.is((await home.svc(['mcp', 'login', 'no'])).code, 7);
  assert.is((await home.svc(['mcp', 'add', 'notes', '--folder', home.folder])).code, 0);
  assert.is((await home.svc(['mcp', 'login', 'notes'])).code, 2);
  remote.does.metadata = { registration_endpoint: undefined };
  const failed = await home.svc(['mcp', 'login', 'locked']);
  assert.is(failed.code, 5);
  assert.match(failed.stderr, /svc mcp set locked --client-id <id>/);
  assert.is((await home.svc(['mcp', 'set', 'locked', '--client-id', 'mine'])).code, 0);
  assert.is((await logIn(home)).code, 0);
  const header = ['mcp', 'set', 'locked', '--header', 'Authorization: Bearer x'];
  assert.is((await home.svc(header)).code, 0);
  assert.is((await home.svc(['mcp', 'login', 'locked'])).code, 2);
});

test('a login that is asked for late, with a secret and a scope, ends where it came from', async () => {
  const { home, remote, file } = await stage();
  Object.assign(remote.does, {
    free: ['initialize', 'notifications/initialized'],
    secret: 'open-sesame',
    metadata: {
      token_endpoint_auth_methods_supported: ['client_secret_basic'],
      revocation_endpoint: `${remote.issuer}/revoke`,
    },
  });
  const needed = await home.svc(['mcp', 'test', 'locked']);
  assert.equal([needed.code, /svc mcp login locked/.test(needed.stderr)], [5, true]);
  const secret = ['mcp', 'set', 'locked', '--client-secret'];
  const early = await home.svc(secret, { stdin: 'open-sesame\n' });
  assert.equal([early.code, /needs oauth.clientId/.test(early.stderr)], [2, true]);
  assert.is(
    (await home.svc([...secret, '--client-id', 'mine'], { stdin: 'open-sesame\n' })).code,
    0,
  );
  const written = readFileSync(join(dirname(home.paths.config), 'mcp.json'), 'utf8');
  assert.match(written, `"clientSecret": "\${key:CLIENT_SECRET}"`);
  const login = await logIn(home, '--scope', 'read write');
  assert.is(login.code, 0, login.stderr);
  const [token] = remote.asked.filter(({ path }) => path === '/token');
  assert.match(token?.authorization ?? '', /^Basic /);
  const page = remote.asked.find(({ path }) => path === '/authorize');
  assert.is(page?.fields.scope, 'read write');
  assert.is((await ask(home)).code, 0);
  const { access_token, refresh_token } = JSON.parse(kept(file));
  const out = await home.svc(['mcp', 'logout', 'locked', '--json']);
  assert.equal(
    [out.code, JSON.parse(out.stdout)],
    [0, { name: 'locked', removed: true, revoked: true, reason: null }],
  );
  const ended = remote.asked.filter(({ path }) => path === '/revoke');
  assert.equal(
    ended.map(({ fields }) => fields.token),
    [refresh_token, access_token],
  );
  assert.not.ok(existsSync(file));
  assert.is((await logIn(home)).code, 0);
  remote.does.instead = (path, res) => path === '/revoke' && res.writeHead(500).end() !== null;
  const failed = await home.svc(['mcp', 'logout', 'locked']);
  assert.is(failed.code, 5);
  assert.match(failed.stderr, /tokens of locked may still work: it answered HTTP 500/);
  assert.not.ok(existsSync(file));
  const listed = await home.svc(['mcp', 'list', '--json']);
  const logs = await home.svc(['logs']);
  for (const { stdout, stderr } of [needed, early, login, out, failed, listed, logs])
    for (const each of ['sesame', ...remote.issued])
      assert.not.ok((stdout + stderr).includes(each));
  assert.is((await home.svc(['mcp', 'remove', 'locked'])).code, 0);
  assert.equal(globSync(`${home.paths.keys}/mcp.*`), [], 'its keys go with it');
});

/** What opens pages for a test: it notes its words and the page, and follows that. */
const OPENER = `
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
const words = process.argv.slice(3);
const file = fileURLToPath(words[0]);
const page = readFileSync(file, 'utf8');
const mode = statSync(file).mode & 0o777;
writeFileSync(process.argv[2], JSON.stringify({ words, file, page, mode }));
const address = /href="([^"]*)"/.exec(page)[1].replace(/&#(\\d+);/g, (_, code) => String.fromCharCode(code));
const leads = await fetch(address, { redirect: 'manual' });
await fetch(leads.headers.get('location'));
`;

if (hasTerminal)
  test('at a terminal a browser opens a private file, and no shell reads the address', async () => {
    const { home, remote } = await stage();
    const at = (name: string) => join(home.folder, name);
    mkdirSync(at('bin'));
    writeFileSync(at('opener.mjs'), OPENER);
    const line = `exec "${process.execPath}" "${at('opener.mjs')}" "${at('opened')}" "$@"`;
    writeFileSync(at('bin/xdg-open'), `#!/bin/sh\n${line}\n`, { mode: 0o755 });
    const hostile = `'"><script>$(touch ${at('owned')});\`touch ${at('owned')}\`</script>`;
    const authorization_endpoint = `${remote.issuer}/authorize?a=${hostile}`;
    remote.does.metadata = { authorization_endpoint };
    const env = { ...home.env, PATH: `${at('bin')}:${process.env.PATH}`, DISPLAY: ':99' };
    const { code, text } = await onTerminal(['mcp', 'login', 'locked'], env);
    assert.is(code, 0, text);
    assert.match(text, /Logged in at locked\./);
    const { words, file, page, mode } = JSON.parse(readFileSync(at('opened'), 'utf8'));
    assert.equal([words.length, mode], [1, 0o600]);
    const { state = '' } = remote.asked.find(({ path }) => path === '/authorize')?.fields ?? {};
    assert.ok(page.includes(state) && !words.join(' ').includes(state));
    assert.not.match(page, /<script/);
    assert.not.ok(existsSync(at('owned')) || existsSync(file));
  });

test.run();
