import { Metadata } from '@grpc/grpc-js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { createGrpc } from '../../src/grpc/server.ts';
import { createTokenAccess } from '../../src/transport/auth/token-access.ts';
import { createMethods } from '../../src/transport/control/methods.ts';
import { runtimeClient } from '../grpc/runtime-client.ts';
import { silent } from '../helpers/kernel.ts';
import { finish, output } from '../helpers/scripted-provider.ts';
import { TOKEN } from './http/boot.ts';
import { bootReal, type Real } from './http/real.ts';

const test = suite<{ real: Real }>('the span of a client');

test.before.each(async (context) => {
  context.real = await bootReal({ script: [output('a'), finish()] });
});
test.after.each(({ real }) => real.close());

const SPAN = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const OTHERS = ['', 'x', SPAN.replace('00-', 'ff-'), SPAN.replace(/4bf\w+/, '0'.repeat(32))];

/** Each way to start a run with this text as its `traceparent`. Resolves with the id of the run. */
const ways: Record<string, (real: Real, traceparent: string) => Promise<string>> = {
  HTTP: async (real, traceparent) => {
    const headers = { traceparent };
    const body = { prompt: 'a' };
    return (await real.get('/v1/runs', { method: 'POST', headers, body })).json.id;
  },
  'the API of OpenAI': async (real, traceparent) => {
    const headers = { traceparent };
    const body = { model: 'local/a', messages: [{ role: 'user', content: 'a' }] };
    const answer = await real.get('/v1/chat/completions', { method: 'POST', headers, body });
    return String(answer.headers['x-svc-run-id']);
  },
  gRPC: async ({ runtime, config, unsent }, traceparent) => {
    const grpc = createGrpc({
      runtime,
      unsent,
      log: silent,
      limits: config.limits,
      access: createTokenAccess({ settings: { auth: true }, token: () => TOKEN }),
    });
    const client = runtimeClient(await grpc.listen('127.0.0.1', 0));
    const more = new Metadata();
    more.set('traceparent', traceparent);
    const run = client.stream('Run', { prompt: 'a' }, { more });
    const id = await run.runId;
    await run.ended;
    client.close();
    await grpc.close();
    return id;
  },
  'the local socket': async ({ runtime, config }, traceparent) => {
    const call = createMethods({ runtime, limits: config.limits } as never);
    const params = { prompt: 'a', traceparent };
    return ((await call('run.start', params, {} as never)) as { id: string }).id;
  },
};

for (const [name, start] of Object.entries(ways))
  test(`${name}: it is recorded with the run, and another text counts as none`, async ({
    real,
  }) => {
    const recorded = async (id: string) => {
      const events = (await real.store.readStream(id as never, 1, 10)) as unknown as {
        type: string;
        data: { traceparent?: string };
      }[];
      const accepted = events.find(({ type }) => type === 'run.accepted');
      assert.ok(accepted, JSON.stringify(events).slice(0, 300));
      return accepted.data.traceparent;
    };
    assert.is(await recorded(await start(real, SPAN)), SPAN);
    for (const other of OTHERS) assert.is(await recorded(await start(real, other)), undefined);
  });

test.run();
