import { execFileSync } from 'node:child_process';
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { WebSocket } from 'ws';
import { runtimeOf } from '../helpers/daemon.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Ask, ask } from '../transport/http/boot.ts';

/** Going back in time on the built program, with a daemon and without one. */
const test = suite('the past, from the command line');
let home: Home;
let url: string;
let id: string;

const PROMPT = 'What is svc? Tell me about the zebra.';
const SECRETS = ['zebra', 'What is', 'daemon:', '/tmp/'];

test.before(async () => {
  home = makeHome();
  id = (
    JSON.parse((await home.svc(['run', PROMPT, '--system', 'a zebra too', '--json'])).stdout) as {
      id: string;
    }
  ).id;
  url = (await runtimeOf(home)).addresses.http ?? '';
  await waitFor(
    'it is idle',
    async () =>
      (JSON.parse((await home.svc(['status', '--json'])).stdout) as { state: string }).state ===
      'ready',
  );
});
test.after(async () => {
  await home.svc(['stop', '--force']);
  await home.close();
});

const error = (text: string) =>
  (
    JSON.parse(text.trim().split('\n').at(-1) ?? '{}') as {
      error: { code: string; message: string };
    }
  ).error;
const events = async () =>
  (await home.svc(['runs', 'export', '--all'])).stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { seq: number; stream: string; type: string });

test('status --at prints a past state', async () => {
  const accepted = (await events()).find(({ type }) => type === 'run.accepted')?.seq ?? 0;
  const picture = JSON.parse(
    (await home.svc(['status', '--at', String(accepted), '--json'])).stdout,
  ) as { status: { state: string }; runs: { id: string; state: string }[] };
  assert.is(picture.status.state, 'running');
  assert.equal([picture.runs[0]?.id, picture.runs[0]?.state], [id, 'queued']);
  const text = await home.svc(['status', '--at', String(accepted)]);
  assert.match(text.stdout, /^running at /);
  assert.match(text.stdout, /zebra/);
  assert.is((await home.svc(['status', '--at', '0'])).code, 2);
  assert.is((await home.svc(['status', '--at', '999999'])).code, 2);
});

test('runs why explains a run, and runs replay shows its state at any event', async () => {
  const why = await home.svc(['runs', 'why', id]);
  assert.is(why.code, 0, why.stderr);
  assert.match(why.stdout, /the provider local began answering \(attempt 1\)/);
  const first =
    (await events()).find(({ stream, type }) => stream === id && type === 'run.output_appended')
      ?.seq ?? 0;
  const then = JSON.parse(
    (await home.svc(['runs', 'replay', id, '--at', String(first), '--json'])).stdout,
  ) as { state_path: string; run: { output: string } };
  const now = JSON.parse((await home.svc(['runs', 'replay', id, '--json'])).stdout) as {
    state_path: string;
    run: { output: string };
  };
  assert.equal([then.state_path, now.state_path], ['streaming', 'completed']);
  assert.ok(now.run.output.startsWith(then.run.output));
  assert.equal(now.run, JSON.parse((await home.svc(['runs', 'show', id, '--json'])).stdout));
  assert.equal(
    [
      (await home.svc(['runs', 'replay', id, '--at', '1'])).code,
      (await home.svc(['runs', 'why', 'run_x'])).code,
    ],
    [2, 2],
  );
});

test('a run that was exported is replayed in a home where no daemon ever ran', async () => {
  const other = makeHome();
  try {
    const file = join(other.folder, 'run.json');
    assert.is((await home.svc(['runs', 'export', id, '--output', file])).code, 0);
    assert.is(statSync(file).mode & 0o777, 0o600);
    const replayed = JSON.parse((await other.svc(['runs', 'replay', file, '--json'])).stdout) as {
      run: unknown;
    };
    assert.equal(replayed.run, JSON.parse((await home.svc(['runs', 'show', id, '--json'])).stdout));
    const again = await home.svc(['runs', 'export', id, '--output', file, '--json']);
    assert.equal([again.code, error(again.stderr).code], [2, 'output_exists']);

    const redacted = join(other.folder, 'redacted.json');
    assert.is((await home.svc(['runs', 'export', id, '--output', redacted, '--redact'])).code, 0);
    const text = readFileSync(redacted, 'utf8');
    for (const word of SECRETS.filter((secret) => secret !== 'daemon:'))
      assert.not.ok(text.includes(word), word);
    assert.match(
      (await other.svc(['runs', 'replay', redacted])).stdout,
      /^completed after the event/,
    );
  } finally {
    await other.close();
  }
});

test('foreign files are read with care: what they are is said, and nothing hangs', async () => {
  const folder = join(home.folder, 'files');
  mkdirSync(folder);
  const make = (name: string, content: string | Buffer) => {
    writeFileSync(join(folder, name), content);
    return join(folder, name);
  };
  const huge = make('huge', '');
  const fd = openSync(huge, 'r+');
  ftruncateSync(fd, 2 ** 33);
  closeSync(fd);
  execFileSync('mkfifo', [join(folder, 'fifo')]);
  const cases = [
    make('empty', ''),
    make('text', 'hello'),
    make('binary', Buffer.from([0xff, 0xfe, 0])),
    make('deep', '['.repeat(1e6)),
    make('other.json', '{"format":"something else"}'),
    huge,
    folder,
    join(folder, 'fifo'),
    '/dev/zero',
  ];
  for (const file of cases) {
    const outcome = await home.svc(['runs', 'replay', file, '--json']);
    assert.equal([outcome.code, error(outcome.stderr).code], [2, 'export_invalid'], file);
  }
  assert.is((await home.svc(['runs', 'replay', join(folder, 'nothing')])).code, 2);
  rmSync(folder, { recursive: true });
});

test('the machines are shown in every form, with the living states where they are asked for', async () => {
  for (const format of ['mermaid', 'svg', 'json', 'ascii']) {
    const plain = await home.svc(['machines', 'daemon', '--format', format]);
    const live = await home.svc(['machines', 'daemon', '--format', format, '--live']);
    assert.equal([plain.code, live.code], [0, 0], plain.stderr + live.stderr);
    assert.match(plain.stdout, /draining/);
    assert.match(
      plain.stdout,
      { mermaid: /^---\ntitle: daemon/, svg: /^<\?xml/, json: /^\{/, ascii: /^daemon\n/ }[format] ??
        /never/,
    );
    assert.is.not(plain.stdout, live.stdout, format);
  }
  const all = await home.svc(['machines']);
  for (const name of ['daemon', 'run', 'provider', 'engine', 'pull'])
    assert.match(all.stdout, new RegExp(`title: ${name}\n`));
  assert.equal(
    [
      (await home.svc(['machines', 'nobody'])).code,
      (await home.svc(['machines', '--format', 'svg'])).code,
    ],
    [2, 2],
  );
  assert.match(
    (await home.svc(['machines', 'daemon', '--format', 'ascii', '--live'])).stdout,
    /ready.*●/,
  );
  const other = makeHome();
  assert.is((await other.svc(['machines', 'run', '--format', 'ascii'])).code, 0);
  assert.is((await other.svc(['machines', 'run', '--live'])).code, 3);
  await other.close();
});

test('the address of the console signs in once, and its cookie is good after a restart too', async () => {
  const address = (await home.svc(['console', '--no-open'])).stdout.trim();
  assert.ok(address.startsWith(`${url}/#ticket=`), address);
  const ticket = address.split('=')[1];
  const sign = () => ask(`${url}/v1/session`, { method: 'POST', body: { ticket } });
  const [first, second] = [await sign(), await sign()];
  assert.equal([first.status, second.status], [200, 401]);
  const cookie = first.headers['set-cookie']?.[0]?.split(';')[0] ?? '';
  const get = (path: string, more: Ask = {}) =>
    ask(`${url}${path}`, {
      ...more,
      headers: { cookie, 'sec-fetch-site': 'same-origin', ...more.headers },
    });
  assert.is((await get('/v1/runtime/state')).json.status.state, 'ready');
  // Another program may get the port while it is free.
  await waitFor('the port is free', async () => {
    const { code, stderr } = await home.svc(['restart', '--http', url.slice('http://'.length)]);
    if (code === 6 && stderr.includes('Another program listens')) return false;
    assert.is(code, 0, stderr);
    return true;
  });
  assert.is((await runtimeOf(home)).addresses.http, url);
  assert.is((await get('/v1/session')).status, 204);
  assert.is((await get('/v1/runs', { method: 'POST', body: { prompt: 'x' } })).status, 403);
});

test('the console is opened with what the system opens pages with; where that fails, its address is printed', async () => {
  const bin = join(home.folder, 'bin');
  const opened = join(home.folder, 'opened');
  mkdirSync(bin);
  const make = (script: string) =>
    writeFileSync(join(bin, 'xdg-open'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const env = { PATH: `${bin}:${process.env.PATH}`, DISPLAY: ':0' };
  make(`printf %s "$1" > ${opened}`);
  const quiet = await home.svc(['console'], { env });
  assert.equal([quiet.code, quiet.stdout], [0, '']);
  assert.match(quiet.stderr, /^Opened the console at http:\/\/127\.0\.0\.1:\d+\/$/m);
  const page = fileURLToPath(readFileSync(opened, 'utf8'));
  assert.match(
    readFileSync(page, 'utf8'),
    /#ticket=[\w-]{43}/,
    'the page leads to the address with the ticket',
  );
  assert.is(statSync(page).mode & 0o077, 0, 'only its owner reads the page');
  const browser = (script: string) =>
    writeFileSync(join(bin, 'chromium'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const inWindow = { PATH: bin, DISPLAY: ':0' };
  browser(`printf %s "$1" > ${opened}`);
  assert.is((await home.svc(['console', '--app'], { env: inWindow })).code, 0);
  const [, leads = ''] = readFileSync(opened, 'utf8').split('--app=');
  assert.match(readFileSync(fileURLToPath(leads), 'utf8'), /#ticket=[\w-]{43}/);
  browser('exit 1');
  const elsewhere = await home.svc(['console', '--app'], { env: inWindow });
  assert.match(elsewhere.stderr, /no own window.*\nOpened the console/s);
  assert.match(readFileSync(opened, 'utf8'), /^file:/, 'the usual browser has it');
  make('exit 3');
  assert.match((await home.svc(['console'], { env })).stdout, /#ticket=[\w-]{43}\n$/);
  assert.equal(
    JSON.parse((await home.svc(['console', '--json', '--no-open'], { env })).stdout).opened,
    false,
  );
});

test('the events are followed across what happens, in order and without a gap', async () => {
  const seqs: number[] = [];
  const token = (await home.svc(['token'])).stdout.trim();
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/events?from=1&follow=1`, {
    headers: { authorization: `Bearer ${token}` },
  });
  socket.on('message', (data) => seqs.push((JSON.parse(String(data)) as { seq: number }).seq));
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await home.svc(['run', 'What is a run?']);
  const last = (await events()).at(-1)?.seq ?? 0;
  await waitFor('it has them all', () => (seqs.at(-1) ?? 0) >= last);
  await home.svc(['stop']);
  assert.is(await closed, 1001);
  assert.equal(
    seqs,
    seqs.map((_, index) => index + 1),
  );
});

test('without a daemon the history is read from the log, which is not changed', async () => {
  const before = readFileSync(home.paths.database);
  assert.match((await home.svc(['runs', 'why', id])).stdout, /the answer was complete/);
  assert.match((await home.svc(['runs', 'replay', id])).stdout, /^completed after/);
  const all = await home.svc(['runs', 'export', '--all', '--redact']);
  assert.is(all.code, 0, all.stderr);
  for (const word of SECRETS.filter((secret) => secret !== 'daemon:'))
    assert.not.ok(all.stdout.includes(word), word);
  assert.ok(readFileSync(home.paths.database).equals(before));
  assert.is((await home.svc(['status', '--at', '3'])).code, 3);
  const fresh = makeHome();
  assert.is((await fresh.svc(['runs', 'why', id])).code, 3);
  await fresh.close();
});

test('after kill -9 the history includes events that are only in the WAL', async () => {
  assert.is((await home.svc(['start'])).code, 0);
  const { id: late } = JSON.parse(
    (await home.svc(['run', 'What is a provider?', '--json'])).stdout,
  ) as { id: string };
  const { pid } = await runtimeOf(home);
  process.kill(pid, 'SIGKILL');
  await waitFor('it is gone', () => isGone(pid));
  assert.ok(statSync(`${home.paths.database}-wal`).size > 0);
  assert.match((await home.svc(['runs', 'why', late])).stdout, /the answer was complete/);
  assert.ok((await home.svc(['runs', 'export', '--all'])).stdout.includes(late));
  assert.is((await home.svc(['start'])).code, 0);
  assert.is((await home.svc(['stop'])).code, 0);
});

test('from a damaged log what can be read is written, and what cannot is named', async () => {
  const whole = await events();
  const db = new Database(home.paths.database);
  const pages = db
    .prepare<[], number>(
      "select pageno from dbstat where name = 'events' and pagetype = 'leaf' order by path",
    )
    .pluck()
    .all();
  db.close();
  assert.ok(pages.length > 2);
  const fd = openSync(home.paths.database, 'r+');
  // The header of a page that holds some of the events.
  writeSync(fd, Buffer.alloc(64, 0xee), 0, 64, ((pages[1] ?? 0) - 1) * 4096);
  closeSync(fd);
  const outcome = await home.svc(['runs', 'export', '--all']);
  assert.is(outcome.code, 1);
  assert.match(outcome.stderr, /The events? \d+.* cannot be read\./);
  const saved = outcome.stdout
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { seq: number }).seq);
  assert.ok(saved.length > 0 && saved.length < whole.length, `${saved.length} of ${whole.length}`);
  assert.ok(saved.every((seq, index) => index === 0 || seq > (saved[index - 1] ?? 0)));
  assert.equal([saved[0], saved.at(-1)], [1, whole.at(-1)?.seq]);
});

/** The first of its threads is a zombie before the one that has the log is gone. */
function isGone(pid: number): boolean {
  try {
    return (
      readdirSync(`/proc/${pid}/task`).every((thread) => thread === String(pid)) &&
      readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
    );
  } catch {
    return true;
  }
}

test.run();
