import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Collector } from '../helpers/collector.ts';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';

const test = suite<{ home: PausedHome; collector: Collector }>('traces of the built daemon');

test.before.each(async (context) => {
  context.home = await makePausedHome();
});
test.after.each(async ({ home, collector }) => {
  await home.close();
  await collector.stop();
});

const begin = (home: PausedHome, { endpoint }: Collector): Promise<Life> =>
  serve(home, { env: { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } });

test('a run that survives a kill has one trace, under the span of its client', async (context) => {
  const { home } = context;
  const collector = await Collector.start();
  context.collector = collector;
  const life = await begin(home, collector);
  const { http } = (await life.ask((client) => client.call('status'))).addresses;
  const { token } = await life.ask((client) => client.call('token'));
  const started = await fetch(`${http}/v1/runs`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    },
    body: JSON.stringify({ prompt: 'What is svc?' }),
  });
  assert.is(started.status, 202);
  const { id } = (await started.json()) as { id: string };
  const asked = () => waitFor('the provider is asked', () => home.server.streams.size === 1);
  await asked();
  await life.kill();
  await waitFor('the connection to it is closed', () => home.server.streams.size === 0);
  const next = await begin(home, collector);
  await asked();
  home.server.finish();
  await waitFor('its trace', () => collector.spans.some(({ name }) => name.startsWith('chat')), {
    within_ms: 60_000,
  });
  await next.stop();
  const roots = collector.spans.filter(({ name }) => name.startsWith('chat'));
  assert.equal(
    roots.map(({ traceId, parentSpanId, attributes }) => [
      traceId,
      parentSpanId,
      attributes['gen_ai.response.id'],
      attributes['svc.run.outcome'],
    ]),
    [['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7', id, 'completed']],
  );
});

test('a collector that hangs delays no run, and the daemon stops cleanly', async (context) => {
  const { home } = context;
  const collector = await Collector.start(() => {});
  context.collector = collector;
  const life = await begin(home, collector);
  const answered = async () => {
    const asked = home.spawn(['run', 'What is svc?']);
    await waitFor('the provider is asked', () => home.server.streams.size === 1);
    home.server.finish();
    const { code, stderr } = await asked.ended;
    assert.is(code, 0, stderr);
  };
  await answered();
  await waitFor('the collector is asked', () => collector.requests > 0, { within_ms: 60_000 });
  await answered();
  assert.equal(await life.stop(), { code: 0, signal: null });
});

test.run();
