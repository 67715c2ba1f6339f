import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { bootReal } from '../../transport/http/real.ts';

/** The dashboard, the alerts and the page name metrics that the daemon has, and the page all. */

const real = await bootReal();
const { text } = await real.get('/metrics');
await real.close();
const types = new Map(
  [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, type]) => [name, type]),
);

const read = (file: string) => readFileSync(`docs/${file}`, 'utf8');
const namesIn = (said: string) => [...new Set(said.match(/\bsvc_\w+/g) ?? [])];

/** The family of a series, as a query names it. */
function familyOf(name: string): string {
  const base = name.replace(/_(bucket|sum|count)$/, '');
  return types.get(base) === 'histogram' && base !== name ? base : name;
}

const dashboard = JSON.parse(read('monitoring/grafana.json'));
const queries: string[] = dashboard.panels.flatMap(({ targets }: { targets: { expr: string }[] }) =>
  targets.map(({ expr }) => expr),
);
const alerts = [...read('monitoring/alerts.yaml').matchAll(/^ +expr: (.+)$/gm)];

test('each query of the dashboard and of the alerts names metrics that exist', () => {
  assert.ok(queries.length > 20 && alerts.length > 8);
  for (const query of [...queries, ...alerts.map(([, expr = '']) => expr)]) {
    const names = namesIn(query);
    assert.ok(names.length > 0, query);
    for (const name of names) assert.ok(types.has(familyOf(name)), `${name} in ${query}`);
    const rated = [...query.matchAll(/(?:rate|increase)\((svc_\w+)/g)].map(([, name = '']) => name);
    for (const name of rated.filter((each) => each !== 'svc_log_position'))
      assert.is.not(types.get(familyOf(name)), 'gauge', `${name} in ${query} is no counter`);
  }
});

test('each alert has a severity and a summary', () => {
  const rules = read('monitoring/alerts.yaml').split('- alert: ').slice(1);
  assert.is(rules.length, alerts.length);
  for (const rule of rules) {
    assert.match(rule, /^ {8}labels: \{ severity: (critical|warning) \}$/m);
    assert.match(rule, /^ {10}summary: \S.*\.$/m);
  }
});

test('the page lists every metric, and no other', () => {
  const listed = [...read('monitoring.md').matchAll(/^\| `(svc_\w+)` \| (.+) \|$/gm)];
  const helps = [...text.matchAll(/^# HELP (\w+) (.+)$/gm)];
  assert.equal(
    listed.map(([, name, help]) => `${name}: ${help}`),
    helps.map(([, name, help]) => `${name}: ${help}`),
    'edit docs/monitoring.md, in the order of /metrics',
  );
});

test.run();
