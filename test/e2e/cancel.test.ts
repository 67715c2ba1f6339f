import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { connect } from '../../src/transport/control/client.ts';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import { Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { addModels, followAnswer } from '../torture/answers.ts';
import { type Life, type Run, serve } from '../torture/daemon.ts';
import { ask, stream } from '../torture/http.ts';
import { BEGIN, whileEngineIsStopped, withOneHome } from './local-life.ts';

/** Cancelled in every state, by any client: the answer comes when the work has stopped. */
const test = suite<Context>('cancel');

interface Context {
  home: PausedHome;
  life: Life;
}

withOneHome(test, async () => {
  const home = await makePausedHome({ SVC_LIMIT_PROVIDER_RUNS: '1', SVC_ENGINE_THREADS: '1' });
  addModels(home);
  return home;
});

const get = ({ life }: Context, id: string): Promise<Run> =>
  life.ask((client) => client.call('run.get', { id }));
const start = ({ life }: Context, more: object = {}): Promise<Run> =>
  life.ask((client) => client.call('run.start', { prompt: 'x', ...more }));
const cancel = ({ home }: Context, id: string) =>
  ask(home, `/v1/runs/${id}/cancel`, { method: 'POST' });
const reaches = (context: Context, id: string, state: string) =>
  waitFor(`the run is ${state}`, async () => (await get(context, id)).state === state, BEGIN);
const asked = ({ home }: Context) =>
  waitFor('the provider is asked', () => home.server.streams.size === 1);

/** Cancels, and again: the same answer. */
async function checkCancelled(context: Context, id: string): Promise<Run> {
  const first = await cancel(context, id);
  assert.is(first.status, 200, first.text);
  assert.is(first.json.state, 'cancelled');
  assert.is(first.json.error.code, 'run_cancelled');
  assert.equal((await cancel(context, id)).json, first.json);
  assert.equal(
    JSON.parse((await context.home.svc(['runs', 'cancel', id, '--json'])).stdout),
    first.json,
  );
  return first.json;
}

test('in the queue: it leaves it, those behind it move up, and it is never asked', async (context) => {
  const { id: busy } = await start(context);
  await asked(context);
  const [second, third] = [await start(context), await start(context)];
  await checkCancelled(context, second.id);
  assert.is((await get(context, third.id)).queue_position, 1);
  await checkCancelled(context, third.id);
  await checkCancelled(context, busy);
  assert.is(context.home.server.chats, 1);
});

test('before the first word and in the middle of the answer: the upstream request is closed by then', async (context) => {
  const first = await start(context);
  await asked(context);
  await checkCancelled(context, first.id);
  await waitFor(
    'the connection to the upstream is closed',
    () => context.home.server.streams.size === 0,
  );
  const second = await start(context);
  await asked(context);
  context.home.server.say('some text');
  await reaches(context, second.id, 'streaming');
  assert.is((await checkCancelled(context, second.id)).output, 'some text');
  await waitFor(
    'the connection to the upstream is closed',
    () => context.home.server.streams.size === 0,
  );
});

test('while a model is loaded, and while the engine decodes: the engine is free at once', async (context) => {
  const long = { provider: 'local', model: 'slow', max_tokens: 900, temperature: 0 };
  const loading = await start(context, long);
  await checkCancelled(context, loading.id);
  const streaming = await start(context, long);
  await reaches(context, streaming.id, 'streaming');
  const cancelled = await checkCancelled(context, streaming.id);
  assert.ok(cancelled.output.length > 0);
  const next = await followAnswer(context.home, {
    prompt: 'y',
    ...long,
    model: 'quick',
    max_tokens: 5,
  });
  assert.is(next.record?.state, 'completed');
});

test('while it waits to be tried again', async (context) => {
  const { home } = context;
  const busy = await Upstream.start((exchange) =>
    exchange.received.path.endsWith('/models')
      ? exchange.reply(200, { data: [{ id: 'm' }] })
      : exchange.reply(503, { error: { message: 'busy' } }, { 'retry-after': '25' }),
  );
  try {
    assert.is(
      (await home.svc(['provider', 'add', 'busy', '--base-url', busy.base_url, '--model', 'm']))
        .code,
      0,
    );
    const run = await start(context, { provider: 'busy' });
    await reaches(context, run.id, 'backoff');
    await checkCancelled(context, run.id);
    assert.is(busy.received.filter(({ path }) => path.endsWith('/chat/completions')).length, 1);
  } finally {
    await busy.stop();
  }
});

test('ten at once for one run get one answer, and a finished run stays what it was', async (context) => {
  const run = await start(context);
  await asked(context);
  const answers = await Promise.all(Array.from({ length: 10 }, () => cancel(context, run.id)));
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
  const done = await start(context);
  await asked(context);
  context.home.server.finish();
  await reaches(context, done.id, 'completed');
  assert.is((await cancel(context, done.id)).json.state, 'completed');
  assert.is((await cancel(context, 'run_00000000000000000000000000')).status, 404);
});

test('when the one who asked is gone, where that was asked for: over HTTP, and a command that is killed', async (context) => {
  const { home } = context;
  for (const wants of [true, false]) {
    const before = home.server.chats;
    const following = await stream(home, '/v1/runs', {
      method: 'POST',
      body: { prompt: 'x', cancel_on_disconnect: wants },
    });
    await waitFor(
      'the provider is asked',
      () => home.server.chats === before + 1 && home.server.streams.size === 1,
    );
    following.leave();
    const id = String(following.headers['x-svc-run-id']);
    if (wants) await reaches(context, id, 'cancelled');
    else {
      home.server.finish();
      await reaches(context, id, 'completed');
    }
    await waitFor('the connection to the upstream is closed', () => home.server.streams.size === 0);
  }
  for (const flags of [['--cancel-on-disconnect'], []]) {
    const command = home.spawn(['run', 'x', '--no-start', ...flags]);
    await asked(context);
    const [run] = (await context.life.ask((client) => client.call('run.list'))).runs;
    command.child.kill('SIGKILL');
    await command.ended;
    if (flags.length === 0) home.server.finish();
    await reaches(context, run?.id ?? '', flags.length === 0 ? 'completed' : 'cancelled');
    await waitFor('the connection to the upstream is closed', () => home.server.streams.size === 0);
  }
});

test('while it is suspended: it was cut off and waits for a place', async (context) => {
  const long = { provider: 'local', model: 'slow', max_tokens: 900, temperature: 0 };
  const [first, second] = [await start(context, long), await start(context, long)];
  for (const { id } of [first, second]) await reaches(context, id, 'streaming');
  await context.life.kill();
  context.life = await serve(context.home, {
    env: { SVC_LIMIT_LOCAL_RUNS: '1', SVC_LIMIT_CANCEL_GRACE_MS: '600000' },
  });
  assert.is((await get(context, second.id)).state, 'suspended');
  // The first one goes on: both are cancelled before a command takes its time to look at either.
  for (const { id } of [second, first]) await cancel(context, id);
  assert.ok((await checkCancelled(context, second.id)).output.length > 0);
  await checkCancelled(context, first.id);
});

// In the life before it: it has all the time to cancel.
test('a cancel that was under way when the daemon died has happened', async (context) => {
  const run = await start(context, { provider: 'local', model: 'slow', max_tokens: 900 });
  await reaches(context, run.id, 'streaming');
  await whileEngineIsStopped(context.life, async () => {
    const client = await connect(context.home.paths.socket);
    void client.call('run.cancel', { id: run.id }).catch(() => {});
    await reaches(context, run.id, 'cancelling');
    await context.life.kill();
    client.close();
  });
  context.life = await serve(context.home);
  assert.is((await get(context, run.id)).state, 'cancelled');
});

test('while the daemon stops', async (context) => {
  const run = await start(context);
  await asked(context);
  const client = await connect(context.home.paths.socket);
  await client.call('lifecycle', { type: 'stop_requested', timeout_ms: 60_000 });
  await reaches(context, run.id, 'starting');
  const cancelled = await client.call('run.cancel', { id: run.id });
  assert.is(cancelled.state, 'cancelled');
  client.close();
  assert.equal(await context.life.ended, { code: 0, signal: null });
  context.life = await serve(context.home);
  assert.is((await get(context, run.id)).state, 'cancelled');
});

test.run();
