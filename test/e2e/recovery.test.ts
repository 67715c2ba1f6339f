import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type HeldHome, makeHeldHome, runtimeOf } from '../helpers/daemon.ts';
import { waitFor } from '../helpers/wait.ts';

const test = suite<{ home: HeldHome }>('after a kill');

test.before.each(async (context) => {
  context.home = await makeHeldHome({ SVC_LIMIT_PROVIDER_RUNS: '1' });
});
test.after.each(async ({ home }) => {
  await home.close();
});

interface Listed {
  id: string;
  state: string;
  prompt: string;
  output: string;
  error: { code: string } | null;
}

const runs = async (home: HeldHome) => (JSON.parse((await home.svc(['runs', 'list', '--json'])).stdout) as { runs: Listed[] }).runs;

test('what a client has seen is on disk, the cut run gets one end, and the queue goes on in its order', async ({ home }) => {
  assert.is((await home.svc(['start'])).code, 0);
  const cut = home.spawn(['run', 'first', '--no-start']);
  await waitFor('the run streams', () => home.server.streams.size === 1);
  home.server.say('seen ');
  await waitFor('the client has seen text', () => cut.stdout() === 'seen ');
  const queued: string[] = [];
  for (const prompt of ['second', 'third']) queued.push((await home.svc(['run', prompt, '--detach', '--no-start'])).stdout.trim());
  const { pid } = await runtimeOf(home);
  process.kill(pid, 'SIGKILL');
  const client = await cut.ended;
  assert.is(client.code, 10, client.stderr);

  assert.is((await home.svc(['start'])).code, 0);
  await waitFor('the queue goes on', () => home.server.streams.size === 1);
  const [third, second, first] = await runs(home);
  assert.is(first?.state, 'interrupted');
  assert.is(first?.output, 'seen ');
  assert.is(first?.error?.code, 'run_interrupted');
  assert.equal([second?.id, third?.id], queued);
  assert.equal([second?.prompt, third?.prompt], ['second', 'third']);
  assert.is(third?.state, 'queued');
  home.server.say('answer');
  home.server.finish();
  await waitFor('the last one streams', () => home.server.chats === 3 && home.server.streams.size === 1);
  home.server.finish();
  await waitFor('all are settled', async () => (await runs(home)).every((run) => !['queued', 'starting', 'streaming'].includes(run.state)));
});

test('Ctrl-C cancels the work: the upstream is let go before the command ends', async ({ home }) => {
  await home.svc(['start']);
  const run = home.spawn(['run', 'long', '--no-start']);
  await waitFor('the run streams', () => home.server.streams.size === 1);
  home.server.say('some text');
  await waitFor('the text is there', () => run.stdout() === 'some text');
  run.child.kill('SIGINT');
  const outcome = await run.ended;
  assert.is(outcome.code, 130);
  await waitFor('the upstream is closed', () => home.server.streams.size === 0);
  assert.is((await runs(home))[0]?.state, 'cancelled');
});

test('a stop that does not wait interrupts what is left and keeps its text', async ({ home }) => {
  await home.svc(['start']);
  const run = home.spawn(['run', 'long', '--no-start']);
  await waitFor('the run streams', () => home.server.streams.size === 1);
  home.server.say('kept');
  await waitFor('the text is there', () => run.stdout() === 'kept');
  assert.is((await home.svc(['stop', '--timeout', '0'])).code, 0);
  assert.is((await run.ended).code, 10);
  await home.svc(['start']);
  const [record] = await runs(home);
  assert.is(record?.state, 'interrupted');
  assert.is(record?.output, 'kept');
});

test('a run that takes too long ends with 124', async ({ home }) => {
  await home.svc(['start']);
  const outcome = await home.svc(['run', 'x', '--no-start', '--timeout', '1']);
  assert.is(outcome.code, 124, outcome.stderr);
  assert.is((await runs(home))[0]?.state, 'timed_out');
});

test('an upstream that dies in the middle of an answer is an incomplete answer, with the text so far', async ({ home }) => {
  await home.svc(['start']);
  const run = home.spawn(['run', 'x', '--no-start']);
  await waitFor('the run streams', () => home.server.streams.size === 1);
  home.server.say('half');
  await waitFor('the text is there', () => run.stdout() === 'half');
  for (const stream of home.server.streams) stream.destroy();
  const outcome = await run.ended;
  assert.is(outcome.code, 10, outcome.stderr);
  assert.match(outcome.stdout, /^half/);
});

test.run();
