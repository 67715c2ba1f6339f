import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { SCRIPTED } from '../helpers/tool-servers.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';

/** The daemon as process 1 of a container without an init: in a namespace of processes. */

const NAMESPACE = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child'] as const;
const [program, ...words] = NAMESPACE;
const isPossible = spawnSync(program, [...words, 'true']).status === 0;
if (!isPossible) process.stdout.write('skipped: no namespace of processes (unshare --pid)\n');

const test = suite<{ home: Home; life: Life | null }>('process 1');
test.before.each((context) => {
  context.home = makeHome();
  context.life = null;
});
test.after.each(async ({ home, life }) => {
  await life?.kill();
  await home.close();
});
const testInNamespace = isPossible ? test : test.skip;

interface Process {
  pid: number;
  parent: number;
  state: string;
}

/** The processes of the namespace that a daemon is in, by their pids outside. */
function processesBelow(top: number): Process[] {
  const all = readdirSync('/proc').flatMap((name): Process[] => {
    try {
      const status = readFileSync(`/proc/${Number(name)}/status`, 'utf8');
      const field = (of: string) => new RegExp(`^${of}:\t(\\S+)`, 'm').exec(status)?.[1] ?? '';
      return [{ pid: Number(name), parent: Number(field('PPid')), state: field('State') }];
    } catch {
      return [];
    }
  });
  const below = (parent: number): Process[] =>
    all.filter((each) => each.parent === parent).flatMap((each) => [each, ...below(each.pid)]);
  return below(top);
}

testInNamespace('ten stops of servers behind two shells leave no zombie', async (context) => {
  const { home } = context;
  const inner = `'${process.execPath}' '${SCRIPTED}'; true`;
  const npx = { command: 'sh', args: ['-c', `sh -c "$0"; true`, inner] };
  writeFileSync(join(home.folder, 'mcp.json'), JSON.stringify({ mcpServers: { npx } }));
  const life = await serve(home, { wrapper: NAMESPACE });
  context.life = life;
  const before = processesBelow(life.pid).length;
  for (let stops = 0; stops < 10; stops += 1) {
    const started = await life.ask((client) => client.call('mcp.test', { name: 'npx' }));
    assert.ok(started.tools.length > 0);
    await life.ask((client) => client.call('mcp.stop', { name: 'npx' }));
    await waitFor('it has ended', async () => {
      const { servers } = await life.ask((client) => client.call('mcp.list', {}));
      return servers[0]?.pid === null;
    });
  }
  await waitFor('all are reaped', () => processesBelow(life.pid).length <= before);
  assert.equal(
    processesBelow(life.pid).filter(({ state }) => state === 'Z'),
    [],
  );
});

testInNamespace(
  'signals and the exit code pass through: a stop drains, and is no failure',
  async (context) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      const life = await serve(context.home, { wrapper: NAMESPACE });
      context.life = life;
      const [one] = processesBelow(life.pid);
      process.kill(one?.pid ?? 0, signal);
      assert.equal(await life.ended, { code: 0, signal: null });
      assert.match(life.printed(), 'stopping, asked by signal');
      assert.match(life.printed(), '"msg":"stopped"');
    }
    // A daemon that cannot start says so by its code.
    writeFileSync(context.home.paths.config, '{ "http": 7 }');
    const failed = await context.home.spawn(['serve'], { wrapper: NAMESPACE }).ended;
    assert.equal([failed.code, failed.signal], [6, null], failed.stderr);
    assert.match(failed.stderr, 'http must be');
  },
);

test.run();
