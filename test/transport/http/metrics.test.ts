import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { figureOf, parseMetrics, type Sample } from '../../helpers/prometheus.ts';
import { finish, gate, output } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import { ask, BEARER } from './boot.ts';
import { bootReal, type Real } from './real.ts';

let real: Real;

test.after.each(() => real.close());

async function scrape(): Promise<Sample[]> {
  const { status, headers, text } = await real.get('/metrics');
  assert.is(status, 200);
  assert.match(headers['content-type'] ?? '', 'text/plain; version=0.0.4');
  return parseMetrics(text);
}

async function start(body: object): Promise<string> {
  const { status, json } = await real.get('/v1/runs', { method: 'POST', body });
  assert.is(status, 202);
  return json.id;
}

test('the figures agree with the log, and have no text of a run', async () => {
  const ready = gate();
  real = await bootReal({
    script: ({ request }) =>
      JSON.stringify(request.messages).includes('fails')
        ? [new Error('it broke')]
        : [output('secret answer', 1), () => ready.opened, output('more', 2), finish()],
  });
  const id = await start({ prompt: 'a secret prompt', model: 'a"model' });
  await waitFor('a first piece', () =>
    real.get(`/v1/runs/${id}`).then(({ json }) => json.output !== ''),
  );
  const during = await scrape();
  assert.is(figureOf(during, 'svc_runs', { state: 'active' }), 1);
  assert.is(
    figureOf(during, 'svc_run_time_to_first_token_seconds_count', { provider: 'local' }),
    1,
  );
  assert.is(figureOf(during, 'svc_runs_ended_total'), undefined);
  ready.open();
  const failing = await start({ prompt: 'this fails' });
  await waitFor('both end', async () => {
    const { json } = await real.get('/v1/runs');
    return json.runs.every(({ ended_at }: { ended_at: string | null }) => ended_at !== null);
  });
  const { text } = await real.get('/metrics');
  assert.not.match(text, /secret|it broke/);
  const samples = parseMetrics(text);
  const value = (name: string, labels: Record<string, string> = {}) =>
    figureOf(samples, name, labels);
  assert.is(value('svc_runs_accepted_total', { provider: 'local' }), 2);
  assert.is(value('svc_runs_ended_total', { outcome: 'completed', provider: 'local' }), 1);
  assert.is(value('svc_runs_ended_total', { outcome: 'failed' }), 1, failing);
  assert.is(value('svc_output_tokens_total', { provider: 'local', model: 'a"model' }), 1);
  assert.is(value('svc_run_queue_wait_seconds_count'), 2);
  assert.is(value('svc_run_duration_seconds_count', { outcome: 'completed' }), 1);
  assert.is(value('svc_runs', { state: 'finished' }), 2);
  assert.is(value('svc_ready'), 1);
  assert.is(value('svc_events_total', { type: 'run.output_appended' }), 2);
  assert.is(
    samples
      .filter(({ name }) => name === 'svc_events_total')
      .reduce((sum, sample) => sum + sample.value, 0),
    (value('svc_log_position') ?? 0) - 1,
    'all but the event that was there before the runtime',
  );
  const commits = value('svc_commit_seconds_count') ?? 0;
  assert.ok(commits > 0 && commits <= real.kernel.durableSeq, `${commits} commits`);
  assert.is(
    value('svc_http_requests_total', { route: '/v1/runs', method: 'POST', status: '2xx' }),
    2,
  );
  assert.is(value('svc_provider_state', { provider: 'local' }), 1);
});

test('requests count under their route, and refusals under their code', async () => {
  real = await bootReal();
  for (const id of ['run_a', 'run_b', '..%2f..', 'run_%22'])
    assert.is((await real.get(`/v1/runs/${id}`)).status, 404);
  assert.is((await ask(`${real.url}/v1/runs`)).status, 401);
  assert.is((await real.get('/unknown/path')).status, 404);
  const samples = await scrape();
  const asked = samples.filter(({ name }) => name === 'svc_http_requests_total');
  assert.equal(
    asked.map(({ labels, value }) => [labels.route, labels.status, value]),
    [
      ['/v1/runs/:id', '4xx', 4],
      ['/v1/runs', '4xx', 1],
    ],
  );
  assert.is(figureOf(samples, 'svc_http_refusals_total', { code: 'run_unknown' }), 4);
  assert.is(figureOf(samples, 'svc_http_refusals_total', { code: 'unauthorised' }), 1);
  assert.ok((figureOf(samples, 'svc_http_connections') ?? 0) > 0);
});

test('a scrape needs the token, unless the setting opens it to this machine', async () => {
  real = await bootReal();
  assert.is((await ask(`${real.url}/metrics`)).status, 401);
  assert.is((await ask(`${real.url}/metrics`, { headers: BEARER })).status, 200);
  await real.close();
  real = await bootReal({ metrics_public: true });
  assert.is((await ask(`${real.url}/metrics`)).status, 200);
  const wrong = { authorization: 'Bearer wrong' };
  assert.is((await ask(`${real.url}/metrics`, { headers: wrong })).status, 401);
  assert.is((await ask(`${real.url}/v1/runs`)).status, 401, 'nothing else is open');
  const foreign = { origin: 'https://evil.example' };
  assert.is((await ask(`${real.url}/metrics`, { headers: foreign })).status, 403);
});

test('a later scrape has the same series, and the delay of the loop', async () => {
  real = await bootReal();
  const names = (samples: Sample[]) => [...new Set(samples.map(({ name }) => name))].sort();
  const first = await scrape();
  const second = await scrape();
  assert.equal(
    names(second).filter((name) => !names(first).includes(name)),
    ['svc_http_requests_total'],
  );
  assert.is(second.filter(({ name }) => name === 'svc_loop_delay_seconds').length, 3);
});

test.run();
