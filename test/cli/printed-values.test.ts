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
});

test('the rate of a run is the one that the daemon reckoned, else there is none', () => {
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
  const { stdout } = await home.svc(['nodes']);
  const [head = '', ...lines] = stdout.trimEnd().split('\n');
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
