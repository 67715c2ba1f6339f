import { execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { asOther } from './other-user.ts';

/** Another user reads every command line of the machine, over and over. */
const test = suite<{ home: Home; life: Life; token: string; url: string }>(
  'secrets on command lines',
);
const isLinux = process.platform === 'linux';
if (!isLinux) process.stdout.write('skipped: no /proc\n');
const onLinux = isLinux ? test : test.skip;

/** Prints each command line that holds a word of interest, once. */
const READER = `
import { readdirSync, readFileSync } from 'node:fs';
const seen = new Set();
for (;;) {
  for (const pid of readdirSync('/proc')) {
    if (!/^\\d+$/.test(pid) || pid === String(process.pid)) continue;
    let line = '';
    try { line = readFileSync('/proc/' + pid + '/cmdline', 'utf8').replaceAll('\\0', ' '); } catch {}
    if (line === '' || seen.has(line)) continue;
    seen.add(line);
    process.stdout.write(line.replaceAll('\\n', ' ') + '\\n');
  }
  await new Promise((resolve) => setImmediate(resolve));
}
`;

test.before(async (context) => {
  if (!isLinux) return;
  context.home = makeHome();
  context.life = await serve(context.home);
  context.token = readFileSync(context.home.paths.token, 'utf8').trim();
  context.url = (await context.life.ask((client) => client.call('status'))).addresses.http ?? '';
});
test.after(async ({ home, life }) => {
  if (!isLinux) return;
  await life.stop(0);
  await home.close();
});

onLinux(
  'the console opens by a file that only its owner can read and that is gone once it is used',
  async ({ home, token, url }) => {
    const bin = join(home.folder, 'bin');
    const go = join(home.folder, 'go');
    mkdirSync(bin);
    // A browser that starts slowly, as browsers do.
    writeFileSync(
      join(bin, 'xdg-open'),
      `#!/bin/sh\nwhile [ ! -e "${go}" ]; do sleep 0.05; done\n`,
      { mode: 0o755 },
    );
    const reader = asOther(READER);
    const opening = home.svc(['console'], {
      env: { PATH: `${bin}:${process.env.PATH}`, DISPLAY: ':99' },
    });
    const seen = () =>
      reader.lines().find((line) => line.includes('xdg-open') && line.includes('sign-in'));
    await waitFor('another user sees the opener', seen);
    writeFileSync(go, '');
    assert.is((await opening).code, 0);
    const file = /file:\/\/(\S+\.html)/.exec(seen() ?? '')?.[1] ?? '';
    assert.is(statSync(file).mode & 0o777, 0o600);
    assert.is(statSync(dirname(file)).mode & 0o777, 0o700);
    const ticket = /#ticket=([\w-]{43})"/.exec(readFileSync(file, 'utf8'))?.[1] ?? '';
    const answer = await fetch(`${url}/v1/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ticket }),
    });
    assert.is(answer.status, 200);
    await waitFor('the page is gone', () => !existsSync(file));
    await reader.end();
    for (const line of reader.lines())
      assert.not.ok(line.includes(ticket) || line.includes(token), line);
  },
);

onLinux(
  'a sign-in page goes when its ticket is too old, and with the start after a crash',
  async () => {
    const home = makeHome({ SVC_LIMIT_TICKET_MS: '1000' });
    const life = await serve(home);
    const open = async () =>
      (await life.ask((client) => client.call('console', { file: true }))).file ?? '';
    const first = await open();
    assert.ok(existsSync(first));
    await waitFor('it is too old', () => !existsSync(first));
    const second = await open();
    await life.kill();
    assert.ok(existsSync(second));
    const next = await serve(home);
    assert.not.ok(existsSync(second));
    await next.stop(0);
    await home.close();
  },
);

onLinux('no documented way to use the interface shows the token', async ({ home, token, url }) => {
  const [line = ''] = readFileSync('docs/http.md', 'utf8')
    .split('\n')
    .filter((text) => text.startsWith('curl ') && text.includes('authorization'));
  assert.match(line, 'svc token');
  const commands = [
    'npx svc api GET /v1/runs',
    ...(spawnSync('curl', ['--version']).status === 0 ? [line.replace(/#.*$/, '')] : []),
  ];
  const reader = asOther(READER);
  await waitFor('another user reads', () => reader.lines().length > 0);
  for (const command of commands) {
    const script = command
      .replaceAll('npx svc', `"${process.execPath}" dist/src/main.js`)
      .replace('http://127.0.0.1:4780', url);
    const { stdout } = await promisify(execFile)('bash', ['-c', script], {
      env: { ...process.env, ...home.env },
    });
    assert.match(stdout, '"runs"', command);
  }
  // The reader is not blind: it sees a secret that is there to see.
  const open = spawn('sleep', ['30.000001']);
  await waitFor('another user reads on', () =>
    reader.lines().some((text) => text.includes('30.000001')),
  );
  open.kill('SIGKILL');
  await reader.end();
  for (const text of reader.lines()) assert.not.ok(text.includes(token), text);
});

test.run();
