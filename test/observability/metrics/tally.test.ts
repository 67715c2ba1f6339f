import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { formatFamilies } from '../../../src/observability/metrics/format.ts';
import { Counter, gauge, Histogram, SERIES_MAX } from '../../../src/observability/metrics/tally.ts';
import { figureOf, parseMetrics } from '../../helpers/prometheus.ts';

test('names beyond the bound count as other, and nothing is lost', async () => {
  const counter = new Counter('svc_a', 'A.');
  const histogram = new Histogram('svc_b', 'B.', [1, 2]);
  for (let index = 0; index < 3 * SERIES_MAX; index += 1) {
    counter.add({ provider: 'p', model: `m${index}` }, 2);
    histogram.observe({ model: `m${index}` }, 1);
  }
  const values = gauge(
    'svc_c',
    'C.',
    Array.from({ length: 3 * SERIES_MAX }, (_, index) => [{ name: `n${index}` }, 1] as const),
  );
  const samples = parseMetrics(
    await formatFamilies([counter.family(), histogram.family(), values]),
  );
  const named = (name: string) => samples.filter((sample) => sample.name === name);
  assert.is(named('svc_a').length, SERIES_MAX + 1);
  assert.is(figureOf(samples, 'svc_a', { model: 'm0' }), 2);
  assert.is(figureOf(samples, 'svc_a', { provider: 'other', model: 'other' }), 4 * SERIES_MAX);
  assert.is(named('svc_b_count').length, SERIES_MAX + 1);
  assert.is(figureOf(samples, 'svc_b_count', { model: 'other' }), 2 * SERIES_MAX);
  assert.is(named('svc_c').length, SERIES_MAX);
});

test('a histogram counts each value once, and a negative time as none', async () => {
  const histogram = new Histogram('svc_b', 'B.', [0.5, 1]);
  for (const value of [0.1, 0.5, 0.7, 3, -1]) histogram.observe({}, value);
  const samples = parseMetrics(await formatFamilies([histogram.family()]));
  assert.equal(
    samples.map(({ labels, value }) => [labels.le ?? '', value]),
    [
      ['0.5', 3],
      ['1', 4],
      ['+Inf', 5],
      ['', 4.3],
      ['', 5],
    ],
  );
});

test('foreign names are escaped', async () => {
  const hostile = 'a"b\\c\nd} 1\nsvc_forged 1';
  const counter = new Counter('svc_a', 'A.');
  counter.add({ model: hostile });
  const samples = parseMetrics(await formatFamilies([counter.family()]));
  assert.equal(samples, [{ name: 'svc_a', labels: { model: hostile }, value: 1 }]);
});

test.run();
