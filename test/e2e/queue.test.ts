import { readFileSync, writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, type LifeOptions, type Run, serve } from '../torture/daemon.ts';
import { asClient, ask, stream } from '../torture/http.ts';
import { answerAll, withOneHome } from './local-life.ts';

/** The queue as a user meets it: bounded, fair, and to be seen. */
const test = suite<Context>('the queue');

interface Context {
  home: PausedHome;
  life: Life;
}

withOneHome(test, () =>
  makePausedHome({ SVC_LIMIT_PROVIDER_RUNS: '1', SVC_LIMIT_QUEUE_RUNS: '3' }),
);
// Each test begins with an empty queue, and counts what is asked from there.
test.after.each(async (context) => {
  await answerAll(context);
  context.home.server.chats = 0;
});

const post = ({ home }: Context, client: string, body: object = {}) =>
  ask(home, '/v1/runs', {
    method: 'POST',
    body: { prompt: 'x', ...body },
    headers: asClient(client),
  });
const get = ({ life }: Context, id: string): Promise<Run> =>
  life.ask((client) => client.call('run.get', { id }));
const asked = ({ home }: Context, chats: number) =>
  waitFor(
    'the provider is asked',
    () => home.server.chats === chats && home.server.streams.size === 1,
  );

async function again(context: Context, options: LifeOptions): Promise<void> {
  await context.life.stop(0);
  context.life = await serve(context.home, options);
}

test('is bounded: 429 with Retry-After, exit 8, and room again when one has ended', async (context) => {
  for (let count = 1; count <= 3; count += 1) assert.is((await post(context, 'a')).status, 202);
  const full = await post(context, 'b');
  assert.is(full.status, 429);
  assert.is(full.json.error.code, 'busy');
  assert.is(full.json.error.retryable, true);
  assert.match(full.headers['retry-after'] ?? '', /^\d+$/);
  const command = await context.home.svc(['run', 'x', '--no-start']);
  assert.is(command.code, 8, command.stderr);
  const parallel = await Promise.all(
    Array.from({ length: 10 }, (_, index) => post(context, `c${index}`)),
  );
  assert.equal(
    parallel.map(({ status }) => status),
    parallel.map(() => 429),
    'there is no way around the limit',
  );
  assert.is((await ask(context.home, '/readyz')).status, 200, 'busy is not dead');
  await asked(context, 1);
  context.home.server.finish();
  await asked(context, 2);
  assert.is((await post(context, 'b')).status, 202);
});

test('shows each run its place: in its record, in the list, and as it changes', async (context) => {
  const { json: first } = await post(context, 'a');
  await asked(context, 1);
  const second = await stream(context.home, '/v1/runs', {
    method: 'POST',
    body: { prompt: 'y' },
    headers: asClient('a'),
  });
  const third = await stream(context.home, '/v1/runs', {
    method: 'POST',
    body: { prompt: 'z' },
    headers: asClient('a'),
  });
  const places: number[] = [];
  const heard: string[] = [];
  const hearing = (async () => {
    for await (const { event, data } of third.events) {
      heard.push(event);
      if (event === 'queue.position') places.push(data.queue_position);
    }
  })();
  await waitFor('the third one knows its place', () => places.at(-1) === 2);
  assert.equal(heard, ['run.accepted', 'queue.position']);
  const id = String(third.headers['x-svc-run-id']);
  assert.is((await ask(context.home, `/v1/runs/${id}`)).json.queue_position, 2);
  const { stdout } = await context.home.svc(['runs', 'list', '--json']);
  assert.equal(
    (JSON.parse(stdout).runs as Run[]).slice(0, 3).map(({ queue_position }) => queue_position),
    [2, 1, null],
  );
  assert.match((await context.home.svc(['runs', 'list'])).stdout, /queued.*2/);
  context.home.server.finish();
  await waitFor('it moved up', () => places.at(-1) === 1);
  assert.is((await get(context, first.id)).queue_position, null);
  second.leave();
  await asked(context, 2);
  context.home.server.finish();
  await asked(context, 3);
  context.home.server.finish();
  await hearing;
  assert.equal(places, [2, 1]);
});

test('serves two clients in turn, however many runs each has', async (context) => {
  await again(context, { env: { SVC_LIMIT_QUEUE_RUNS: '50' } });
  const ids = new Map<string, string>();
  for (let count = 0; count < 6; count += 1)
    ids.set((await post(context, 'greedy')).json.id, 'greedy');
  for (let count = 0; count < 3; count += 1) ids.set((await post(context, 'late')).json.id, 'late');
  for (let chats = 1; chats <= 9; chats += 1) {
    await asked(context, chats);
    context.home.server.finish();
  }
  await waitFor(
    'all are answered',
    async () => (await context.life.ask((client) => client.call('status'))).runs.active === 0,
  );
  const { runs } = (await ask(context.home, '/v1/runs?limit=9')).json as { runs: Run[] };
  const order = runs
    .sort((a, b) => ((a.started_at ?? '') < (b.started_at ?? '') ? -1 : 1))
    .map(({ id }) => ids.get(id)?.[0]);
  assert.is(order.join(''), 'glglglggg', 'the one being answered, then in turn');
});

test('keeps its order over a kill', async (context) => {
  const prompts = ['first', 'second', 'third', 'fourth', 'fifth'];
  const runs: Run[] = [];
  for (const prompt of prompts) runs.push((await post(context, 'one', { prompt })).json);
  await asked(context, 1);
  await context.life.kill();
  context.life = await serve(context.home);
  await asked(context, 2);
  const places = await Promise.all(runs.map(({ id }) => get(context, id)));
  assert.equal(
    places.slice(1).map(({ queue_position }) => queue_position),
    [1, 2, 3, 4],
  );
});

test('counts the total deadline too: exit 124', async (context) => {
  await post(context, 'a');
  await asked(context, 1);
  const total = await context.home.svc(['run', 'x', '--no-start', '--timeout', '1']);
  assert.is(total.code, 124, total.stderr);
  assert.is(context.home.server.chats, 1, 'nobody was asked');
});

test('has a number for one provider, and its own deadline: exit 124', async (context) => {
  const { config } = context.home.paths;
  const settings = JSON.parse(readFileSync(config, 'utf8'));
  settings.providers.held.max_runs = 2;
  writeFileSync(config, JSON.stringify(settings));
  await again(context, { env: { SVC_LIMIT_QUEUE_MS: '1000' } });
  for (let count = 1; count <= 2; count += 1) await post(context, 'a');
  await waitFor('two are asked', () => context.home.server.streams.size === 2);
  const command = context.home.spawn(['run', 'x', '--no-start', '--json']);
  const seen = await waitFor('the third waits', async () => {
    const { runs } = await context.life.ask((client) => client.call('status'));
    return runs.queued === 1 && runs;
  });
  assert.is(seen.active, 2);
  const queued = await command.ended;
  assert.is(queued.code, 124, queued.stderr);
  assert.match(queued.stdout + queued.stderr, /queue/);
});

test.run();
