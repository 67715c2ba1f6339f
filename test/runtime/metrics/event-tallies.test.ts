import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { EventTallies } from '../../../src/runtime/metrics/event-tallies.ts';
import { formatFamilies } from '../../../src/runtime/metrics/format.ts';
import { figureOf, parseMetrics } from '../../helpers/prometheus.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { gate, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
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

test.run();
