import { existsSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { outcomeOf, pageWith, pageWithCases, versionOf, type Which } from './report.ts';
import { CLIENTS, type Client } from './table.ts';

const page = readFileSync('docs/clients.md', 'utf8');

const rowsOf = (which: Which) =>
  (page.split(`<!-- ${which} -->`)[1]?.split(`<!-- /${which} -->`)[0] ?? '')
    .split('\n')
    .filter((line) => line.startsWith('| `'));

for (const [which, clients] of [
  ['clients', CLIENTS],
  ['real', CLIENTS.filter(({ real }) => real !== undefined)],
] as const)
  test(`the table ${which} of the page has a row of each client, with its version`, () => {
    const shown = rowsOf(which).map((line) => line.split(' | ').slice(0, 2).join(' '));
    assert.equal(
      shown.sort(),
      clients.map((client) => `| \`${client.name}\` ${versionOf(client)}`).sort(),
      'npm run clients -- --write makes the table in docs/clients.md',
    );
  });

for (const client of CLIENTS.filter(({ page }) => page !== undefined))
  test(`the page of ${client.name} has its cases, and none fails without a reason`, () => {
    const text = readFileSync(client.page ?? '', 'utf8');
    const table = text.split(`<!-- ${client.name} -->`)[1]?.split('<!-- /')[0] ?? '';
    assert.match(table, `| Version ${versionOf(client)} |`);
    assert.match(table, '| passes |');
    assert.not.match(table, '| fails:');
    const reasons = [...table.matchAll(/not for svc: ([^|]+) \|/g)].map(([, why]) => why);
    assert.equal(new Set(reasons), new Set(Object.values(client.known ?? {})));
  });

test('each client has its script', () => {
  for (const { script } of CLIENTS) assert.ok(existsSync(`test/clients/scripts/${script}`), script);
});

const client: Client = {
  name: 'x',
  from: 'npm',
  packages: ['@a/x@1.2.3'],
  script: 'x.mjs',
  ran: 'all',
  known: { 'needs the': 'this machine has no network' },
};
const line = (name: string, ok: boolean) => `CASE ${JSON.stringify({ name, ok, why: 'w' })}`;

test('a failure with a known reason is named, and does not fail the command', () => {
  const printed = [line('a', true), line('b', false), line('needs the net', false)].join('\n');
  const { passed, failed, known } = outcomeOf(client.known, printed, null);
  assert.equal([passed.length, failed.length], [1, 1]);
  assert.equal(known[0]?.why, 'this machine has no network');
});

test('a row counts the cases of a reason', () => {
  const printed = [line('needs the net', false), line('needs the web', false)].join('\n');
  const row = { client, outcome: outcomeOf(client.known, printed, null) };
  const page = pageWith('<!-- real --><!-- /real -->', [row], 'real');
  assert.match(page, '| 0 | 2 | this machine has no network (2) |');
});

test('a script that dies, or that has no case, has failed', () => {
  for (const [printed, trouble] of [
    [line('a', true), 'it ended with 1'],
    ['', null],
  ] as const)
    assert.is(outcomeOf(client.known, printed, trouble).failed.length, 1);
});

test('a client that could not be installed is no success', () => {
  assert.is(outcomeOf(client.known, null, 'not installed: x').failed[0]?.why, 'not installed: x');
});

test('a table of cases has them by their kind and their outcome', () => {
  const printed = [line('as a', true), line('as b', true), line('to c', true)].join('\n');
  const outcome = outcomeOf(client.known, printed, null);
  assert.is(
    pageWithCases('one\n<!-- x -->\nold\n<!-- /x -->\ntwo', { client, outcome }),
    'one\n<!-- x -->\n| Version 1.2.3 | Scenarios | Outcome | Which |\n| --- | --- | --- | --- |\n' +
      '| as | 2 | passes | `a`, `b` |\n| to | 1 | passes | `c` |\n<!-- /x -->\ntwo',
  );
});

test('a row of a client that was not run stays', () => {
  const outcome = outcomeOf(client.known, line('a', true), null);
  const empty = 'before\n<!-- clients -->\n<!-- /clients -->\nafter';
  const once = pageWith(empty, [{ client, outcome }]);
  assert.match(once, /\| `x` \| 1\.2\.3 \| all \| 1 \| 0 \| – \|/);
  const twice = pageWith(once, [{ client: { ...client, name: 'y' }, outcome }]);
  assert.match(twice, /`x`[\s\S]*`y`[\s\S]*after/);
});

test.run();
