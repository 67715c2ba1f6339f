import {
  cpSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { RealFleet } from '../helpers/fleet.ts';
import { postgresPrograms } from '../helpers/postgres.ts';
import { type Home, makeHome } from '../helpers/svc.ts';

const test = suite<{ home: Home; copies: Home[]; folder: string }>('a copy of a home');
const on = postgresPrograms === null ? test.skip : test;

test.before.each((context) => {
  context.home = makeHome();
  context.copies = [];
  context.folder = mkdtempSync(join(tmpdir(), 'svc-copies-'));
});
test.after.each(async ({ home, copies, folder }) => {
  for (const each of [...copies, home]) await each.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A snapshot beside the live home. A socket cannot be copied. */
function copyOf(home: Home, folder: string, env: NodeJS.ProcessEnv = {}): Home {
  cpSync(home.folder, folder, {
    recursive: true,
    filter: (source) => !statSync(source).isSocket(),
  });
  return makeHome({ ...env, SVC_HOME: folder });
}

/** As `cp -al` does, with the socket. */
function link(from: string, to: string): void {
  if (!lstatSync(from).isDirectory()) {
    linkSync(from, to);
    return;
  }
  mkdirSync(to, { mode: 0o700 });
  for (const name of readdirSync(from)) link(join(from, name), join(to, name));
}

test('what is done in a copy of a live home does not reach its daemon', async ({
  home,
  copies,
  folder,
}) => {
  await home.svc(['start']);
  const { pid } = JSON.parse((await home.svc(['status', '--json'])).stdout) as { pid: number };
  // The path of its socket is too long, so it is elsewhere and named by the path of the home.
  for (const name of ['copy', 'c'.repeat(100)]) {
    const copy = copyOf(home, join(folder, name));
    copies.push(copy);
    for (const args of [['stop'], ['stop', '--force']]) {
      const { code, stdout, stderr } = await copy.svc(args);
      assert.equal([code, stdout, stderr], [0, 'svc is not running.\n', '']);
    }
    assert.is((await copy.svc(['status'])).code, 3);
    // Each way to the daemon is tried once: all of them find it by the same file.
    const isFirst = name === 'copy';
    if (isFirst) assert.match((await copy.svc(['doctor'])).stdout, /daemon +not running/);
    const begun = await copy.svc(isFirst ? ['run', 'hi'] : ['start']);
    assert.is(begun.code, 0, begun.stderr);
    const of = JSON.parse((await copy.svc(['status', '--json'])).stdout) as { pid: number };
    assert.is.not(of.pid, pid);
    if (isFirst) assert.is((await copy.svc(['restart'])).code, 0);
    assert.is((await copy.svc(['stop', '--force'])).code, 0);
    const original = JSON.parse((await home.svc(['status', '--json'])).stdout);
    assert.equal([original.state, original.pid], ['ready', pid]);
  }
});

test('in a copy by hard links nothing reaches the daemon of the original', async ({
  home,
  copies,
  folder,
}) => {
  await home.svc(['start']);
  const { pid } = JSON.parse((await home.svc(['status', '--json'])).stdout) as { pid: number };
  link(home.folder, join(folder, 'linked'));
  const copy = makeHome({ SVC_HOME: join(folder, 'linked') });
  copies.push(copy);
  assert.is((await copy.svc(['status'])).code, 3);
  const { code, stdout } = await copy.svc(['stop', '--force']);
  assert.equal([code, stdout], [0, 'svc is not running.\n']);
  const start = await copy.svc(['start']);
  assert.is(start.code, 6, start.stderr);
  assert.match(start.stderr, ` shares files with ${realpathSync(home.folder)}, whose daemon runs.`);
  const original = JSON.parse((await home.svc(['status', '--json'])).stdout);
  assert.equal([original.state, original.pid], ['ready', pid]);
});

test('the daemon of an older version, which does not say its folder, is found and restarted', async ({
  home,
}) => {
  await home.svc(['start']);
  const { folder: _, ...older } = JSON.parse(readFileSync(home.paths.runtime, 'utf8'));
  writeFileSync(home.paths.runtime, JSON.stringify(older));
  // A removed socket would be made again.
  const other = join(home.folder, 'other');
  writeFileSync(other, '');
  renameSync(other, home.paths.socket);
  assert.is((await home.svc(['status'])).code, 4);
  const { code, stderr } = await home.svc(['restart']);
  assert.is(code, 0, stderr);
  assert.match(stderr, `Stopped pid ${older.pid}`);
});

on(
  'the copy of a node of a fleet says that its name is taken, and how to join as a new one',
  async ({ copies, folder }) => {
    const fleet = await RealFleet.start({ nodes: 1, base_url: 'http://127.0.0.1:9', max_runs: 1 });
    try {
      const copy = copyOf(fleet.home(0), join(folder, 'copy'), fleet.home(0).env);
      copies.push(copy);
      const refused = await copy.svc(['start']);
      assert.is(refused.code, 1, refused.stderr);
      assert.match(refused.stderr, /error: Another daemon is the node \S+ of this fleet\./);
      assert.match(refused.stderr, `delete ${copy.paths.node}, then run: svc start`);
      rmSync(copy.paths.node);
      const joined = await copy.svc(['start']);
      assert.is(joined.code, 0, joined.stderr);
      const { nodes } = JSON.parse((await copy.svc(['nodes', '--json'])).stdout);
      assert.is(nodes.length, 2);
    } finally {
      await fleet.close();
    }
  },
);

test.run();
