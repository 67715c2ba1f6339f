import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { connect } from '../../../src/transport/control/client.ts';
import { type Home, makeHome } from '../../helpers/svc.ts';
import { waitFor } from '../../helpers/wait.ts';

/**
 * The instant after a kill. The system still takes connections for the dead process, and resets
 * them unread. A process that listens, never accepts, and is then killed makes that instant last.
 */
const test = suite<{ home: Home }>('a connection that is reset unread');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(async ({ home }) => {
  await home.close();
});

interface Dying {
  /** Connections that the system took for it. */
  taken(): number;
  kill(): Promise<void>;
}

async function listenAndNeverAccept(path: string): Promise<Dying> {
  mkdirSync(dirname(path), { recursive: true });
  const program = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => {
    require('node:fs').writeSync(1, 'up');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  })`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return {
    taken: () =>
      readFileSync('/proc/net/unix', 'utf8')
        .split('\n')
        .filter((line) => line.endsWith(` ${path}`)).length - 1,
    kill: async () => {
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'answered',
    (error: unknown) => (error instanceof SvcError ? error.code : String(error)),
  );

test('means that no daemon runs, for every request that was open on it', async ({ home }) => {
  const dying = await listenAndNeverAccept(home.paths.socket);
  const client = await connect(home.paths.socket);
  const stream = client.stream('run.start', { prompt: 'p' });
  const asked = [
    codeOf(client.call('provider.list')),
    codeOf(client.call('provider.remove', { id: 'x' })),
    codeOf(stream.result),
  ];
  await dying.kill();
  assert.equal(await Promise.all(asked), [
    'daemon_not_running',
    'daemon_not_running',
    'daemon_not_running',
  ]);
  assert.is(await codeOf(client.call('status')), 'daemon_not_running');
});

test('is no proof of a death while another process answers there', async ({ home }) => {
  const dying = await listenAndNeverAccept(home.paths.socket);
  const client = await connect(home.paths.socket);
  const asked = codeOf(client.call('provider.remove', { id: 'x' }));
  rmSync(home.paths.socket);
  const next = createServer((socket) => socket.resume().write('{"id":1,"result":{}}\n')).listen(
    home.paths.socket,
  );
  await once(next, 'listening');
  await dying.kill();
  assert.is(await asked, 'connection_lost');
  const closed = once(next, 'close');
  next.close();
  await closed;
});

if (!existsSync('/proc/net/unix')) console.log('skipped: connections cannot be counted here');
const counted = existsSync('/proc/net/unix') ? test : test.skip;

counted('every command says that no daemon runs, with the exit code for it', async ({ home }) => {
  for (const [args, exit] of [
    [['status'], 3],
    [['stop'], 0],
    [['health', '--source', 'socket'], 3],
    [['provider', 'list'], 0],
    [['provider', 'test', 'local'], 3],
    [['model', 'list'], 3],
    [['model', 'show', 'local/x'], 3],
    [['model', 'pull', 'hf:user/tiny'], 3],
    [['model', 'remove', 'local/x'], 3],
    [['runs', 'list'], 3],
    [['runs', 'show', 'run_1'], 3],
    [['runs', 'cancel', 'run_1'], 3],
    [['run', 'p', '--no-start'], 3],
    [['api', 'GET', '/livez'], 3],
    [['machines', '--live'], 3],
    [['console', '--no-open', '--no-start'], 3],
  ] as const) {
    const dying = await listenAndNeverAccept(home.paths.socket);
    const command = home.spawn(args);
    await waitFor(`svc ${args.join(' ')} has connected`, () => dying.taken() > 0, {
      within_ms: 30_000,
    });
    await dying.kill();
    const { code, stderr } = await command.ended;
    assert.is(code, exit, `svc ${args.join(' ')}: ${stderr}`);
    rmSync(home.paths.socket);
  }
});

test.run();
