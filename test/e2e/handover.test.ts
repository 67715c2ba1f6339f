import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import { waitFor } from '../helpers/wait.ts';
import { addModels, type Followed, followAnswer } from '../torture/answers.ts';
import { type Life, type Run, serve } from '../torture/daemon.ts';
import { BEGIN, ENVIRONMENT, whileEngineIsStopped, withOneHome } from './local-life.ts';

/** A stop finishes what fits in its time and hands the rest over to the next start. */
const test = suite<Context>('hand-over');

interface Context {
  home: PausedHome;
  life: Life;
}

withOneHome(test, async () => {
  const home = await makePausedHome({ SVC_LIMIT_PROVIDER_RUNS: '2', ...ENVIRONMENT });
  addModels(home);
  return home;
});

const LOCAL = {
  provider: 'local',
  model: 'slow',
  temperature: 0.8,
  seed: 9,
  max_tokens: 300,
  prompt: 'x',
};

/** The whole answer to that. */
let whole: Followed;

test.before(async ({ home }) => {
  whole = await followAnswer(home, LOCAL);
});

const get = ({ life }: Context, id: string): Promise<Run> =>
  life.ask((client) => client.call('run.get', { id }));
const start = ({ life }: Context, more: object = {}): Promise<Run> =>
  life.ask((client) => client.call('run.start', { prompt: 'x', ...more }));
const reaches = (context: Context, id: string, state: string) =>
  waitFor(`the run is ${state}`, async () => (await get(context, id)).state === state);
const ended = (context: Context, id: string) =>
  waitFor(`${id} has ended`, async () => {
    const run = await get(context, id);
    return run.ended_at !== null && run;
  });

/** Two runs are asked; the first piece of one answer comes. Returns that run, then the other. */
async function answerOne(context: Context, runs: readonly Run[]): Promise<string[]> {
  const { server } = context.home;
  await waitFor('two are asked', () => server.streams.size === 2);
  const [, second] = [...server.streams];
  second?.write(
    `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 0, model: 'held', choices: [{ index: 0, delta: { content: 'half' }, finish_reason: null }] })}\n\n`,
  );
  return waitFor('one streams', async () => {
    for (const { id } of runs)
      if ((await get(context, id)).output === 'half')
        return [id, ...runs.map((run) => run.id).filter((other) => other !== id)];
    return false;
  });
}

test('a stop whose time is over: each run is finished, handed over or ended, and the start brings back what was handed over', async (context) => {
  const { home } = context;
  const local = await start(context, LOCAL);
  await waitFor('it has begun', async () => (await get(context, local.id)).output !== '', BEGIN);
  const [stopping, queued, [streaming = '', asked = '']] = await whileEngineIsStopped(
    context.life,
    async () => {
      const others = [await start(context), await start(context)];
      const last = await start(context);
      const ids = await answerOne(context, others);
      const command = home.spawn(['stop', '--json', '--timeout', '1']);
      await reaches(context, local.id, 'cancelling');
      return [command, last, ids] as const;
    },
  );
  const { code, stdout, stderr } = await stopping.ended;
  assert.is(code, 0, stderr);
  assert.equal(await context.life.ended, { code: 0, signal: null });
  assert.equal(JSON.parse(stdout).runs, { finished: 0, handed_over: 3, ended: 1 });
  await waitFor('the connection to the upstream is closed', () => home.server.streams.size === 0);

  context.life = await serve(home);
  assert.is((await get(context, streaming)).state, 'interrupted');
  assert.is((await get(context, streaming)).output, 'half');
  const after = await followAnswer(home, local.id);
  assert.is(after.record?.state, 'completed');
  assert.equal(after.token_ids, whole.token_ids);
  await waitFor('both are asked again', () => home.server.streams.size === 2);
  home.server.say('whole');
  home.server.finish();
  assert.is((await ended(context, asked)).output, 'whole');
  assert.is((await ended(context, queued.id)).output, 'whole');
  assert.is((await ended(context, asked)).attempts, 2);
});

test('what fits in the time is finished, and the report says so in words', async (context) => {
  const { home } = context;
  const run = await start(context);
  await waitFor('it is asked', () => home.server.streams.size === 1);
  const stopping = home.spawn(['stop']);
  await waitFor(
    'it drains',
    async () => (await context.life.ask((client) => client.call('status'))).state === 'stopping',
  );
  home.server.say('in time');
  home.server.finish();
  const outcome = await stopping.ended;
  assert.is(outcome.code, 0, outcome.stderr);
  assert.match(outcome.stdout, /1 run finished/);
  context.life = await serve(home);
  assert.is((await get(context, run.id)).output, 'in time');
});

test('a second signal forces: what is left is handed over at once', async (context) => {
  const { home, life } = context;
  const run = await start(context);
  await waitFor('it is asked', () => home.server.streams.size === 1);
  life.child.kill('SIGTERM');
  await waitFor(
    'it drains',
    async () =>
      (await life.ask((client) => client.call('status'))).state_path === 'stopping.draining',
  );
  life.child.kill('SIGTERM');
  assert.equal(await life.ended, { code: 0, signal: null });
  context.life = await serve(home);
  await waitFor('it is asked again', () => home.server.streams.size === 1);
  home.server.finish();
  assert.is((await ended(context, run.id)).state, 'completed');
  const { last_boot } = await context.life.ask((client) => client.call('status'));
  assert.is(last_boot?.ending, 'clean');
});

test('no run is taken while it stops, and a run that was queued is still queued', async (context) => {
  const { home } = context;
  for (let count = 1; count <= 3; count += 1) await start(context);
  await waitFor('two are asked', () => home.server.streams.size === 2);
  const stopping = home.spawn(['stop', '--timeout', '60']);
  await waitFor(
    'it drains',
    async () => (await context.life.ask((client) => client.call('status'))).state === 'stopping',
  );
  const refused = await home.svc(['run', 'x', '--no-start']);
  assert.is(refused.code, 4, refused.stderr);
  assert.is((await home.svc(['stop', '--force'])).code, 0);
  const outcome = await stopping.ended;
  assert.match(outcome.stdout, /3 handed over/);
  context.life = await serve(home);
  await waitFor('two are asked again', () => home.server.streams.size === 2);
  assert.is((await context.life.ask((client) => client.call('status'))).runs.queued, 1);
});

test.run();
