import { once } from 'node:events';
import { createServer } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import type { Home, Outcome, Started } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Followed, followAnswer } from '../torture/answers.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { type Sent, stream } from '../torture/http.ts';
import { BEGIN, whileEngineIsStopped, withLocalModels } from './local-life.ts';

/** A follower gets the whole answer, over a crash and a restart of the daemon. */
const test = suite<{ home: Home; life: Life }>('streams that survive');

withLocalModels(test);

/** Long enough that an answer whose first words arrived is far from its end. */
const TOKENS = 500;
const REQUEST = {
  prompt: 'all of it',
  model: 'slow',
  temperature: 0.8,
  seed: 4,
  max_tokens: TOKENS,
};
const FLAGS = [
  '--model',
  'slow',
  '--temperature',
  '0.8',
  '--seed',
  '4',
  '--max-tokens',
  String(TOKENS),
];

/** The whole answer. */
let whole: Followed;

test.before(async ({ home }) => {
  whole = await followAnswer(home, REQUEST);
  assert.is(whole.token_ids.length, REQUEST.max_tokens);
});

/** `svc run` in a shell without a terminal, until it has printed something. */
async function begun(home: Home, ...more: string[]): Promise<Started> {
  const command = home.spawn(['run', 'all of it', ...FLAGS, ...more]);
  await waitFor('the answer is being printed', () => command.stdout().length > 20, BEGIN);
  return command;
}

/**
 * Ends the daemon by a command that takes its time to begin: the answers, which have begun, stand
 * still until they are cut off.
 */
function cutOff(
  { home, life }: { home: Home; life: Life },
  ...command: string[]
): Promise<Outcome> {
  return whileEngineIsStopped(life, async () => {
    const stopping = home.spawn(command);
    await waitFor('they are cut off', async () =>
      (await life.ask((client) => client.call('run.list'))).runs.every(
        ({ state }) => state !== 'streaming',
      ),
    );
    return stopping;
  }).then(({ ended }) => ended);
}

/** How often the run was found cut off by a daemon that started. */
async function countCuts(home: Home, id: string): Promise<number> {
  return (await followAnswer(home, id)).events.filter((event) => event === 'run.recovered').length;
}

function checkWhole(outcome: Outcome, text = whole.text): void {
  assert.is(outcome.code, 0, outcome.stderr);
  assert.is(outcome.stdout, `${text.replace(/\n+$/, '')}\n`);
}

test('svc runs attach follows from the beginning, or from a position, of a run that is going on and of one that has ended', async ({
  home,
  life,
}) => {
  const events: Sent[] = [];
  for await (const event of (await stream(home, `/v1/runs/${whole.id}/events`)).events)
    events.push(event);
  const outputs = events.filter(({ event }) => event === 'run.output_appended');
  const middle = outputs[Math.floor(outputs.length / 2)];
  const rest = outputs
    .filter(({ id }) => (id ?? 0) >= (middle?.id ?? 0))
    .map(({ data }) => data.data.text);
  checkWhole(await home.svc(['runs', 'attach', whole.id]));
  checkWhole(
    await home.svc(['runs', 'attach', whole.id, '--from', String(middle?.id)]),
    rest.join(''),
  );

  const { stdout } = await home.svc(['run', 'all of it', ...FLAGS, '--detach']);
  const id = stdout.trim();
  await waitFor(
    'it has begun',
    async () => (await life.ask((client) => client.call('run.get', { id }))).output !== '',
    BEGIN,
  );
  const attached = await whileEngineIsStopped(life, async () => {
    const following = [home.spawn(['runs', 'attach', id]), home.spawn(['runs', 'attach', id])];
    await waitFor('both have begun to print', () =>
      following.every((command) => command.stdout() !== ''),
    );
    return following;
  });
  for (const command of attached) checkWhole(await command.ended);
  const unknown = await home.svc(['runs', 'attach', 'run_00000000000000000000000000']);
  assert.is(unknown.code, 2);
});

test('svc run --no-start and an SSE client with Last-Event-ID follow one answer over two kills, each event once', async (context) => {
  const { home } = context;
  const command = await begun(home, '--no-start');
  const [run] = (await context.life.ask((client) => client.call('run.list'))).runs;
  const id = run?.id ?? '';
  const events: Sent[] = [];
  /** Until the end, or the kill of the daemon after the first piece. */
  const follow = async (kills: boolean) => {
    const last = events.at(-1)?.id;
    const following = await stream(home, `/v1/runs/${id}/events`, {
      headers: last == null ? {} : { 'last-event-id': String(last) },
    });
    assert.is(following.status, 200);
    for await (const event of following.events) {
      if (event.id === null) continue;
      events.push(event);
      if (!kills || event.event !== 'run.output_appended') continue;
      await context.life.kill();
      return;
    }
  };
  await whileEngineIsStopped(context.life, () => follow(true));
  context.life = await serve(home);
  for (let kill = 2; kill <= KILLS; kill += 1) {
    await follow(true);
    context.life = await serve(home);
  }
  await follow(false);
  assert.is(events.at(-1)?.event, 'run.completed');
  assert.is(await countCuts(home, id), KILLS);
  const ids = events.map((event) => event.id ?? 0);
  assert.equal(
    ids,
    [...new Set(ids)].sort((a, b) => a - b),
  );
  assert.equal(
    events.map(({ data }) => data.version),
    ids.map((_, index) => index + 1),
  );
  assert.is(
    events
      .flatMap(({ event, data }) => (event === 'run.output_appended' ? data.data.text : []))
      .join(''),
    whole.text,
  );
  const again = await stream(home, `/v1/runs/${id}/events`, {
    headers: { 'last-event-id': String(ids.at(-1)) },
  });
  assert.is(again.status, 204);
  checkWhole(await command.ended);
});

const KILLS = 2;

test('svc run prints the answer whole when the daemon is killed: it starts it again', async (context) => {
  const before = (await context.life.ask((client) => client.call('run.list'))).runs.length;
  const command = await begun(context.home);
  await whileEngineIsStopped(context.life, () => context.life.kill());
  const outcome = await command.ended;
  checkWhole(outcome);
  assert.match(outcome.stderr, /gone/);
  const { runs } = JSON.parse((await context.home.svc(['runs', 'list', '--json'])).stdout) as {
    runs: unknown[];
  };
  assert.is(runs.length, before + 1, 'there is one run of it');
});

test('svc run prints the answer whole over a restart, does not start a daemon that was stopped, and starts one where one was dying, which still took its connection', async (context) => {
  const { home } = context;
  const [one, other] = await Promise.all([begun(home), begun(home)]);
  const restarted = await cutOff(context, 'restart', '--timeout', '0');
  assert.is(restarted.code, 0, restarted.stderr);
  assert.match(restarted.stderr, /2 handed over/);
  checkWhole(await one.ended);
  checkWhole(await other.ended);

  const left = await begun(home);
  const outcome = await cutOff(context, 'stop', '--timeout', '0');
  assert.match(outcome.stdout, /1 handed over/);
  const { code, stderr, stdout } = await left.ended;
  assert.is(code, 10, stderr);
  assert.match(stderr, /svc start.*svc runs attach run_/s);
  assert.ok(whole.text.startsWith(stdout.trimEnd()));
  assert.is((await home.svc(['status'])).code, 3, 'it was left stopped');
  const id = /run_[0-9A-Z]{26}/.exec(stderr)?.[0] ?? '';

  const dying = createServer((socket) => {
    socket.destroy();
    dying.close();
  }).listen(home.paths.socket);
  await once(dying, 'listening');
  const next = await home.svc(['run', 'What is svc?', '--max-tokens', '5']);
  assert.is(next.code, 0, next.stderr);
  checkWhole(await home.svc(['runs', 'attach', id]));
});

const remote = suite<{ home: PausedHome; life: Life }>('a start whose answer is lost');

remote('is sent again with the same key, so that there is one run', async () => {
  const home = await makePausedHome();
  let life = await serve(home);
  try {
    const command = home.spawn(['run', 'x', '--no-start']);
    await waitFor('the server is asked', () => home.server.chats === 1);
    await life.kill();
    life = await serve(home);
    await waitFor(
      'the server is asked again',
      () => home.server.chats === 2 && home.server.streams.size === 1,
    );
    home.server.say('once');
    home.server.finish();
    const outcome = await command.ended;
    assert.is(outcome.code, 0, outcome.stderr);
    assert.is(outcome.stdout, 'once\n');
    assert.is((await life.ask((client) => client.call('run.list'))).runs.length, 1);
  } finally {
    await life.stop(0);
    await home.close();
  }
});

test.run();
remote.run();
