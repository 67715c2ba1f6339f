import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { packageRoot } from '../../src/home/paths.ts';
import { runtimeOf } from '../helpers/daemon.ts';
import {
  canTakeDescriptors,
  connectionsOf,
  takeDescriptors,
  untilNoWorkers,
} from '../helpers/descriptors.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { enginePid, type Life, serve } from '../torture/daemon.ts';

interface Answered {
  status: number;
  body: Record<string, unknown>;
}

interface Run {
  id: string;
  state: string;
  error: { code: string; message: string; hint: string; retryable: boolean } | null;
}

const test = suite<{
  home: Home;
  life: Life;
  upstream: Upstream;
  agent: Agent;
  ask(method: string, path: string, body?: object): Promise<Answered>;
}>('no descriptors left, and the built daemon');
const limited = canTakeDescriptors ? test : test.skip;
if (!canTakeDescriptors)
  console.log('skipped: the limit of a process that runs cannot be changed here');

// One daemon for all: each test but the last releases the descriptors that it took.
test.before(async (context) => {
  context.upstream = await Upstream.start();
  context.home = makeHome({ SVC_ENGINE_PRELOAD: 'true' });
  const { paths } = context.home;
  mkdirSync(dirname(paths.config), { recursive: true, mode: 0o700 });
  writeFileSync(
    paths.config,
    JSON.stringify({
      providers: { up: { base_url: context.upstream.base_url, model: 'm', kind: 'cloud' } },
    }),
  );
  mkdirSync(paths.models, { recursive: true, mode: 0o700 });
  copyFileSync(
    join(packageRoot(), 'src', 'providers', 'mini', 'svc-mini.gguf'),
    join(paths.models, 'other.gguf'),
  );
  context.life = await serve(context.home);
  const token = (await context.home.svc(['token'])).stdout.trim();
  const { http } = (await runtimeOf(context.home)).addresses;
  // One connection that is kept: no other is accepted later.
  context.agent = new Agent({ keepAlive: true, maxSockets: 1 });
  context.ask = (method, path, body) =>
    askOn(context.agent, `${http}${path}`, { method, token, body });
  await enginePid(context.life);
  // An idle connection is closed before long: from here on it is never idle.
  await context.ask('GET', '/livez');
});
test.after(async ({ home, life, upstream, agent }) => {
  agent.destroy();
  await life.kill();
  await home.close();
  await upstream.stop();
});

function askOn(
  agent: Agent,
  url: string,
  { method, token, body }: { method: string; token: string; body: object | undefined },
): Promise<Answered> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const asking = request(url, { method, agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        text += part;
      });
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) }),
      );
    });
    asking.on('error', reject);
    asking.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

type Ask = (method: string, path: string, body?: object) => Promise<Answered>;

/** The run, when it has ended. */
async function run(ask: Ask, body: object): Promise<Run> {
  const { status, body: begun } = await ask('POST', '/v1/runs', {
    prompt: 'What is svc?',
    ...body,
  });
  assert.is(status, 202, JSON.stringify(begun));
  const ended = async () => {
    const now = (await ask('GET', `/v1/runs/${(begun as unknown as Run).id}`))
      .body as unknown as Run;
    return (
      ['completed', 'failed', 'interrupted', 'timed_out', 'cancelled'].includes(now.state) && now
    );
  };
  return waitFor('the run has ended', ended, { within_ms: 120_000 });
}

const failsByName = ({ state, error }: Run, what: string) => {
  assert.equal(
    [what, state, error?.code, error?.retryable],
    [what, 'failed', 'descriptors_exhausted', true],
  );
  assert.match(error?.message ?? '', /can open no more files or connections \(E[MN]FILE\)/);
  assert.match(error?.hint ?? '', /limit of open files/);
};

limited(
  'an engine that cannot be started fails its run by name, whatever number is left, and the daemon lives',
  async ({ ask, life }) => {
    for (const free of [1, 4]) {
      const pid = await enginePid(life);
      await ask('GET', '/livez');
      await untilNoWorkers(life.pid);
      const give = takeDescriptors(life.pid, free);
      process.kill(pid, 'SIGKILL');
      await waitFor(
        'the engine is gone',
        async () =>
          ((await ask('GET', '/v1/runtime/health')).body.engine as { pid: number | null }).pid ===
          null,
      );
      const { state, error } = await run(ask, {});
      if (state !== 'completed') assert.equal([free, error?.code], [free, 'descriptors_exhausted']);
      give();
      assert.is((await run(ask, {})).state, 'completed', `${free} were free`);
    }
  },
);

limited(
  'health warns with the cause, runs that need one fail by name, and all comes back',
  async ({ ask, life }) => {
    await untilNoWorkers(life.pid);
    // An idle connection is closed before long.
    await ask('GET', '/livez');
    const give = takeDescriptors(life.pid);
    for (const path of ['/v1/runtime/health', '/readyz']) {
      // What the daemon closes meanwhile is taken too.
      const { status, body } = await waitFor(`${path} warns`, async () => {
        takeDescriptors(life.pid);
        const answer = await ask('GET', path);
        return answer.body.status === 'warn' && answer;
      });
      assert.equal([path, status, body.status], [path, 200, 'warn']);
      assert.match(String(body.output), /can open no more files or connections \(EMFILE\)/);
    }
    takeDescriptors(life.pid);
    failsByName(await run(ask, { provider: 'up' }), 'a connection');
    takeDescriptors(life.pid);
    failsByName(await run(ask, { model: 'other' }), 'a model file');
    assert.is((await run(ask, {})).state, 'completed', 'the engine that runs needs none');
    give();
    for (const path of ['/v1/runtime/health', '/readyz'])
      assert.is((await ask('GET', path)).body.status, 'pass', path);
    for (const body of [{ provider: 'up' }, { model: 'other' }, {}])
      assert.is((await run(ask, body)).state, 'completed', JSON.stringify(body));
  },
);

limited(
  'a command that the daemon has no descriptor for says so, and starts no other daemon',
  async ({ life, home, agent }) => {
    await untilNoWorkers(life.pid);
    const give = takeDescriptors(life.pid);
    // A connection that closes later, also one to a provider, would leave a descriptor for a
    // command: so the limit is lowered again when none is left.
    agent.destroy();
    await waitFor('no connection is open', () => connectionsOf(life.pid) === 0);
    // What else the daemon closes is taken too: its files, and its socket for commands.
    const asked = (args: string[]) =>
      waitFor(`no descriptor is free for ${args.join(' ')}`, async () => {
        takeDescriptors(life.pid);
        const answer = await home.svc(args);
        return answer.code !== 0 && answer;
      });
    for (const args of [
      ['runs', 'list'],
      ['run', 'What is svc?'],
      ['run', 'What is svc?', '--no-start'],
      ['start'],
      ['api', 'GET', '/v1/runs'],
      ['health'],
      ['health', '--source', 'grpc'],
      ['health', '--source', 'socket'],
    ]) {
      const { code, stderr } = await asked(args);
      assert.equal([args, code], [args, 8], stderr);
      assert.match(stderr, /as many files and connections open as the system allows/);
    }
    const status = await asked(['status', '--json']);
    assert.is(status.code, 4);
    assert.is(JSON.parse(status.stdout).state, 'unresponsive');
    assert.match(JSON.parse(status.stdout).warning, /ulimit -n/);
    assert.match(
      (await asked(['doctor'])).stdout,
      /does not answer\. The daemon has as many files and connections open/,
    );
    give();
    assert.is((await home.svc(['runs', 'list'])).code, 0);
  },
);

limited('a daemon without descriptors is stopped all the same', async ({ life, home }) => {
  await untilNoWorkers(life.pid);
  takeDescriptors(life.pid);
  const { code, stderr } = await home.svc(['stop', '--timeout', '0']);
  assert.is(code, 0, stderr);
  const after = await home.svc(['status']);
  // 3: stopped. 1: it could not record or remove something without a descriptor.
  assert.ok([1, 3].includes(after.code ?? 0), after.stdout + after.stderr);
});

test.run();
