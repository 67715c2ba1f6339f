import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTraces } from '../../../src/daemon/parts.ts';
import { SvcError } from '../../../src/errors.ts';
import type { Log } from '../../../src/ports/log.ts';
import { type CollectedSpan, Collector } from '../../helpers/collector.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

const PARENT = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';

const warnings: string[] = [];
const log: Log = {
  debug() {},
  info: (_, message) => void warnings.push(message),
  warn: (_, message) => void warnings.push(message),
  error() {},
};

let collector: Collector;

test.before.each(() => {
  warnings.length = 0;
});
test.after.each(() => collector.stop());

/** A runtime whose provider answers, or fails as often as asked before. */
async function boot(failures = 0, timing: { send_ms?: number; delay_ms?: number } = {}) {
  let left = failures;
  const local = new ScriptedProvider('local', () => {
    left -= 1;
    return left >= 0
      ? [new SvcError('provider_unreachable', 'secret trouble', { retryable: true })]
      : [output('a secret answer', 1, 2), finish()];
  });
  const daemon = await bootRuntime({ local });
  const { endpoint } = collector;
  const options = { endpoint, version: '1.2.3', boot_id: 'boot_1', log, ...timing };
  const traces = startTraces(daemon.kernel, options);
  const run = async (asked = {}) => {
    const { id } = await daemon.runtime.runs.start(
      { prompt: 'a secret prompt', temperature: 0.5 },
      'test',
      asked,
    );
    await waitFor('the run ends', async () => {
      daemon.clock.advance(60_000);
      return (await daemon.runtime.runs.head(id)).finished;
    });
    return id;
  };
  return { daemon, traces, run };
}

test('a run is one span with its attempts inside, under the span of its client', async () => {
  collector = await Collector.start();
  const { daemon, traces, run } = await boot(1);
  const id = await run({ traceparent: `00-${PARENT}-${SPAN}-01` });
  await traces.close();
  daemon.kernel.close();
  const [root, ...rest] = [...collector.spans].sort(
    (a, b) => Number(a.parentSpanId !== SPAN) - Number(b.parentSpanId !== SPAN),
  ) as [CollectedSpan, ...CollectedSpan[]];
  assert.equal([root.traceId, root.parentSpanId], [PARENT, SPAN]);
  assert.match(root.name, /^chat \S+$/);
  const { attributes } = root;
  assert.equal(
    [
      attributes['gen_ai.operation.name'],
      attributes['gen_ai.provider.name'],
      attributes['gen_ai.response.id'],
      attributes['gen_ai.request.temperature'],
      attributes['gen_ai.usage.output_tokens'],
      attributes['gen_ai.response.finish_reasons'],
      attributes['gen_ai.output.type'],
      attributes['svc.run.outcome'],
      attributes['svc.run.attempts'],
    ],
    ['chat', 'local', id, 0.5, 1, ['stop'], 'text', 'completed', 2],
  );
  assert.equal(
    rest.map(({ name, parentSpanId, status }) => [name, parentSpanId, status.code]).sort(),
    [
      ['attempt 1', root.spanId, 2],
      ['attempt 2', root.spanId, 0],
    ],
  );
  const failed = rest.find(({ name }) => name === 'attempt 1');
  assert.is(failed?.attributes['error.type'], 'provider_unreachable');
  for (const span of collector.spans)
    assert.ok(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano), span.name);
  assert.is(collector.resources[0]?.['service.name'], 'svc');
  assert.not.match(collector.bodies.join(''), 'secret');
});

test('a run without a parent begins a trace, and one that is not sampled has none', async () => {
  collector = await Collector.start();
  const { daemon, traces, run } = await boot();
  const id = await run();
  await run({ traceparent: `00-${PARENT}-${SPAN}-00` });
  await traces.close();
  daemon.kernel.close();
  const roots = collector.spans.filter(({ name }) => name.startsWith('chat'));
  assert.equal(
    roots.map(({ attributes, parentSpanId }) => [attributes['gen_ai.response.id'], parentSpanId]),
    [[id, undefined]],
  );
});

test('a collector that fails is logged once, and runs end as ever', async () => {
  collector = await Collector.start((res) => res.writeHead(400).end());
  const { daemon, traces, run } = await boot(0, { delay_ms: 10 });
  await run();
  await waitFor('it was tried', () => warnings.length > 0);
  await run();
  await traces.close();
  daemon.kernel.close();
  assert.ok(collector.requests >= 2);
  assert.equal(warnings, ['traces cannot be sent to otlp_endpoint, and are dropped']);
});

test('a collector that hangs holds up no run', async () => {
  collector = await Collector.start(() => {});
  const { daemon, traces, run } = await boot(0, { send_ms: 200, delay_ms: 10 });
  await run();
  await waitFor('it was asked', () => collector.requests > 0);
  for (let count = 0; count < 20; count += 1) await run();
  const closed = traces.close();
  await collector.stop();
  await closed;
  daemon.kernel.close();
  collector = await Collector.start();
});

test('without an endpoint nothing is sent', async () => {
  collector = await Collector.start();
  const local = new ScriptedProvider('local', [output('a', 1), finish()]);
  const daemon = await bootRuntime({ local });
  const options = { version: '1', boot_id: 'boot_1', log };
  const traces = startTraces(daemon.kernel, { endpoint: null, ...options });
  await traces.close();
  daemon.kernel.close();
  assert.is(collector.requests, 0);
});

test.run();
