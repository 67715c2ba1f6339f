import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { healthOf, makePausedHome, type PausedHome, runtimeOf } from '../helpers/daemon.ts';
import { grpcHealth } from '../helpers/grpc-health.ts';
import { waitFor } from '../helpers/wait.ts';

/** Every state of a real process, seen over every transport at once. */
const test = suite<{ home: PausedHome }>('health in every state');

test.before.each(async (context) => {
  context.home = await makePausedHome({ SVC_LIMIT_PROBE_MS: '60000' });
});
test.after.each(async ({ home }) => {
  await home.close();
});

interface Seen {
  livez: number;
  readyz: number;
  report: number;
  state: string;
  grpc: { live: string; ready: string; whole: string };
  cli: Record<'http' | 'grpc' | 'socket', number | null>;
}

async function look(home: PausedHome): Promise<Seen> {
  const { addresses } = await runtimeOf(home);
  const ask = async (path: string) => {
    const response = await fetch(`${addresses.http}${path}`);
    assert.is(response.headers.get('content-type')?.split(';')[0], 'application/health+json');
    assert.is(response.headers.get('cache-control'), 'no-store');
    return {
      status: response.status,
      body: (await response.json()) as {
        state_path: string;
        status: string;
        reason: string | null;
      },
    };
  };
  const [livez, readyz, report] = await Promise.all([
    ask('/livez'),
    ask('/readyz'),
    ask('/v1/runtime/health'),
  ]);
  const codes = [];
  for (const source of ['http', 'grpc', 'socket'] as const) {
    const { code } = await healthOf(home, source);
    codes.push([source, code]);
  }
  const [live, ready, whole] = await grpcHealth(addresses.grpc ?? '', [
    'svc.livez',
    'svc.readyz',
    '',
  ]);
  assert.is(readyz.body.reason === null, readyz.status === 200);
  return {
    livez: livez.status,
    readyz: readyz.status,
    report: report.status,
    state: report.body.state_path,
    grpc: { live: live ?? '', ready: ready ?? '', whole: whole ?? '' },
    cli: Object.fromEntries(codes) as Seen['cli'],
  };
}

async function reaches(home: PausedHome, state: string): Promise<void> {
  const { addresses } = await runtimeOf(home);
  await waitFor(`the daemon is ${state}`, async () => {
    const { state_path } = (await (await fetch(`${addresses.http}/v1/runtime/health`)).json()) as {
      state_path: string;
    };
    return state_path === state;
  });
}

const serving = (state: string): Seen => ({
  livez: 200,
  readyz: 200,
  report: 200,
  state,
  grpc: { live: 'SERVING', ready: 'SERVING', whole: 'SERVING' },
  cli: { http: 0, grpc: 0, socket: 0 },
});
const aliveOnly = (state: string): Seen => ({
  livez: 200,
  readyz: 503,
  report: 503,
  state,
  grpc: { live: 'SERVING', ready: 'NOT_SERVING', whole: 'NOT_SERVING' },
  cli: { http: 4, grpc: 4, socket: 4 },
});

test('starting, ready, running, saturated, draining, closing and gone', async ({ home }) => {
  home.server.holdModels();
  const daemon = home.spawn(['serve'], {
    env: {
      SVC_ENGINE_PRELOAD: 'true',
      SVC_LIMIT_QUEUE_RUNS: '2',
      SVC_LIMIT_CLOSE_MS: '60000',
      SVC_LIMIT_ENGINE_STOP_MS: '60000',
    },
  });
  await waitFor('the daemon asks its provider', () => home.server.asked);
  await runtimeOf(home);
  await reaches(home, 'starting.probing');
  assert.equal(await look(home), aliveOnly('starting.probing'));

  home.server.releaseModels();
  await reaches(home, 'ready');
  assert.equal(await look(home), serving('ready'));

  const first = home.spawn(['run', 'one', '--no-start']);
  await waitFor('one run streams', () => home.server.streams.size === 1);
  assert.equal(await look(home), serving('running.accepting'));
  const second = home.spawn(['run', 'two', '--no-start']);
  await waitFor('two runs stream', () => home.server.streams.size === 2);
  assert.equal(await look(home), serving('running.saturated'));
  assert.is((await home.svc(['run', 'three', '--no-start'])).code, 8);

  const engine = await enginePid(home);
  const stopping = home.spawn(['stop', '--timeout', '60']);
  await reaches(home, 'stopping.draining');
  assert.equal(await look(home), aliveOnly('stopping.draining'));
  assert.is((await home.svc(['run', 'four', '--no-start'])).code, 4);

  // An engine that does not answer keeps the daemon in its last state for as long as the test
  // looks.
  process.kill(engine, 'SIGSTOP');
  home.server.finish();
  await reaches(home, 'stopping.closing');
  assert.equal(await look(home), aliveOnly('stopping.closing'));
  process.kill(engine, 'SIGCONT');

  assert.is((await stopping.ended).code, 0);
  assert.is((await daemon.ended).code, 0);
  assert.is((await first.ended).code, 0);
  assert.is((await second.ended).code, 0);
  for (const source of ['http', 'grpc', 'socket'])
    assert.is((await home.svc(['health', '--source', source])).code, 3, source);
});

test('a probe that hangs delays the start no longer than its bound, and says why', async ({
  home,
}) => {
  home.server.holdModels();
  const started = await home.svc(['start'], {
    env: { SVC_LIMIT_PROBE_MS: '300', SVC_LIMIT_PROBE_EVERY_MS: '3600000' },
  });
  assert.is(started.code, 0, started.stderr);
  const list = JSON.parse((await home.svc(['provider', 'list', '--json'])).stdout) as {
    providers: { id: string; state: string; reason: string }[];
  };
  const held = list.providers.find((provider) => provider.id === 'held');
  assert.is(held?.state, 'unavailable');
  assert.match(held?.reason ?? '', /time/);
});

test('health --watch prints each change', async ({ home }) => {
  await home.svc(['start']);
  const watching = home.spawn(['health', '--watch', '--json', '--source', 'socket']);
  await waitFor('the first line', () => watching.stdout().includes('"ready"'));
  const run = home.spawn(['run', 'x', '--no-start']);
  await waitFor('the change to running', () => watching.stdout().includes('running.accepting'));
  await waitFor('the run streams', () => home.server.streams.size === 1);
  home.server.finish();
  await run.ended;
  await waitFor('the change back', () =>
    watching.stdout().trim().split('\n').at(-1)?.includes('"ready"'),
  );
});

/** The engine is warmed in the background of a ready daemon. */
async function enginePid(home: PausedHome): Promise<number> {
  const { addresses } = await runtimeOf(home);
  return waitFor(
    'the engine is warm',
    async () => {
      const headers = { authorization: `Bearer ${readFileSync(home.paths.token, 'utf8').trim()}` };
      const report = (await (
        await fetch(`${addresses.http}/v1/runtime/health`, { headers })
      ).json()) as { engine: { state: string; pid: number | null } };
      return report.engine.state === 'warm.idle' && report.engine.pid;
    },
    { within_ms: 60_000 },
  );
}

test.run();
