import { request } from 'node:http';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createGrpc } from '../../src/grpc/server.ts';
import { createTokenAccess } from '../../src/transport/auth/token-access.ts';
import { runtimeClient } from '../grpc/runtime-client.ts';
import { silent } from '../helpers/kernel.ts';
import { finish, gate, output } from '../helpers/scripted-provider.ts';
import { waitFor } from '../helpers/wait.ts';
import { BEARER, TOKEN } from './http/boot.ts';
import { bootReal } from './http/real.ts';

/** A model that is loaded in steps, and then answers. */
async function loadingModel() {
  const load: { progress: number | null } = { progress: null };
  const { opened, open } = gate();
  const real = await bootReal({
    loading: () => load.progress,
    script: [() => opened, output('a', 1), finish()],
  });
  return { real, load, open };
}

/** A request whose answer is read as it comes. */
function streamed(url: string, body: object, headers: Record<string, string> = {}) {
  let text = '';
  const sent = { ...BEARER, 'content-type': 'application/json', ...headers };
  const ended = new Promise<void>((resolve, reject) => {
    const req = request(url, { method: 'POST', headers: sent, agent: false }, (res) => {
      res.setEncoding('utf8').on('data', (chunk) => {
        text += chunk;
      });
      res.on('end', resolve).on('error', reject);
    });
    req.on('error', reject).end(JSON.stringify(body));
  });
  return { text: () => text, ended };
}

const loads = (text: string) =>
  [...text.matchAll(/^event: model\.loading\ndata: (.*)$/gm)].map(([, data = '']) =>
    JSON.parse(data),
  );

test('a stream of events has each step of a load once, without an id, until the answer begins', async () => {
  const { real, load, open } = await loadingModel();
  const run = streamed(
    `${real.url}/v1/runs`,
    { prompt: 'hi', model: 'local/m' },
    { accept: 'text/event-stream' },
  );
  for (const progress of [0, 0.25]) {
    load.progress = progress;
    await waitFor(`the step ${progress}`, () => loads(run.text()).at(-1)?.progress === progress);
  }
  load.progress = null;
  open();
  await run.ended;
  assert.equal(loads(run.text()), [
    { model: 'm', progress: 0 },
    { model: 'm', progress: 0.25 },
  ]);
  const blocks = run.text().split('\n\n');
  assert.match(blocks[0] ?? '', /^id: \d+\nevent: run\.accepted/);
  for (const block of blocks.filter((one) => one.includes('model.loading')))
    assert.not.match(block, /^id:/m);
  assert.match(run.text(), 'event: run.completed');
  await real.close();
});

test('a gRPC stream has each step of a load, without a position', async () => {
  const { real, load, open } = await loadingModel();
  const grpc = createGrpc({
    runtime: real.runtime,
    limits: real.config.limits,
    log: silent,
    unsent: real.unsent,
    access: createTokenAccess({ settings: { auth: true }, token: () => TOKEN }),
  });
  const client = runtimeClient(await grpc.listen('127.0.0.1', 0));
  const run = client.stream('Run', { prompt: 'hi', model: 'local/m' });
  const steps = () => run.updates.filter(({ update }) => update === 'loading');
  for (const progress of [0, 0.25]) {
    load.progress = progress;
    await waitFor(`the step ${progress}`, () => steps().at(-1)?.loading.progress === progress);
  }
  load.progress = null;
  open();
  await run.ended;
  assert.equal(
    steps().map(({ loading, seq }) => [loading, seq]),
    [
      [{ model: 'm', progress: 0 }, undefined],
      [{ model: 'm', progress: 0.25 }, undefined],
    ],
  );
  client.close();
  await grpc.close();
  await real.close();
});

const messages = [{ role: 'user', content: 'hi' }];
const asked = { model: 'local/m', messages, stream: true };
for (const [path, body] of Object.entries({
  '/v1/chat/completions': asked,
  '/v1/messages': { ...asked, max_tokens: 9 },
  '/v1/responses': { model: 'local/m', input: 'hi', stream: true },
  '/api/chat': asked,
}))
  test(`${path} has nothing of a load, which its clients do not know`, async () => {
    const { real, load, open } = await loadingModel();
    load.progress = 0.5;
    const run = streamed(`${real.url}${path}`, body);
    await waitFor('the provider is asked', () => real.provider.asked.length === 1);
    open();
    await run.ended;
    assert.not.match(run.text(), /loading|queue_position|queue\.position/);
    assert.match(run.text(), /completed|stop/);
    await real.close();
  });

test('one timer looks at all watched runs, and only while there are some', async () => {
  const { real, load } = await loadingModel();
  const { loads: watched } = real.runtime;
  const { id } = await real.runtime.runs.start({ prompt: 'hi', model: 'local/m' }, 'test');
  const heard: number[][] = [[], []];
  const ends = heard.map((list) => watched.watch(id, ({ progress }) => list.push(progress)));
  const unknown: unknown[] = [];
  ends.push(watched.watch('run_none', (one) => unknown.push(one)));
  load.progress = 0.5;
  await waitFor('both hear it', () => heard.every((list) => list.length === 1));
  ends[0]?.();
  load.progress = 1;
  await waitFor('the other hears the next', () => heard[1]?.length === 2);
  assert.equal([heard, unknown], [[[0.5], [0.5, 1]], []]);
  for (const end of ends) end();
  await real.close();
});

test.run();
