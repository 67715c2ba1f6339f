import { status } from '@grpc/grpc-js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { routes } from '../../src/daemon/routes.ts';
import { methodScopes } from '../../src/grpc/runtime.ts';
import { createGrpc, type Grpc } from '../../src/grpc/server.ts';
import { createTokenAccess } from '../../src/transport/auth/token-access.ts';
import { scopeOf } from '../../src/transport/http/route.ts';
import { silent } from '../helpers/kernel.ts';
import { finish, output, untilAborted } from '../helpers/scripted-provider.ts';
import { waitFor } from '../helpers/wait.ts';
import { TOKEN } from '../transport/http/boot.ts';
import { bootReal, type Real } from '../transport/http/real.ts';
import { detailsOf, type Message, type RuntimeClient, runtimeClient } from './runtime-client.ts';

const test = suite<{ real: Real; grpc: Grpc; client: RuntimeClient }>('searches over gRPC');

test.before.each(async (context) => {
  const real = await bootReal({ script: [output('Hello'), finish()] });
  const grpc = createGrpc({
    runtime: real.runtime,
    limits: real.config.limits,
    log: silent,
    unsent: real.unsent,
    access: createTokenAccess({ settings: { auth: true }, token: () => TOKEN }),
  });
  const client = runtimeClient(await grpc.listen('127.0.0.1', 0));
  Object.assign(context, { real, grpc, client });
});
test.after.each(async ({ real, grpc, client }) => {
  client.close();
  await grpc.close();
  await real.close();
});

test('a finished run is found by its words, and removed', async ({ client, real }) => {
  const ids: string[] = [];
  for (const prompt of ['About aardvarks', 'About the aardvark']) {
    const run = client.stream('Run', { prompt });
    await run.ended;
    ids.push(await run.runId);
  }
  const page = await client.ask('Search', { words: 'About the' });
  assert.equal(page.runs.length, 1);
  const [found] = page.runs;
  assert.equal([found.id, found.state, found.provider], [ids[1], 'completed', 'local']);
  const { runs } = await real.runtime.runs.search({ words: 'About' });
  assert.equal(
    found.matches.map(({ begin, end }: Message) => found.snippet.slice(begin, end)),
    ['About'],
  );
  const all = await client.ask('Search', { words: 'About' });
  assert.equal(
    all.runs.map(({ id }: Message) => id),
    runs.map(({ id }) => id),
  );
  const first = await client.ask('Search', { words: 'About', limit: 1 });
  assert.is(first.next, ids[1]);
  const second = await client.ask('Search', { words: 'About', before: first.next });
  assert.equal(
    second.runs.map(({ id }: Message) => id),
    [ids[0]],
  );
  for (const request of [{}, { words: '-' }]) {
    const refused = await client.refusal('Search', request);
    assert.is(refused.code, status.INVALID_ARGUMENT);
    assert.is(detailsOf(refused).ErrorInfo.metadata.param, 'words');
  }

  assert.equal(await client.ask('Remove', { id: ids[0] }), { removed: ids[0] });
  assert.is((await client.refusal('Get', { id: ids[0] })).code, status.NOT_FOUND);
  assert.is((await client.refusal('Remove', { id: ids[0] })).code, status.NOT_FOUND);
  const left = await client.ask('Search', { words: 'About' });
  assert.equal(
    left.runs.map(({ id }: Message) => id),
    [ids[1]],
  );
});

test('a run that works is not removed', async ({ client, real }) => {
  real.provider.script = (_, signal) => [output('begun'), untilAborted(signal)];
  const run = client.stream('Run', { prompt: 'x', detach: true });
  await waitFor('it begins', () => run.text() === 'begun');
  const refused = await client.refusal('Remove', { id: await run.runId });
  assert.is(detailsOf(refused).ErrorInfo.metadata.code, 'run_unfinished');
});

test('a method needs the scope of its route', () => {
  const same = {
    Run: 'POST /v1/runs',
    Attach: 'GET /v1/runs/:id/events',
    Get: 'GET /v1/runs/:id',
    List: 'GET /v1/runs',
    Search: 'GET /v1/runs/search',
    Remove: 'DELETE /v1/runs/:id',
    Cancel: 'POST /v1/runs/:id/cancel',
    Models: 'GET /v1/models',
    Providers: 'GET /v1/providers',
    Stop: 'POST /v1/runtime/events',
  };
  for (const [method, name] of Object.entries(same)) {
    const route = routes.find((row) => `${row.method} ${row.path}` === name);
    assert.ok(route !== undefined, name);
    assert.is(methodScopes[method], scopeOf(route), method);
  }
});

test.run();
