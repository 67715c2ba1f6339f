import { once } from 'node:events';
import { createServer } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import type { Home, Outcome, Started } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { followAnswer } from '../torture/answers.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { ask, type Sent, stream } from '../torture/http.ts';
import { BEGIN, hearUndisturbed, whileEngineIsStopped, withLocalModels } from './local-life.ts';

/** A follower gets the whole answer, over a crash and a restart of the daemon. */
const test = suite<{ home: Home; life: Life }>('streams that survive');

withLocalModels(test);

/** Long enough that an answer whose first words arrived is far from its end. */
const REQUEST = { prompt: 'all of it', model: 'slow', temperature: 0.8, seed: 4, max_tokens: 700 };
const FLAGS = ['--model', 'slow', '--temperature', '0.8', '--seed', '4', '--max-tokens', '700'];

/** The whole answer. */
let text: string;

test.before(async () => {
  const whole = await hearUndisturbed(REQUEST);
  assert.is(whole.token_ids.length, REQUEST.max_tokens);
  text = whole.text;
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

function checkWhole(outcome: Outcome, whole = text): void {
  assert.is(outcome.code, 0, outcome.stderr);
  assert.is(outcome.stdout, `${whole.replace(/\n+$/, '')}\n`);
}

test('svc run prints the answer whole when the daemon is killed: it starts it again', async (context) => {
  const command = await begun(context.home);
  await context.life.kill();
  const outcome = await command.ended;
  checkWhole(outcome);
  assert.match(outcome.stderr, /gone/);
  const { runs } = JSON.parse((await context.home.svc(['runs', 'list', '--json'])).stdout) as {
    runs: unknown[];
  };
  assert.is(runs.length, 1, 'there is one run of it');
  assert.is((await context.home.svc(['stop', '--force'])).code, 0);
});

test('svc run --no-start prints the whole answer when another command restarts the daemon, also twice', async (context) => {
  const command = await begun(context.home, '--no-start');
  for (let kill = 1; kill <= 2; kill += 1) {
    const seen = command.stdout().length;
    await waitFor('more is printed', () => command.stdout().length > seen, BEGIN);
    await context.life.kill();
    context.life = await serve(context.home);
  }
  checkWhole(await command.ended);
  const [run] = (await context.life.ask((client) => client.call('run.list'))).runs;
  assert.is(await countCuts(context.home, run?.id ?? ''), 2);
});

test('svc run prints the answer whole over a restart, and does not start a daemon that was stopped', async (context) => {
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
  assert.ok(text.startsWith(stdout.trimEnd()));
  assert.is((await home.svc(['status'])).code, 3, 'it was left stopped');
  const id = /run_[0-9A-Z]{26}/.exec(stderr)?.[0] ?? '';
  context.life = await serve(home);
  checkWhole(await home.svc(['runs', 'attach', id]));
});

test('svc runs attach follows from the beginning, or from a position, of a run that is going on and of one that has ended', async ({
  home,
  life,
}) => {
  const whole = await followAnswer(home, REQUEST);
  const events: Sent[] = [];
  for await (const event of (await stream(home, `/v1/runs/${whole.id}/events`)).events)
    events.push(event);
  const outputs = events.filter(({ event }) => event === 'run.output_appended');
  const middle = outputs[Math.floor(outputs.length / 2)];
  const rest = outputs
    .filter(({ id }) => (id ?? 0) >= (middle?.id ?? 0))
    .map(({ data }) => data.data.text);
  assert.is(whole.text, text);
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

test('an SSE client with Last-Event-ID gets each event once, over three kills', async (context) => {
  const { home } = context;
  const { json: run } = await ask(home, '/v1/runs', { method: 'POST', body: REQUEST });
  const events: Sent[] = [];
  let kills = 0;
  while (events.at(-1)?.event !== 'run.completed') {
    const last = events.at(-1)?.id;
    const following = await stream(home, `/v1/runs/${run.id}/events`, {
      headers: last == null ? {} : { 'last-event-id': String(last) },
    });
    assert.is(following.status, 200);
    for await (const event of following.events) {
      if (event.id === null) continue;
      events.push(event);
      // Pieces that come together are one event, so their number says little.
      if (event.event === 'run.output_appended' && kills < 3) {
        kills += 1;
        await context.life.kill();
        context.life = await serve(home);
        break;
      }
    }
  }
  assert.is(kills, 3);
  assert.is(await countCuts(home, run.id), 3);
  const ids = events.map(({ id }) => id ?? 0);
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
    text,
  );
  const again = await stream(home, `/v1/runs/${run.id}/events`, {
    headers: { 'last-event-id': String(ids.at(-1)) },
  });
  assert.is(again.status, 204);
});

test('svc run starts a daemon where one was dying, which still took its connection', async ({
  home,
  life,
}) => {
  await life.stop(0);
  const dying = createServer((socket) => {
    socket.destroy();
    dying.close();
  }).listen(home.paths.socket);
  await once(dying, 'listening');
  const outcome = await home.svc(['run', 'What is svc?', '--max-tokens', '5']);
  assert.is(outcome.code, 0, outcome.stderr);
  assert.is((await home.svc(['stop'])).code, 0);
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
