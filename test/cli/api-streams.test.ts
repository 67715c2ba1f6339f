import { writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { type Scenario, Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';

/** A stream that does not end well ends the command with an error. */
const test = suite<{ home: Home; life: Life; upstream: Upstream }>('a stream of svc api');

test.before.each(async (context) => {
  context.upstream = await Upstream.start();
  context.home = makeHome();
  const providers = { up: { base_url: context.upstream.base_url, model: 'm' } };
  writeFileSync(context.home.paths.config, JSON.stringify({ providers }));
  context.life = await serve(context.home);
});
test.after.each(async ({ home, life, upstream }) => {
  await life.kill();
  await upstream.stop();
  await home.close();
});

const messages = [{ role: 'user', content: 'Hi' }];
const chat = { model: 'up/m', messages, stream: true };
const STREAMS: readonly [string, object][] = [
  ['/v1/runs', { prompt: 'Hi', model: 'up/m' }],
  ['/v1/chat/completions', chat],
  ['/v1/completions', { model: 'up/m', prompt: 'Hi', stream: true }],
  ['/v1/responses', { model: 'up/m', input: 'Hi', stream: true }],
  ['/v1/messages', { ...chat, max_tokens: 9 }],
  ['/api/chat', chat],
];
const ask = (home: Home, [path, body]: (typeof STREAMS)[number]) =>
  home.svc(['api', 'POST', path, '--stream', '-d', JSON.stringify(body)]);

/** Sends text, then an error in place of the rest. */
const fails: Scenario = async (exchange) => {
  await exchange.open().text('Half');
  await exchange.event({ error: { message: 'The model is out of memory — 日本.', code: 500 } });
  exchange.end();
};

test('an answer that fails half-way prints what came, and exits with its error', async ({
  home,
  upstream,
}) => {
  upstream.scenario = fails;
  for (const stream of STREAMS) {
    const { code, stdout, stderr } = await ask(home, stream);
    const [path] = stream;
    assert.match(stdout, 'Half', path);
    assert.is(code, 9, `${path} ${stderr}`);
    assert.match(stderr, 'The model is out of memory — 日本.', path);
    assert.match(stderr, 'hint: ', path);
  }
  upstream.scenario = (exchange) => exchange.answer('All', ' of it');
  for (const stream of STREAMS) {
    const { code, stdout, stderr } = await ask(home, stream);
    assert.equal([code, stderr], [0, ''], stream[0]);
    assert.match(stdout, ' of it', stream[0]);
  }
});

test('to read how a run failed is no failure', async ({ home, upstream }) => {
  upstream.scenario = fails;
  const { stdout } = await ask(home, ['/v1/runs', { prompt: 'Hi', model: 'up/m' }]);
  const id = /"stream":"(run_\w+)"/.exec(stdout)?.[1] ?? /run_[0-9A-Z]{26}/.exec(stdout)?.[0];
  const read = await home.svc(['api', 'GET', `/v1/runs/${id}/events`, '--stream']);
  assert.equal([read.code, read.stderr], [0, '']);
  assert.is(read.stdout, stdout);
});

test('a daemon that dies in the middle of a stream is an error of the stream', async ({
  home,
  life,
  upstream,
}) => {
  upstream.scenario = (exchange) => exchange.open().text('Half');
  const body = JSON.stringify(chat);
  const asked = home.spawn(['api', 'POST', '/v1/chat/completions', '-d', body]);
  await waitFor('the first text', () => asked.stdout().includes('Half'));
  await life.kill();
  const { code, stdout, stderr } = await asked.ended;
  assert.match(stdout, 'Half');
  assert.is(code, 10, stderr);
  assert.match(stderr, 'The response is incomplete');
  assert.match(stderr, /svc runs show run_[0-9A-Z]{26}/);
});

test('only a client that asks for trailers gets one', async ({ home, upstream }) => {
  upstream.scenario = fails;
  const token = (await home.svc(['token'])).stdout.trim();
  const { http = '' } =
    (await home.svc(['status', '--json'])).stdout.match(/"http": ?"(?<http>[^"]+)"/)?.groups ?? {};
  const answer = await fetch(`${http}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(chat),
  });
  assert.is(answer.headers.get('trailer'), null);
  assert.match(await answer.text(), 'out of memory');
});

test.run();
