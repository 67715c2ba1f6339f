import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Collector } from '../helpers/collector.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';

const test = suite<{ home: Home; collector: Collector }>('traces of the built daemon');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(async ({ home, collector }) => {
  await home.close();
  await collector.stop();
});

const begin = (home: Home, { endpoint }: Collector): Promise<Life> =>
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
  await life.kill();
  const next = await begin(home, collector);
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
  const asked = await home.svc(['run', 'What is svc?']);
  assert.is(asked.code, 0, asked.stderr);
  await waitFor('the collector is asked', () => collector.requests > 0, { within_ms: 60_000 });
  const again = await home.svc(['run', 'What is svc?']);
  assert.is(again.code, 0, again.stderr);
  assert.equal(await life.stop(), { code: 0, signal: null });
});

test.run();
