import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineCreated, EngineEvent } from '../../../machines/engine.ts';
import type { NewEvent } from '../../../machines/events.ts';
import { SvcError } from '../../../src/errors.ts';
import { stream } from '../../../src/kernel/stream.ts';
import { publicReport } from '../../../src/observability/health/health.ts';
import { logEvents } from '../../../src/observability/log-lines/log-lines.ts';
import type { Log } from '../../../src/ports/log.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { gate, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { turns } from '../../helpers/turns.ts';

class Absent extends ScriptedProvider {
  answer: Promise<void> = Promise.resolve();

  override async probe(): Promise<{ models: string[] }> {
    await this.answer;
    throw new SvcError('provider_unreachable', 'Nobody answers.', { retryable: true });
  }
}

test('with every provider down the daemon is ready and warns, even during a new probe', async () => {
  const local = new Absent('local', []);
  const { runtime, providers } = await bootRuntime({ local });
  const { since } = runtime.providers.list()[0] ?? {};
  assert.equal(
    [runtime.health().status, runtime.probe().ready, runtime.health().reason],
    ['warn', true, null],
  );
  const asked = gate();
  local.answer = asked.opened;
  const probing = providers.probe('local');
  await turns();
  assert.is(runtime.providers.list()[0]?.state, 'probing');
  assert.is(runtime.health().status, 'warn');
  asked.open();
  await probing;
  assert.is(runtime.providers.list()[0]?.since, since, 'it has been failing all the time');
});

test('a write-ahead log that cannot be written back is a warning, and the daemon stays ready', async () => {
  let trouble: string | null = null;
  const { runtime } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    trouble: () => trouble,
  });
  assert.is(runtime.health().status, 'pass');
  trouble = 'It cannot be written back.';
  const { status, output, checks } = runtime.report();
  assert.equal([status, output, runtime.probe().ready], ['warn', trouble, true]);
  assert.equal(
    checks['log:checkpoint']?.map((check) => [check.status, check.output]),
    [['warn', trouble]],
  );
});

test('a model with fewer layers on the GPU than before is a warning, also in the log', async () => {
  const { runtime, kernel } = await bootRuntime({ local: new ScriptedProvider('local', []) });
  const engine = stream.engine('boot_1', 1);
  const lines: string[] = [];
  const log = { info: () => {}, warn: (_: object, text: string) => lines.push(text) };
  logEvents(kernel, stream.daemon('boot_1'), log as unknown as Log);
  const times = { start_ms: 1e6, load_ms: 1e6, stop_ms: 1000, kill_ms: 1000, idle_ms: 1e6 };
  const info = { pid: 1, model: 'secret', path: '/m', load_ms: 1, gpu: 'cuda' };
  const append = async (event: NewEvent<EngineCreated | EngineEvent>) =>
    kernel.append([{ stream: engine, event: event as never }]);
  await append({ type: 'engine.created', number: 1, ...times });
  const load = async (attempt: number, layers: object) => {
    await append({ type: 'engine.load_requested', attempt, model: 'local/secret', path: '/m' });
    await append({ type: 'engine.process_started', attempt, pid: 1 });
    await append({ type: 'engine.model_loaded', attempt, info: { ...info, ...layers } });
  };
  await load(1, { gpu_layers: 20, gpu_layers_before: 33 });
  const { status, output, checks } = runtime.report();
  assert.is(status, 'warn');
  assert.match(output ?? '', 'secret has 20 layers on the GPU, and 33 when');
  assert.is(checks['engine:state']?.[0]?.output, output);
  assert.equal(lines, [output]);
  const open = publicReport(runtime.report());
  assert.is(open.status, 'warn');
  assert.not.match(JSON.stringify(open), /secret/);
  await append({ type: 'engine.stop_requested', reason: 'requested' });
  await append({ type: 'engine.exited', attempt: 1, exit_code: 0, signal: null });
  assert.is(runtime.health().status, 'pass', 'it left memory');
  await load(2, { gpu_layers: 33, gpu_layers_before: 20 });
  assert.is(runtime.health().status, 'pass');
});

test('the report follows the health draft and has no prompt', async () => {
  const { runtime } = await bootRuntime({
    local: new ScriptedProvider('local', [() => new Promise<void>(() => {})]),
  });
  await runtime.runs.start({ prompt: 'a secret prompt' }, 'test');
  const report = runtime.report();
  assert.is(report.status, 'pass');
  assert.is(report.state, 'running');
  assert.is(report.ready_when, null);
  assert.equal(report.transitions.map(({ state_path }) => state_path).slice(-3), [
    'starting.probing',
    'ready',
    'running.accepting',
  ]);
  for (const [name, [check]] of Object.entries(report.checks))
    assert.ok(
      check !== undefined &&
        ['pass', 'warn', 'fail'].includes(check.status) &&
        !Number.isNaN(Date.parse(check.time)),
      name,
    );
  assert.not.match(JSON.stringify(report), /secret/);
});

test('before the daemon is ready the report has the reason and what it waits for', async () => {
  const { runtime } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    until: 'recovered',
  });
  const report = runtime.report();
  assert.is(report.status, 'fail');
  assert.match(report.reason ?? '', /starting/);
  assert.match(report.ready_when ?? '', /probe/);
  assert.is(runtime.probe().live, true);
});

test.run();
