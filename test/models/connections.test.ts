import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Behaviour } from '../helpers/hub.ts';
import { FILE, isThere, makeModel, OTHER, type PullHarness, pulls } from '../helpers/pulls.ts';
import { waitFor } from '../helpers/wait.ts';

/** One download with several connections. */

const LARGE = makeModel(2048);
const PIECE = 131_072;
const limits = { pull_range_bytes: PIECE, pull_connections: 4 };
/** Bytes that were sent and not read yet when a connection ended. */
const IN_FLIGHT = 4 * 1024 * 1024;

function several(
  name: string,
  body: (harness: PullHarness) => Promise<void>,
  options: Parameters<typeof pulls>[2] = {},
): void {
  pulls(
    name,
    async (harness) => {
      harness.hub.files.set(FILE, LARGE);
      await body(harness);
    },
    { ...options, limits: { ...limits, ...options.limits } },
  );
}

const rangesOf = ({ hub }: PullHarness) => hub.downloads.map(({ headers }) => headers.range);
const SLOW: Behaviour = { bytesPerSecond: 4_000_000 };

several(
  'the parts of a large file come over several connections, at most as many as set',
  async (harness) => {
    const { hub, pull, events } = harness;
    hub.usual = SLOW;
    const { last, error } = await pull('hf:user/tiny');
    assert.is(error, null);
    assert.is(last?.attempt, 1);
    isThere(harness, LARGE);
    const [first, ...others] = rangesOf(harness);
    assert.is(first, undefined);
    assert.ok(others.length >= 3 && others.every((range) => /^bytes=\d+-\d+$/.test(range ?? '')));
    assert.ok(hub.openMost > 1, `${hub.openMost} at one time`);
    assert.ok(hub.sent - LARGE.length <= IN_FLIGHT, `${hub.sent} bytes were sent`);
    const progress = (await events())
      .filter(({ type }) => type === 'pull.progressed')
      .map(({ data }) => Number(data.bytes));
    assert.equal(
      progress,
      [...progress].sort((a, b) => a - b),
    );
    assert.ok((progress.at(-1) ?? 0) <= LARGE.length);
  },
);

several('a server without ranges, and a small file, have one connection', async (harness) => {
  const { hub, pull } = harness;
  hub.usual = { noRanges: true };
  assert.is((await pull('hf:user/tiny')).error, null);
  isThere(harness, LARGE);
  assert.is(hub.downloads.length, 1);
  assert.is(hub.sent, LARGE.length);
});

pulls(
  'a file of less than two ranges has one connection',
  async (harness) => {
    assert.is((await harness.pull('hf:user/tiny')).error, null);
    isThere(harness);
    assert.is(harness.hub.downloads.length, 1);
  },
  { limits: { ...limits, pull_range_bytes: 300_000 } },
);

several('what other connections fail to fetch comes over the first one', async (harness) => {
  const { hub, pull } = harness;
  hub.next.push(SLOW, { status: 403 }, { status: 500 }, { cutAfter: 40_000 });
  const { last, error } = await pull('hf:user/tiny');
  assert.is(error?.message, undefined);
  assert.is(last?.attempt, 1);
  isThere(harness, LARGE);
});

several('a part of another file is not taken', async (harness) => {
  const { hub, pull } = harness;
  const other = makeModel(2048, 2);
  hub.next.push(SLOW, ...Array.from({ length: 3 }, () => ({ bytes: other })));
  hub.usual = { bytes: OTHER };
  assert.is((await pull('hf:user/tiny')).error, null);
  isThere(harness, LARGE);
  assert.ok(hub.downloads.slice(1, 4).every(({ headers }) => headers['if-range']));
});

several(
  'each connection follows the redirect, and the token goes to the hub only',
  async (harness) => {
    const { hub, pull, elsewhere } = harness;
    const other = await elsewhere();
    other.files.set(FILE, LARGE);
    other.usual = SLOW;
    hub.usual = { redirect: `${other.url}/${FILE}` };
    assert.is((await pull('hf:user/tiny')).error, null);
    isThere(harness, LARGE);
    assert.ok(other.downloads.length >= 4);
    assert.ok(hub.downloads.every(({ headers }) => headers.authorization === 'Bearer hf_secret'));
    assert.ok(other.asked.every(({ headers }) => headers.authorization === undefined));
  },
  { env: { HF_TOKEN: 'hf_secret' } },
);

several(
  'every part goes on where it stopped, also on a server that knows ranges only',
  async (harness) => {
    const { hub, pull, path } = harness;
    hub.usual = { hangAfter: 300_000 };
    const stop = new AbortController();
    const first = pull('hf:user/tiny', { signal: stop.signal });
    await waitFor(
      'four connections hang',
      () => hub.sent >= 300_000 + 3 * PIECE && hub.open.size >= 1,
    );
    await waitFor('parts are on disk', () => {
      const { parts } = JSON.parse(readFileSync(path(`${FILE}.partial.json`), 'utf8')) as {
        parts?: unknown[];
      };
      return parts !== undefined;
    });
    stop.abort();
    await first;
    await waitFor('the work has stopped', () => hub.open.size === 0);
    hub.usual = {};
    const { last, error } = await pull('hf:user/tiny');
    assert.is(error, null);
    assert.ok((last?.offset_bytes ?? 0) >= 300_000, String(last?.offset_bytes));
    isThere(harness, LARGE);
    assert.ok(hub.sent - LARGE.length <= 2 * IN_FLIGHT);
  },
);

several('a wrong hash deletes the file, however it came', async (harness) => {
  const { hub, pull, inFolder } = harness;
  hub.listedHash = 'a'.repeat(64);
  const { error } = await pull('hf:user/tiny');
  assert.is(error?.code, 'pull_failed');
  assert.match(error?.message ?? '', 'It was deleted.');
  assert.equal(inFolder(), []);
});

let free = 1e9;
several(
  'a disk that fills up ends every connection, and the parts stay',
  async (harness) => {
    const { hub, pull, inFolder } = harness;
    hub.usual = SLOW;
    free = 1e9;
    const { error } = await pull('hf:user/tiny', {
      onRecord: ({ state }) => {
        if (state === 'downloading') free = 500;
      },
    });
    assert.is(error?.code, 'pull_failed');
    // The second words are those of another attempt, after a connection failed.
    const words = /^(The disk is nearly full|The download needs \d+ MiB more): /;
    assert.match(error?.message ?? '', words, error?.message);
    await waitFor('the work has stopped', () => hub.open.size === 0);
    assert.equal(inFolder(), [`${FILE}.partial`, `${FILE}.partial.json`]);
    free = 1e9;
    hub.usual = {};
    assert.is((await pull('hf:user/tiny')).error, null);
    isThere(harness, LARGE);
  },
  { puller: { freeBytes: () => Promise.resolve(free) }, limits: { pull_spare_bytes: 1000 } },
);

for (const [what, parts] of [
  [
    'that overlap',
    [
      [0, 300_000],
      [200_000, 400_000],
    ],
  ],
  ['beyond the file on disk', [[0, 1_000_000_000]]],
  [
    'beyond the end of the model',
    [
      [0, 100_000],
      [200_000, LARGE.length + 1],
    ],
  ],
  ['of another form', 'all'],
] as const)
  several(`a sidecar with parts ${what} is not gone on with`, async (harness) => {
    const { hub, pull, path } = harness;
    hub.usual = { status: 503 };
    hub.next.push({ cutAfter: 600_000, noRanges: true });
    await pull('hf:user/tiny');
    const file = path(`${FILE}.partial.json`);
    const sidecar = JSON.parse(readFileSync(file, 'utf8')) as object;
    truncateSync(path(`${FILE}.partial`), LARGE.length + 1);
    writeFileSync(
      file,
      JSON.stringify({ ...sidecar, synced_bytes: null, parts, synced_parts: parts }),
    );
    hub.usual = {};
    const { last, error } = await pull('hf:user/tiny');
    assert.is(error, null);
    assert.is(last?.offset_bytes, 0);
    isThere(harness, LARGE);
  });

const power = { host_boot_id: 'one' };
several(
  'after a power cut only synced parts count',
  async (harness) => {
    const { hub, pull, path } = harness;
    hub.usual = { status: 503 };
    hub.next.push({ cutAfter: 600_000, noRanges: true });
    await pull('hf:user/tiny');
    const file = path(`${FILE}.partial.json`);
    const sidecar = JSON.parse(readFileSync(file, 'utf8')) as object;
    const there = [[0, 500_000]];
    writeFileSync(
      file,
      JSON.stringify({
        ...sidecar,
        host_boot_id: 'another',
        synced_bytes: null,
        parts: there,
        synced_parts: [[0, 200_000]],
      }),
    );
    hub.usual = {};
    const { last, error } = await pull('hf:user/tiny');
    assert.is(error, null);
    assert.is(last?.offset_bytes, 200_000);
    isThere(harness, LARGE);
  },
  { puller: power },
);

test.run();
