import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { LOG_FORMAT, NEW_KINDS } from '../../machines/events.ts';
import { tryLock } from '../../src/home/file-lock.ts';
import { SYSTEM } from '../../src/home/platform.ts';
import { processTree } from '../../src/providers/local/memory-watch.ts';
import { makeBuild } from '../helpers/made-build.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';

/** Installs a build below a prefix, and replaces it by others while a run is unfinished. */
const test = suite<Context>('upgrade');

interface Context {
  home: Home;
  folder: string;
  prefix: string;
  /** Provider whose answers never begin. */
  upstream: Server;
  builds: Record<'first' | 'next' | 'planted' | 'last' | 'newer' | 'broken', string>;
}

const SUSPENSION = /(mayResumeAttempt: \(\{ context, event \}\) =>)/;
const GUARD = /(event\.attempt === context\.attempt) \+ 1/;

/** In the program as it is built, behind the table of the kinds. */
const FORMAT = new RegExp(
  `(?<name>LOG_FORMAT = |"${NEW_KINDS[LOG_FORMAT]?.at(-1)}"\\]\\}(?:,|;var )[\\w$]+=)${LOG_FORMAT}\\b`,
);
const NEXT_FORMAT = LOG_FORMAT + 1;

test.before((context) => {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), 'svc-builds-'));
  context.folder = folder;
  const make = (version: string, ...changes: [RegExp, string][]) =>
    makeBuild(folder, { version, changes });
  context.builds = {
    first: make('1.0.0'),
    next: make('1.1.0'),
    planted: make('1.2.0', [GUARD, '$1 + 2']),
    last: make('1.2.1', [SUSPENSION, '$1 event.type !== "run.suspended" &&']),
    newer: make(
      '1.3.0',
      [FORMAT, `$<name>${NEXT_FORMAT}`],
      [/\b4: ?\["mcp\."/, `${NEXT_FORMAT}:["daemon.","plan."],$&`],
    ),
    broken: make('1.4.0', [/\blisteners\.bind\(\)/, 'listeners.broken()']),
  };
});
test.after(({ folder }) => rmSync(folder, { recursive: true, force: true }));

test.before.each(async (context) => {
  context.home = makeHome({ SVC_LIMIT_DRAIN_MS: '100', TMPDIR: context.folder });
  context.prefix = join(context.home.folder, 'prefix');
  context.upstream = createServer(() => {}).listen(0, '127.0.0.1');
  await once(context.upstream, 'listening');
  const { port } = context.upstream.address() as AddressInfo;
  const up = { adapter: 'openai-compatible', base_url: `http://127.0.0.1:${port}/v1`, model: 'm' };
  mkdirSync(context.home.folder, { recursive: true });
  writeFileSync(context.home.paths.config, JSON.stringify({ providers: { up } }));
  const unpacked = mkdtempSync(join(context.folder, 'unpacked-'));
  execFileSync('tar', ['-xzf', context.builds.first, '-C', unpacked, '--strip-components=1']);
  execFileSync(join(unpacked, 'install.sh'), ['--prefix', context.prefix], {
    env: context.home.env,
  });
});
test.after.each(async ({ home, upstream }) => {
  await home.close();
  upstream.closeAllConnections();
  upstream.close();
});

interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs the installed program. */
async function svc({ home, prefix }: Context, ...words: string[]): Promise<Outcome> {
  const done = promisify(execFile)(join(prefix, 'bin', 'svc'), words, { env: home.env });
  done.child.stdin?.end();
  return done.then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error) => error as Outcome,
  );
}

async function json(context: Context, ...words: string[]) {
  const { code, stdout, stderr } = await svc(context, ...words, '--json');
  assert.is(code, 0, stderr);
  return JSON.parse(stdout);
}

/** A run that its provider has and does not answer. */
async function startRun(context: Context): Promise<string> {
  const { id } = await json(context, 'run', 'wait', '--detach', '--provider', 'up');
  await waitFor('the provider has it', async () => (await stateOf(context, id)) !== 'queued');
  return id;
}

const stateOf = async (context: Context, id: string): Promise<string> =>
  (await json(context, 'runs', 'show', id)).state;
const inUse = ({ prefix }: Context) => basename(realpathSync(join(prefix, 'lib/svc/current')));
const daemonNow = async (context: Context) => {
  const { version, pid, state } = await json(context, 'status');
  return { version, pid, state };
};

test('the next version takes over with the runs, and the one before comes back', async (context) => {
  await svc(context, 'start');
  const id = await startRun(context);
  const checked = await svc(context, 'upgrade', '--check', context.builds.next);
  assert.match(checked.stdout, /svc 1\.1\.0 folds the \d+ events of the log to the same states/);
  assert.match(checked.stdout, 'Nothing was changed.');
  assert.is((await daemonNow(context)).version, '1.0.0');
  const logs = spawn(join(context.prefix, 'bin', 'svc'), ['logs', '-f', '--json'], {
    env: context.home.env,
  });
  let lines = '';
  logs.stdout.on('data', (text) => {
    lines += text;
  });
  await waitFor('the log is followed', () => lines.includes('svc 1.0.0 starts'));
  const done = await svc(context, 'upgrade', context.builds.next);
  assert.is(done.code, 0, done.stderr);
  assert.match(done.stdout, 'svc upgrade --back works');
  const now = await daemonNow(context);
  await waitFor('the follower goes on', () => lines.includes('svc 1.1.0 starts'));
  logs.kill('SIGINT');
  assert.equal((await once(logs, 'close'))[0], 130);
  const all = lines.split('\n');
  assert.is(new Set(all).size, all.length, 'no line comes twice');
  assert.equal([now.version, inUse(context)], ['1.1.0', '1.1.0']);
  await waitFor('the run goes on', async () =>
    /^(starting|streaming)$/.test(await stateOf(context, id)),
  );
  const back = await svc(context, 'upgrade', '--back');
  assert.is(back.code, 0, back.stderr);
  assert.equal([(await daemonNow(context)).version, inUse(context)], ['1.0.0', '1.0.0']);
  assert.ok(['starting', 'streaming', 'queued', 'suspended'].includes(await stateOf(context, id)));
});

test('a guard that decides differently is found: the run is named, and the old daemon goes on', async (context) => {
  await svc(context, 'start');
  const id = await startRun(context);
  const before = await daemonNow(context);
  const refused = await svc(context, 'upgrade', context.builds.planted, '--json');
  assert.is(refused.code, 6, refused.stdout);
  const { error } = JSON.parse(refused.stderr);
  assert.is(error.code, 'upgrade_refused');
  assert.match(error.message, `The first: ${id}: the new build refuses the event `);
  assert.equal([await daemonNow(context), inUse(context)], [before, '1.0.0']);
  await svc(context, 'stop');
  const again = await svc(context, 'upgrade', '--check', context.builds.planted);
  assert.is(again.code, 6, 'also from the log of a stopped daemon');
  assert.match(again.stderr, id);
});

test('what the old daemon records last is compared before the new one has it', async (context) => {
  await svc(context, 'start');
  const id = await startRun(context);
  const checked = await svc(context, 'upgrade', '--check', context.builds.last);
  assert.is(checked.code, 0, checked.stderr);
  const { code, stderr } = await svc(context, 'upgrade', context.builds.last, '--json');
  assert.is(code, 6, stderr);
  const { error } = JSON.parse(stderr);
  assert.match(
    error.message,
    `svc 1.0.0 runs again. The first: ${id}: the new build refuses the event `,
  );
  assert.match(error.message, 'run.suspended');
  assert.equal([(await daemonNow(context)).version, inUse(context)], ['1.0.0', '1.0.0']);
  await waitFor('the run goes on', async () =>
    /^(starting|streaming)$/.test(await stateOf(context, id)),
  );
  assert.not.match((await svc(context, 'logs', '--json')).stdout, 'svc 1.2.1 starts');
});

test('one upgrade goes on at a time', async (context) => {
  await svc(context, 'start');
  const release = await tryLock(context.home.paths.upgrade);
  const second = await svc(context, 'upgrade', context.builds.next);
  release?.();
  assert.is(second.code, 6);
  assert.match(second.stderr, 'Another svc upgrade is at work. Nothing was changed.');
  assert.equal([(await daemonNow(context)).version, inUse(context)], ['1.0.0', '1.0.0']);
});

test('an installation older than 1.0.0 becomes the version before', async (context) => {
  const { home, folder, prefix, builds } = context;
  const unpack = (archive: string, to: string) => {
    mkdirSync(to, { recursive: true });
    execFileSync('tar', ['-xzf', archive, '-C', to, '--strip-components=1']);
  };
  const program = join(prefix, 'lib', 'svc');
  rmSync(program, { recursive: true });
  unpack(builds.first, program);
  rmSync(join(prefix, 'bin', 'svc'));
  symlinkSync(join(program, 'bin', 'svc'), join(prefix, 'bin', 'svc'));
  await svc(context, 'start');
  const id = await startRun(context);
  const refused = await svc(context, 'upgrade', builds.next);
  assert.match(refused.stderr, '<folder of the new archive>/install.sh');
  const next = mkdtempSync(join(folder, 'next-'));
  unpack(builds.next, next);
  execFileSync(join(next, 'install.sh'), ['--prefix', prefix], { env: home.env });
  const leads = (name: string) => readlinkSync(join(program, name));
  assert.equal([leads('current'), leads('previous')], ['versions/1.1.0', 'versions/first']);
  const names = ['current', 'install.sh', 'made', 'previous', 'versions'];
  assert.equal(readdirSync(program).sort(), names);
  assert.is((await daemonNow(context)).version, '1.0.0', 'it goes on until it is asked');
  const restarted = await svc(context, 'restart');
  assert.is(restarted.code, 0, restarted.stderr);
  assert.is((await daemonNow(context)).version, '1.1.0');
  await waitFor('the run goes on', async () =>
    /^(starting|streaming)$/.test(await stateOf(context, id)),
  );
  const back = await svc(context, 'upgrade', '--back');
  assert.is(back.code, 0, back.stderr);
  assert.equal([(await daemonNow(context)).version, inUse(context)], ['1.0.0', 'first']);
  execFileSync(join(program, 'install.sh'), ['--uninstall', '--prefix', prefix], { env: home.env });
  assert.not(existsSync(program));
});

test('what ends the way back is said before, and the way back is refused after it', async (context) => {
  await svc(context, 'start');
  const { code, stdout, stderr } = await svc(context, 'upgrade', context.builds.newer);
  assert.is(code, 0, stderr);
  assert.match(
    stdout,
    'works until the log has one of these, which svc 1.0.0 cannot read: daemon.*, plan.*',
  );
  const back = await svc(context, 'upgrade', '--back');
  assert.is(back.code, 6);
  assert.match(
    back.stderr,
    `svc 1.0.0 cannot read this log any more: its format is ${NEXT_FORMAT}`,
  );
  assert.is((await daemonNow(context)).version, '1.3.0');
});

test('a version whose daemon does not start is left again, and the old one runs', async (context) => {
  await svc(context, 'start');
  const { code, stderr } = await svc(context, 'upgrade', context.builds.broken);
  assert.is(code, 6);
  assert.match(stderr, 'svc 1.4.0 did not start');
  assert.equal([(await daemonNow(context)).version, inUse(context)], ['1.0.0', '1.0.0']);
});

test('an archive is refused by its digest, without one, and a checkout by its kind', async (context) => {
  const { builds, folder, home } = context;
  const copy = join(folder, 'copy.tar.gz');
  writeFileSync(copy, readFileSync(builds.next));
  const tried = async (...words: string[]) => (await svc(context, 'upgrade', ...words)).stderr;
  assert.match(await tried('--check', copy), 'SHA256SUMS does not name');
  assert.match(await tried('--check', builds.next, '--sha256', '0'.repeat(64)), 'has the SHA-256');
  assert.match(await tried('--check', folder), 'names 6 archives for ');
  const left = join(folder, `svc-upgrade-${spawnSync('true').pid}-x`);
  mkdirSync(left, { mode: 0o700 });
  assert.is((await svc(context, 'upgrade', '--check', builds.next)).code, 0, 'without a log');
  assert.not(existsSync(left), 'what a command that was killed has unpacked');
  assert.match(await tried('--check'), 'asks no server');
  assert.match(await tried('--back'), 'There is no version before');
  // A version that has no such command.
  const old = join(context.prefix, 'lib', 'svc', 'previous');
  mkdirSync(join(old, 'bin'), { recursive: true });
  mkdirSync(join(old, 'lib', 'svc'), { recursive: true });
  writeFileSync(join(old, 'lib', 'svc', 'package.json'), '{"version":"0.1.0"}');
  const said = `{"version":"0.1.0","platform":"${SYSTEM}"}`;
  writeFileSync(join(old, 'bin', 'svc'), `#!/bin/sh\necho '${said}'\n`, { mode: 0o755 });
  const refused = await tried('--back');
  assert.match(refused, 'svc 0.1.0 is older than this command');
  assert.match(
    refused,
    `${join(context.prefix, 'lib', 'svc', 'install.sh')} --back && svc restart`,
  );
  rmSync(old, { recursive: true });
  const checkout = await home.svc(['upgrade', builds.next]);
  assert.is(checkout.code, 6);
  assert.match(checkout.stderr, 'git pull && npm install && npx svc restart');
  assert.is(inUse(context), '1.0.0');
  const { text } = await json(context, 'service', 'install', '--print');
  const program = join(context.prefix, 'lib/svc/current/lib/svc/dist/src/main.js');
  assert.ok(text.includes(program), 'the service of the next version has the same file');
});

test('a command that is killed leaves the old daemon or the new one', async (context) => {
  await svc(context, 'start');
  const { home, prefix, builds } = context;
  const { pid } = await daemonNow(context);
  const child = spawn(join(prefix, 'bin', 'svc'), ['upgrade', builds.next], { env: home.env });
  // It says so when the new daemon is about to stop the old one.
  await once(child.stderr, 'data');
  child.kill('SIGKILL');
  await once(child, 'close');
  await waitFor('the new daemon runs', async () => {
    const now = await daemonNow(context).catch(() => null);
    assert.ok(now === null || now.pid === pid || now.version === '1.1.0');
    return now?.version === '1.1.0' && ['ready', 'running'].includes(now.state);
  });
  assert.is(inUse(context), '1.1.0');
});

test('the command and the new daemon are killed together: the next start has the runs', async (context) => {
  await svc(context, 'start');
  const id = await startRun(context);
  const { home, prefix, builds } = context;
  const child = spawn(join(prefix, 'bin', 'svc'), ['upgrade', builds.next], { env: home.env });
  await once(child.stderr, 'data');
  const pids = (await processTree(child.pid ?? 0)).reverse().map(String);
  // One of them may have ended by itself.
  spawnSync('sh', ['-c', 'kill -9 "$@"', 'sh', ...pids]);
  await once(child, 'close');
  const started = await svc(context, 'start');
  assert.is(started.code, 0, started.stderr);
  assert.ok(['1.0.0', '1.1.0'].includes((await daemonNow(context)).version));
  await waitFor('the run goes on', async () =>
    /^(starting|streaming)$/.test(await stateOf(context, id)),
  );
});

test.run();
