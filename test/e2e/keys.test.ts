import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { type Answer, ask, stream } from '../torture/http.ts';
import { answerAll, withOneHome } from './local-life.ts';

/** The same key and request give one run, from any client, also after a crash of the daemon. */
const test = suite<Context>('idempotency keys');

interface Context {
  home: PausedHome;
  life: Life;
}

withOneHome(test, () => makePausedHome());
test.after.each(answerAll);

const post = (home: PausedHome, key: string, body: object = { prompt: 'x' }): Promise<Answer> =>
  ask(home, '/v1/runs', { method: 'POST', body, headers: { 'idempotency-key': key } });
const count = async ({ life }: Context) =>
  (await life.ask((client) => client.call('run.list', { limit: 100 }))).runs.length;

test('twenty at one time start one run', async (context) => {
  const answers = await Promise.all(Array.from({ length: 20 }, () => post(context.home, 'k')));
  assert.equal(new Set(answers.map(({ json }) => json.id)).size, 1);
  assert.ok(
    answers.every(({ status }) => status === 202),
    answers.map(({ status }) => status).join(),
  );
  assert.is(await count(context), 1);
  await waitFor('the provider is asked', () => context.home.server.chats > 0);
  assert.is(context.home.server.chats, 1);
});

test('another request under the same key is refused, the same one in another order or by the command line is not', async (context) => {
  const before = await count(context);
  const first = await post(context.home, 'other', { prompt: 'x', temperature: 0.5 });
  const other = await post(context.home, 'other', { prompt: 'y', temperature: 0.5 });
  assert.is(other.status, 422);
  assert.is(other.json.error.code, 'idempotency_conflict');
  assert.is(
    (await post(context.home, 'other', { temperature: 0.5, prompt: 'x' })).json.id,
    first.json.id,
  );
  const { stdout } = await context.home.svc([
    'run',
    'x',
    '--temperature',
    '0.5',
    '--idempotency-key',
    'other',
    '--detach',
    '--no-start',
  ]);
  assert.is(stdout.trim(), first.json.id);
  assert.is(
    (await context.home.svc(['run', 'z', '--idempotency-key', 'other', '--no-start'])).code,
    2,
  );
  assert.is(await count(context), before + 1);
});

test('a key leads to its run after a restart and after a kill, also when it has ended, and its stream is the whole answer', async (context) => {
  const before = await count(context);
  const { json: run } = await post(context.home, 'kept');
  await waitFor('it is asked', () => context.home.server.streams.size === 1);
  await context.life.kill();
  context.life = await serve(context.home);
  assert.is((await post(context.home, 'kept')).json.id, run.id);
  await waitFor('it is asked again', () => context.home.server.streams.size === 1);
  context.home.server.say('the answer');
  context.home.server.finish();
  await waitFor(
    'it has ended',
    async () => (await ask(context.home, `/v1/runs/${run.id}`)).json.state === 'completed',
  );
  await context.life.stop(0);
  context.life = await serve(context.home);
  assert.is((await post(context.home, 'kept')).json.state, 'completed');
  assert.is((await post(context.home, 'kept', { prompt: 'other' })).status, 422);
  const again = await stream(context.home, '/v1/runs', {
    method: 'POST',
    body: { prompt: 'x' },
    headers: { 'idempotency-key': 'kept' },
  });
  let text = '';
  for await (const { event, data } of again.events)
    if (event === 'run.output_appended') text += data.data.text;
  assert.is(text, 'the answer');
  assert.is(await count(context), before + 1);
});

/** Before a start is taken, between its commit and its answer, after it. */
const MOMENTS = [1, 3, 6];

test('a start whose answer is lost to a kill is sent again until it is answered: one run, each of many times', async (context) => {
  const before = await count(context);
  const ids: string[] = [];
  for (const time of MOMENTS) {
    const lost = Array.from({ length: 5 }, () => post(context.home, `k${time}`).catch(() => null));
    for (let turn = 0; turn < time * 3; turn += 1)
      await new Promise((resolve) => setImmediate(resolve));
    await context.life.kill();
    await Promise.all(lost);
    context.life = await serve(context.home);
    const again = await Promise.all(
      Array.from({ length: 5 }, () => post(context.home, `k${time}`)),
    );
    assert.equal(new Set(again.map(({ json }) => json.id)).size, 1);
    for (const answer of await Promise.all(lost))
      if (answer !== null)
        assert.is(answer.json.id, again[0]?.json.id, 'what was acknowledged is there');
    ids.push(again[0]?.json.id);
  }
  assert.is(new Set(ids).size, MOMENTS.length);
  assert.is(await count(context), before + MOMENTS.length);
});

test.run();
