import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, type Run, serve } from '../torture/daemon.ts';
import { stream } from '../torture/http.ts';
import { withOneHome } from './local-life.ts';

/** Runs at another provider, whose daemon is killed with SIGKILL. */
const test = suite<Context>('after a kill');

/** More than a run has attempts. */
const DEATHS = 3;

withOneHome(test, () =>
  makePausedHome({ SVC_LIMIT_PROVIDER_RUNS: '1', SVC_LIMIT_RUN_ATTEMPTS: String(DEATHS - 1) }),
);

interface Context {
  home: PausedHome;
  life: Life;
}

async function killAndStart(context: Context): Promise<void> {
  await context.life.kill();
  await startAgain(context);
}

async function startAgain(context: Context): Promise<void> {
  await waitFor(
    'the connection to the upstream is closed',
    () => context.home.server.streams.size === 0,
  );
  context.life = await serve(context.home);
}

const get = ({ life }: Context, id: string): Promise<Run> =>
  life.ask((client) => client.call('run.get', { id }));
const start = ({ life }: Context, prompt: string, more: object = {}): Promise<Run> =>
  life.ask((client) => client.call('run.start', { prompt, ...more }));
const asked = ({ home }: Context) =>
  waitFor('the provider is asked', () => home.server.streams.size === 1);
const ended = (context: Context, id: string) =>
  waitFor(`${id} has ended`, async () => {
    const run = await get(context, id);
    return run.ended_at !== null && run;
  });

/** The types of a run's events, as the log has them. */
async function events({ home }: Context, id: string): Promise<string[]> {
  const types: string[] = [];
  for await (const { event } of (await stream(home, `/v1/runs/${id}/events`)).events)
    types.push(event);
  return types;
}

test('status and doctor report how the last daemon ended', async (context) => {
  const { home } = context;
  const lastBoot = async () =>
    JSON.parse((await home.svc(['status', '--json'])).stdout).last_boot as {
      ending: string;
      boot_id: string;
    } | null;
  assert.is(await lastBoot(), null);
  const { boot_id } = await context.life.ask((client) => client.call('status'));
  await killAndStart(context);
  assert.is((await lastBoot())?.ending, 'killed');
  assert.is((await lastBoot())?.boot_id, boot_id);
  const { checks } = JSON.parse((await home.svc(['doctor', '--json'])).stdout) as {
    checks: { name: string; detail: string }[];
  };
  assert.ok(
    checks.some(({ detail }) => /killed.*\(last event .* ago\)/.test(detail)),
    JSON.stringify(checks),
  );
  assert.is((await context.life.stop(0)).code, 0);
  context.life = await serve(home);
  assert.is((await lastBoot())?.ending, 'clean');
});

test('what a client has seen is on disk, the cut run gets one end, and the queue goes on in its order', async (context) => {
  const { home } = context;
  const cut = home.spawn(['run', 'first', '--no-start']);
  await asked(context);
  home.server.say('seen ');
  await waitFor('the client has seen text', () => cut.stdout() === 'seen ');
  const queued = [await start(context, 'second'), await start(context, 'third')];
  assert.equal(
    queued.map(({ queue_position }) => queue_position),
    [1, 2],
  );
  await context.life.kill();
  const dead = JSON.parse((await home.svc(['runs', 'list', '--json'])).stdout) as { runs: Run[] };
  assert.equal(
    dead.runs.map(({ state, output }) => [state, output]),
    [
      ['queued', ''],
      ['queued', ''],
      ['streaming', 'seen '],
    ],
    'without a daemon the runs are as the log left them',
  );
  await startAgain(context);
  const client = await cut.ended;
  assert.is(client.code, 10, client.stderr);
  assert.is(client.stdout, 'seen \n');
  const { runs } = await context.life.ask((one) => one.call('run.list'));
  const [third, second, first] = runs;
  assert.is(first?.state, 'interrupted');
  assert.is(first?.output, 'seen ');
  assert.is(first?.error?.code, 'run_interrupted');
  assert.equal(
    [second?.id, third?.id],
    queued.map(({ id }) => id),
  );
  await waitFor(
    'the queue goes on',
    async () => (await get(context, second?.id ?? '')).state === 'starting',
  );
  assert.is((await get(context, third?.id ?? '')).queue_position, 1);
  for (const id of queued.map((run) => run.id)) {
    await waitFor(
      'it streams',
      async () => home.server.streams.size === 1 && (await get(context, id)).state === 'starting',
    );
    home.server.say(`answer of ${id}`);
    home.server.finish();
    assert.is((await ended(context, id)).output, `answer of ${id}`);
  }
  assert.is(home.server.chats, 3);
});

test('a run without delivered output starts again after each death: none of them counts as a failure', async (context) => {
  const { id } = await start(context, 'x');
  for (let kill = 1; kill <= DEATHS; kill += 1) {
    await asked(context);
    await killAndStart(context);
  }
  await asked(context);
  context.home.server.say('at last');
  context.home.server.finish();
  const run = await ended(context, id);
  assert.is(run.state, 'completed');
  assert.is(run.output, 'at last');
  assert.is(run.attempts, DEATHS + 1);
  assert.equal(await events(context, id), [
    'run.accepted',
    'run.started',
    ...Array.from({ length: DEATHS }, () => ['run.recovered', 'run.started']).flat(),
    'run.output_appended',
    'run.completed',
  ]);
});

test('with recovery=restart a run with delivered text starts again, and the old text is dropped', async (context) => {
  const { home } = context;
  const client = home.spawn(['run', 'x', '--recovery', 'restart', '--no-start']);
  await asked(context);
  home.server.say('old ');
  await waitFor(
    'it is recorded',
    async () => (await context.life.ask((one) => one.call('run.list'))).runs[0]?.output === 'old ',
  );
  await killAndStart(context);
  await asked(context);
  home.server.say('new');
  home.server.finish();
  const outcome = await client.ended;
  assert.is(outcome.code, 0, outcome.stderr);
  assert.is(outcome.stdout, 'new\n');
  const [run] = (await context.life.ask((one) => one.call('run.list'))).runs;
  assert.is(run?.output, 'new');
});

test('with recovery=end a run that was asked ends, and one in the queue is answered', async (context) => {
  const cut = await start(context, 'x', { recovery: 'end' });
  const queued = await start(context, 'y', { recovery: 'end' });
  await asked(context);
  await killAndStart(context);
  assert.is((await ended(context, cut.id)).state, 'interrupted');
  assert.equal(await events(context, cut.id), ['run.accepted', 'run.started', 'run.interrupted']);
  await asked(context);
  context.home.server.finish();
  assert.is((await ended(context, queued.id)).state, 'completed');
});

test('Ctrl-C cancels the work: the upstream request is closed before the command ends', async (context) => {
  const { home } = context;
  const run = home.spawn(['run', 'long', '--no-start']);
  await asked(context);
  home.server.say('some text');
  await waitFor('the text is there', () => run.stdout() === 'some text');
  run.child.kill('SIGINT');
  const outcome = await run.ended;
  assert.is(outcome.code, 130);
  await waitFor('the upstream is closed', () => home.server.streams.size === 0);
  assert.is((await context.life.ask((one) => one.call('run.list'))).runs[0]?.state, 'cancelled');
});

test('an upstream that dies in the middle of an answer is an incomplete answer, with the text so far', async (context) => {
  const { home } = context;
  const run = home.spawn(['run', 'x', '--no-start']);
  await asked(context);
  home.server.say('half');
  await waitFor('the text is there', () => run.stdout() === 'half');
  for (const open of home.server.streams) open.destroy();
  const outcome = await run.ended;
  assert.is(outcome.code, 10, outcome.stderr);
  assert.match(outcome.stdout, /^half/);
});

test.run();
