import * as assert from 'uvu/assert';
import { PullProgress } from '../../src/cli/model/pull-progress.ts';
import { recordText } from '../../src/cli/runs/show.ts';
import type { PullRecord } from '../../src/runtime/pulls/record.ts';
import { run, suiteWithDaemon } from './fake-daemon.ts';

/** The figures that a command prints, not only their form. */
const test = suiteWithDaemon('printed values');

const at = (seconds: number) => new Date(Date.parse(run.created_at) + seconds * 1000).toISOString();

test('a run says how long after its creation its first output and its end were', () => {
  const text = recordText({ ...run, first_output_at: at(3), ended_at: at(75) });
  assert.match(text, /^ *first output +after 3 s$/m);
  assert.match(text, /^ *ended +after 75 s$/m);
  assert.not.match(recordText({ ...run, first_output_at: null }), /first output/);
  const waited = recordText({ ...run, ended_at: at(75), waited_ms: 60_000 });
  assert.match(waited, /^ *ended +after 15 s \(and waited 60 s for a person\)$/m);
  const waits = recordText({ ...run, ended_at: null, waited_ms: 60_000 });
  assert.match(waits, /^ *waited +60 s for a person$/m);
});

test('a run has each of its figures in its line', () => {
  const text = recordText({
    ...run,
    state: 'failed',
    cloud: true,
    provider: 'lab',
    queue_position: 3,
    created_at: at(-3600),
    first_output_at: at(-3599.5),
    ended_at: at(-3480),
    usage: { input_tokens: null, output_tokens: 53 },
    load_ms: 1250,
    attempts: 2,
    waited_ms: 90_000,
    stop_sequence: '\n',
    continues: 'run_0',
    conversation: 'run_0',
    origin: '/work',
    error: { code: 'rate_limited', message: 'Too many.', hint: 'Wait.', retryable: true },
  } as typeof run);
  const lines = [...text.matchAll(/^ *(\S.*?) {2,}(.+)$/gm)].map(([, name, said]) => [name, said]);
  assert.equal(
    lines.filter(([name]) => name !== 'created'),
    [
      ['state', 'failed, number 3 in the queue'],
      ['error', 'rate_limited: Too many.'],
      ['hint', 'Wait.'],
      ['provider', 'lab (cloud)'],
      ['model', 'tiny'],
      ['first output', 'after 0.5 s'],
      ['ended', 'after 30 s (and waited 90 s for a person)'],
      ['tokens', '? in, 53 out'],
      ['load', '1.3 s'],
      ['attempts', '2'],
      ['stopped by', '"\\n"'],
      ['client', 'test'],
      ['conversation', 'run_0'],
      ['continues', 'run_0'],
      ['folder', '/work'],
      ['when cut off', 'resume'],
    ],
  );
  // What is not known has no line.
  const absent = /waited|load|attempts|stopped by|continues|conversation|folder|hint|tokens/;
  assert.not.match(recordText({ ...run, attempts: 1 }), absent);
});

test('the sums of usage are printed with all that is said about them', async ({ home, daemon }) => {
  const group = (name: string, runs: number, cost: number, without_price: string[] = []) => ({
    name,
    runs,
    embeddings: runs + 1,
    input_tokens: runs * 100,
    output_tokens: runs * 10,
    cached_tokens: runs * 7,
    cache_write_tokens: runs * 3,
    estimated_runs: runs - 1,
    estimated_embeddings: runs - 1,
    cost,
    without_price,
  });
  daemon.on('usage', ({ params, result }) =>
    result({
      by: params.by,
      since: at(0),
      covers_since: at(0),
      currency: 'EUR',
      groups: [group('lab/m', 2, 0.123456), group('lab/n', 1, 0, ['lab/n'])],
      total: group('total', 4, 1234.56, ['lab/n']),
      budget: {
        per_day: 5,
        tokens_per_day: 9000,
        spent: 0.00012345,
        spent_tokens: 440,
        resets_at: at(60),
      },
    }),
  );
  const { stdout, stderr } = await home.svc(['usage', '--by', 'provider']);
  assert.equal(
    stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.trim().split(/ {2,}/)),
    [
      ['PROVIDER', 'RUNS', 'EMBEDDINGS', 'IN', 'OUT', 'EUR'],
      ['lab/m', '2', '3', '200', '20', '0.1235'],
      ['lab/n', '1', '2', '100', '10', '?'],
      ['total', '4', '5', '400', '40', '1235'],
    ],
  );
  assert.equal(stderr.trimEnd().split('\n'), [
    `Runs are counted since ${at(0)}.`,
    'Of IN, 28 tokens were in the caches of providers, and 12 were written into them.',
    'Runs without tokens, only in the total: 1.',
    '3 runs without numbers of their provider are estimated.',
    '3 requests for embeddings without such numbers are estimated.',
    'Without a price in the configuration: lab/n.',
    `Used today at cloud providers: 0.0001234 of 5 EUR, 440 of 9000 tokens. The next day: ${at(60)}.`,
  ]);
});

test('the sums of a conversation are printed, and how many runs have not all numbers', async ({
  home,
  daemon,
}) => {
  const sums = { runs: 3, input_tokens: 40, output_tokens: 5, cached_tokens: 6 };
  for (const unknown of [0, 2]) {
    daemon.on('conversation.usage', ({ params: { id }, result }) =>
      result({ conversation: id, ...sums, unknown }),
    );
    const { stdout, stderr } = await home.svc(['usage', '--conversation', 'run_0']);
    const [head = '', line = ''] = stdout.split('\n').map((text) => text.replace(/ +/g, ' '));
    assert.equal([head, line], ['CONVERSATION RUNS IN OUT CACHED', 'run_0 3 40 5 6']);
    const said = unknown === 0 ? '' : '2 runs without all numbers of their provider.\n';
    assert.is(stderr, said);
  }
});

test('the rate of a run is the one that the daemon reckoned, or absent', () => {
  const times = { first_output_at: at(0), ended_at: at(1) };
  const usage = { input_tokens: 3, output_tokens: 53 };
  assert.match(
    recordText({ ...run, ...times, usage, tokens_per_second: 26.5 }),
    /^ *rate +26\.5 tokens\/s$/m,
  );
  assert.not.match(recordText({ ...run, ...times, usage }), /tokens\/s/);
});

test('the clock of a node is right below a second, else it says by how much it is wrong', async ({
  home,
  daemon,
}) => {
  const clocks = [null, 0, 999, -999, 1000, -90_000];
  const nodes = clocks.map((clock_ms, index) => ({
    id: `node_${index}`,
    state: 'active',
    since: run.created_at,
    runs: 0,
    capacity: 4,
    version: '1.0.0',
    host: 'here',
    lease_until: null,
    takes_runs: true,
    clock_ms,
  }));
  daemon.on('node.list', ({ result }) => result({ nodes }));
  const { stdout, stderr } = await home.svc(['nodes']);
  const [head = '', ...lines] = stdout.trimEnd().split('\n');
  assert.is(stderr, '');
  const from = head.indexOf('CLOCK');
  assert.equal(
    lines.map((line) => line.slice(from).trim()),
    ['-', 'right', 'right', 'right', '+1 s', '-90 s'],
  );
});

test('the usage says which part of its cost is at the present prices', async ({ home, daemon }) => {
  const used = {
    name: 'far/m',
    runs: 2,
    embeddings: 0,
    input_tokens: 2000,
    output_tokens: 1000,
    cached_tokens: 0,
    cache_write_tokens: 0,
    estimated_runs: 0,
    estimated_embeddings: 0,
    cost: 0.044,
    without_price: [],
  };
  const budget = { per_day: null, tokens_per_day: null, spent: 0, spent_tokens: 0 };
  const whole = { by: 'model', since: null, covers_since: null, currency: 'EUR' };
  for (const [cost_at_present_prices, said] of [
    [0.04, 'Of the cost, 0.04 EUR is at the present prices: it was counted without one.\n'],
    [0, ''],
  ] as const) {
    const group = { ...used, cost_at_present_prices };
    const record = { ...whole, groups: [group], total: { ...group, name: 'total' } };
    daemon.on('usage', ({ result }) =>
      result({ ...record, budget: { ...budget, resets_at: run.created_at } }),
    );
    const { stdout, stderr } = await home.svc(['usage']);
    assert.match(stdout, /^far\/m +2 +2000 +1000 +0\.044$/m);
    assert.is(stderr, said);
  }
});

test('a node has its runs, places, and how long its lease lasts', async ({ home, daemon }) => {
  const node = {
    id: 'node_a',
    state: 'active',
    since: run.created_at,
    runs: 3,
    capacity: 4,
    version: '1.0.0',
    host: 'here',
    // Time passes until it is printed.
    lease_until: new Date(Date.now() + 3_620_000).toISOString(),
    takes_runs: true,
    clock_ms: 0,
  };
  const late = { ...node, id: 'node_b', takes_runs: false, lease_until: run.created_at };
  const left = { ...node, id: 'node_c', takes_runs: false, lease_until: null };
  daemon.on('node.list', ({ result }) => result({ nodes: [node, late, left] }));
  const { stdout, stderr } = await home.svc(['nodes']);
  const [head = '', ...lines] = stdout.trimEnd().split('\n');
  const column = (line: string) => line.split(/ {2,}/).map((text) => text.trim());
  assert.equal(column(head).slice(3, 8), ['RUNS', 'PLACES', 'VERSION', 'HOST', 'LEASE']);
  assert.equal(
    lines.map((line) => column(line).slice(3, 8)),
    [
      ['3', '4', '1.0.0', 'here', '60 min'],
      ['3', '4', '1.0.0', 'here', '0 s'],
      ['3', '4', '1.0.0', 'here', '-'],
    ],
  );
  assert.match(stderr, /^node_b takes no runs: its clock is too far from that of the database\./);
  assert.is(stderr.trimEnd().split('\n').length, 1);
  daemon.on('node.list', ({ result }) => result({ nodes: [] }));
  const none = await home.svc(['nodes']);
  assert.is(none.stdout + none.stderr, 'This daemon is not part of a fleet.\n');
});

test('a list of approvals has 60 characters of a text, and all of one that has 60', async ({
  home,
  daemon,
}) => {
  const call = {
    id: 'run_1.1',
    run: 'run_1',
    server: 'files',
    tool: 'read',
    state: 'requested',
    since: run.created_at,
    until: null,
  };
  const of = (length: number) => ({
    ...call,
    arguments: 'a'.repeat(length),
    description: 'd'.repeat(length),
    target: 't'.repeat(length),
  });
  daemon.on('approval.list', ({ result }) => result({ approvals: [of(60), of(61)] }));
  const { stdout } = await home.svc(['approvals', 'list']);
  const [, whole = '', cut = ''] = stdout.split('\n');
  assert.match(whole, / a{60} +d{60} +t{60}$/);
  assert.match(cut, / a{59}… +d{59}… +t{59}…$/);
});

const MIB = 1024 * 1024;
const pull = (bytes: number) =>
  ({
    file: 'm.gguf',
    state: 'downloading',
    size_bytes: 100 * MIB,
    bytes,
    choices: [],
    error: null,
    retry_at: null,
    existing: false,
    attempt: 1,
    offset_bytes: 0,
  }) as unknown as PullRecord;

/** What the line of a download says, at these seconds and bytes. */
function paces(steps: readonly (readonly [seconds: number, bytes: number])[]): string[] {
  const { now } = performance;
  const write = process.stderr.write;
  const lines: string[] = [];
  let seconds = 0;
  performance.now = () => seconds * 1000;
  process.stderr.write = (text: string | Uint8Array) => {
    lines.push(
      String(text)
        .replace(/^.*?of 100 MiB/s, '')
        .trim(),
    );
    return true;
  };
  try {
    const progress = new PullProgress('line');
    for (const [time, bytes] of steps) {
      seconds = time;
      progress.show(pull(bytes));
    }
  } finally {
    performance.now = now;
    process.stderr.write = write;
  }
  return lines;
}

test('the rate of a download is that of the last five seconds', () => {
  assert.equal(
    paces([
      [0, 0],
      [0.4, MIB],
      [1, 10 * MIB],
      [4, 40 * MIB],
      [9.5, 51 * MIB],
      [12, 56 * MIB],
    ]),
    [
      '',
      '',
      '10 MiB/s  9 s left',
      '10 MiB/s  6 s left',
      // The marks that are older than five seconds are gone, but for one before it.
      '2 MiB/s  25 s left',
      '2 MiB/s  22 s left',
    ],
  );
});

test('a download that begins again has no rate from before', () => {
  assert.equal(
    paces([
      [0, 50 * MIB],
      [2, 60 * MIB],
      [3, 0],
      [4, 2 * MIB],
    ]),
    ['', '5 MiB/s  8 s left', '', '2 MiB/s  49 s left'],
  );
});

test.run();
