import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { EventTallies } from '../../../src/observability/metrics/event-tallies.ts';
import { formatFamilies } from '../../../src/observability/metrics/format.ts';
import { figureOf, parseMetrics } from '../../helpers/prometheus.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { gate, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { subscribedKernel } from '../../helpers/subscribed-kernel.ts';
import { waitFor } from '../../helpers/wait.ts';

test('what one run adds up to: its tokens, its waits, and its speed after the first token', async () => {
  const [begin, end] = [gate(), gate()];
  const local = new ScriptedProvider('local', () => [
    () => begin.opened,
    output('a', 1),
    () => end.opened,
    output('b', 2),
    { type: 'finish', finish_reason: 'stop', usage: { input_tokens: 7, output_tokens: 11 } },
  ]);
  const settings = { prices: { 'local/*': { input: 3, output: 5 } } };
  const { runtime, kernel, clock } = await bootRuntime({ local, settings });
  const tallies = new EventTallies(kernel);
  const { id } = await runtime.runs.start({ prompt: 'hi', model: 'local/m' }, 'test');
  await waitFor('it is asked', () => local.open === 1);
  clock.advance(3000);
  begin.open();
  await waitFor('the first output is recorded', async () => {
    clock.advance(0);
    return (await runtime.runs.get(id)).output === 'a';
  });
  clock.advance(2000);
  end.open();
  await waitFor('it has ended', () => !kernel.instances.has(id as 'run_'));
  const samples = parseMetrics(await formatFamilies(tallies.families()));
  const figure = (name: string, labels = {}) => figureOf(samples, name, labels);
  const local_m = { provider: 'local', model: 'm' };
  assert.is(figure('svc_output_tokens_total', local_m), 11);
  assert.is(figure('svc_input_tokens_total', local_m), 7);
  assert.is(figure('svc_run_cost_total', local_m), (7 * 3 + 11 * 5) / 1e6);
  assert.is(figure('svc_runs_accepted_total', { provider: 'local' }), 1);
  assert.is(figure('svc_runs_ended_total', { outcome: 'completed', provider: 'local' }), 1);
  assert.is(figure('svc_run_queue_wait_seconds_sum'), 0);
  assert.is(figure('svc_run_time_to_first_token_seconds_sum', { provider: 'local' }), 3);
  assert.is(figure('svc_run_duration_seconds_sum', { outcome: 'completed' }), 5);
  // Ten tokens came after the first one, in two seconds.
  assert.is(figure('svc_run_output_tokens_per_second_sum', { provider: 'local' }), 5);
  assert.is(figure('svc_run_output_tokens_per_second_count', { provider: 'local' }), 1);
});

function tallied() {
  const { kernel, happen } = subscribedKernel();
  const tallies = new EventTallies(kernel);
  const figures = async () => {
    const samples = parseMetrics(await formatFamilies(tallies.families()));
    return (name: string, labels = {}) => figureOf(samples, name, labels);
  };
  return { happen, figures };
}

test('an engine, a provider and a download add up to their counts', async () => {
  const { happen, figures } = tallied();
  happen('engine.model_loaded', { context: { info: { load_ms: 1500 } } });
  happen('engine.model_loaded', { context: { info: { load_ms: 500 } } });
  happen('engine.exited', { context: { info: null }, isFailing: true });
  happen('engine.exited', { context: { info: null } });
  happen('provider.faulted', { context: { provider_id: 'lab' } });
  happen('provider.probe_failed', { context: { provider_id: 'lab' } });
  happen('provider.recovered', { context: { provider_id: 'lab' } });
  for (const end of ['completed', 'failed', 'failed', 'cancelled', 'started'])
    happen(`pull.${end}`);
  const figure = await figures();
  assert.is(figure('svc_engine_load_seconds_sum'), 2);
  assert.is(figure('svc_engine_load_seconds_count'), 2);
  assert.is(figure('svc_engine_crashes_total'), 1);
  assert.is(figure('svc_provider_faults_total', { provider: 'lab' }), 2);
  assert.equal(
    ['completed', 'failed', 'cancelled', 'started'].map((outcome) =>
      figure('svc_pulls_ended_total', { outcome }),
    ),
    [1, 2, 1, undefined],
  );
  assert.is(figure('svc_commit_seconds_sum'), 0.02);
  assert.is(figure('svc_events_total', { type: 'engine.exited' }), 2);
});

test('a run waits once in the queue, and each failed attempt counts with its code', async () => {
  const { happen, figures } = tallied();
  const run = {
    request: { provider: 'lab', model: 'm' },
    created_at: 1000,
    started_at: 4000,
    first_output_at: null,
    ended_at: null,
    turns: [],
    failed_attempts: [],
    sent: [{ attempt: 1, bytes: 30 }],
    asked_by: 'me',
    price: { input: 1, output: 2 },
    output: 'abc',
    attempt: 1,
    outputs: 1,
    output_tokens: 3,
    completion: null,
    error: { code: 'rate_limited' },
  };
  happen('run.accepted', { context: run, at: 1000 });
  happen('run.started', { context: run, at: 4000 });
  happen('run.output_appended', { context: run, at: 4500 });
  happen('run.output_appended', { context: { ...run, outputs: 2 }, at: 5000 });
  happen('run.attempt_failed', { context: run, at: 6000 });
  happen('run.started', { context: { ...run, attempt: 2 }, at: 9000 });
  happen('run.failed', { context: { ...run, error: null }, at: 11_000 });
  const figure = await figures();
  assert.is(figure('svc_run_queue_wait_seconds_sum'), 3);
  assert.is(figure('svc_run_queue_wait_seconds_count'), 1);
  assert.is(figure('svc_run_time_to_first_token_seconds_sum', { provider: 'lab' }), 0.5);
  assert.is(figure('svc_run_time_to_first_token_seconds_count', { provider: 'lab' }), 1);
  assert.is(figure('svc_run_errors_total', { code: 'rate_limited', provider: 'lab' }), 1);
  assert.is(figure('svc_run_errors_total', { code: 'unknown', provider: 'lab' }), 1);
  assert.is(figure('svc_run_duration_seconds_sum', { outcome: 'failed' }), 10);
  assert.is(figure('svc_output_tokens_total', { provider: 'lab', model: 'm' }), 3);
  // The provider did not say it: the bytes that it was sent are about eight tokens.
  assert.is(figure('svc_input_tokens_total', { provider: 'lab', model: 'm' }), 8);
  assert.is(Number(figure('svc_run_cost_total', { model: 'm' })) * 1e9, 14_000);
});

test.run();
