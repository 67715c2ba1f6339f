import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { sha256 } from '../helpers/hub.ts';
import {
  address,
  bootPulls,
  CUT,
  FILE,
  isThere,
  MODEL,
  makeModel,
  OTHER,
  type PullHarness,
  pulls,
} from '../helpers/pulls.ts';
import { waitFor } from '../helpers/wait.ts';

/** What breaks is gone on with where it stopped, and two files are never mixed. */

/** What is lost of a connection that breaks: bytes that were read and not yet handed on. */
const ONE_READ = 65_536;

pulls(
  'connections that break again and again cost little: each attempt goes on where the one before stopped',
  async (harness) => {
    const { pull, hub, events, config } = harness;
    const large = makeModel(4096);
    hub.files.set(FILE, large);
    const breaks = config.limits.pull_failures + 3;
    for (let time = 0; time < breaks; time += 1) hub.next.push({ cutAfter: 300_000 });
    const { last, error } = await pull('hf:user/tiny');
    assert.is(error, null);
    assert.is(last?.attempt, breaks + 1);
    isThere(harness, large);
    const ranges = hub.downloads.map(({ headers }) =>
      Number(/^bytes=(\d+)-$/.exec(headers.range ?? '')?.[1] ?? 0),
    );
    const offsets = (await events())
      .filter(({ type }) => type === 'pull.resolved')
      .map(({ data }) => data.offset_bytes);
    assert.equal(offsets, ranges);
    for (const [index, from] of ranges.entries())
      assert.ok(index === 0 || from > (ranges[index - 1] ?? 0), String(ranges));
    assert.ok(
      hub.sent - large.length <= breaks * ONE_READ,
      `${hub.sent - large.length} bytes came twice`,
    );
  },
);

pulls(
  'attempts that get no further are bounded; then the pull fails and the bytes stay',
  async (harness) => {
    const { pull, hub, inFolder, config } = harness;
    hub.next.push({ cutAfter: CUT });
    hub.usual = { status: 503 };
    const { error } = await pull('hf:user/tiny');
    assert.is(error?.code, 'pull_failed');
    assert.is(hub.downloads.length, config.limits.pull_failures);
    assert.equal(inFolder(), [`${FILE}.partial`, `${FILE}.partial.json`]);
  },
);

pulls('a second command goes on from what a failed one left', async (harness) => {
  const { pull, hub, sizeOf } = harness;
  hub.next.push({ hangAfter: CUT });
  const stop = new AbortController();
  const first = pull('hf:user/tiny', { signal: stop.signal });
  await harness.fetched(FILE, CUT);
  stop.abort();
  await first;
  await waitFor('the work has stopped', () => hub.open.size === 0);
  const kept = sizeOf(`${FILE}.partial`);
  assert.is(kept, CUT);
  const { last } = await pull('hf:user/tiny');
  assert.is(last?.offset_bytes, CUT);
  assert.is(hub.sent, MODEL.length);
  isThere(harness);
});

pulls(
  'a server that knows no ranges sends the file again from its start, and the two are not mixed',
  async (harness) => {
    const { pull, hub } = harness;
    hub.next.push({ cutAfter: CUT }, { noRanges: true });
    const { last } = await pull(address(harness));
    assert.is(last?.state, 'completed');
    isThere(harness);
    assert.equal(
      hub.downloads.map(({ status }) => status),
      [200, 200],
    );
  },
);

pulls('a file that changed between two attempts is fetched from its start', async (harness) => {
  const { pull, hub } = harness;
  hub.next.push({ cutAfter: CUT });
  const { last } = await pull(address(harness), {
    onRecord: ({ state }) => state === 'backoff' && hub.files.set(FILE, OTHER),
  });
  assert.is(last?.state, 'completed');
  assert.ok(hub.downloads[1]?.headers['if-range']);
  isThere(harness, OTHER);
});

pulls(
  'a file that changed on the hub is known by its hash, and fetched from its start',
  async (harness) => {
    const { pull, hub } = harness;
    hub.next.push({ cutAfter: CUT });
    await pull('hf:user/tiny', {
      onRecord: ({ state }) => state === 'backoff' && hub.files.set(FILE, OTHER),
    });
    assert.is(hub.downloads[1]?.headers.range, undefined);
    isThere(harness, OTHER);
  },
);

pulls(
  'a server that answers with another range than it was asked for is asked for the whole file',
  async (harness) => {
    const { pull, hub } = harness;
    hub.next.push({ cutAfter: CUT }, { rangeFrom: 4 });
    const { last } = await pull(address(harness));
    assert.is(last?.state, 'completed');
    assert.is(hub.downloads[2]?.headers.range, undefined);
    isThere(harness);
  },
);

pulls(
  'a server that ignores the condition and sends a range of a changed file is asked for the whole file',
  async (harness) => {
    const { pull, hub } = harness;
    hub.next.push(
      { cutAfter: CUT },
      { bytes: OTHER, headers: { etag: '"another"' }, etag: `"${sha256(MODEL).slice(0, 16)}"` },
    );
    hub.usual = { bytes: OTHER };
    await pull(address(harness));
    assert.is(hub.downloads[1]?.status, 206);
    isThere(harness, OTHER);
  },
);

pulls('without a strong validator and a hash nothing is gone on with', async (harness) => {
  const { pull, hub } = harness;
  hub.next.push({ cutAfter: CUT, etag: 'W/"weak"' });
  hub.usual = { etag: 'W/"weak"' };
  await pull(address(harness));
  assert.is(hub.downloads[1]?.headers.range, undefined);
  isThere(harness);
});

pulls('with a hash a file without a validator is gone on with', async (harness) => {
  const { pull, hub } = harness;
  hub.next.push({ cutAfter: CUT, etag: null });
  hub.usual = { etag: null };
  await pull('hf:user/tiny');
  assert.is(hub.downloads[1]?.status, 206);
  isThere(harness);
});

pulls(
  'after a break the redirect is asked for anew, since the address it leads to may have run out',
  async (harness) => {
    const { pull, hub, elsewhere } = harness;
    const other = await elsewhere();
    other.next.push({ cutAfter: CUT }, { status: 403 });
    hub.usual = { redirect: `${other.url}/${FILE}` };
    const { last } = await pull('hf:user/tiny');
    assert.is(last?.state, 'completed');
    assert.is(hub.downloads.length, 3);
    isThere(harness);
  },
);

for (const [what, spoil] of [
  [
    'a sidecar that cannot be read',
    ({ path }: PullHarness) => writeFileSync(path(`${FILE}.partial.json`), '{"url":'),
  ],
  [
    'a sidecar of another form',
    ({ path }: PullHarness) =>
      writeFileSync(path(`${FILE}.partial.json`), '{"url":1,"synced_bytes":-1}'),
  ],
  [
    'more bytes than the file has',
    ({ path }: PullHarness) =>
      writeFileSync(path(`${FILE}.partial`), Buffer.alloc(MODEL.length + 1)),
  ],
] as const) {
  pulls(`with ${what} the partial file is not gone on with`, async (harness) => {
    const { pull, hub } = harness;
    hub.usual = { status: 503 };
    hub.next.push({ cutAfter: CUT });
    await pull('hf:user/tiny');
    spoil(harness);
    hub.usual = {};
    const { last } = await pull('hf:user/tiny');
    assert.is(last?.offset_bytes, 0);
    isThere(harness);
  });
}

pulls('a partial file that is whole costs one byte more', async (harness) => {
  const { pull, hub, path } = harness;
  hub.usual = { status: 503 };
  hub.next.push({ cutAfter: CUT });
  await pull('hf:user/tiny');
  writeFileSync(path(`${FILE}.partial`), MODEL);
  hub.usual = {};
  const before = hub.sent;
  await pull('hf:user/tiny');
  assert.is(hub.sent - before, 1);
  isThere(harness);
});

const synced = { limits: { pull_sync_bytes: 100_000 } };

pulls(
  'after a power cut the pull goes on from what was surely on disk',
  async ({ pull, hub, folder, path, fetched }) => {
    hub.next.push({ hangAfter: CUT });
    const stop = new AbortController();
    const pulling = pull('hf:user/tiny', { signal: stop.signal });
    await fetched(FILE, CUT);
    stop.abort();
    await pulling;
    await waitFor('the work has stopped', () => hub.open.size === 0);
    const { synced_bytes } = JSON.parse(readFileSync(path(`${FILE}.partial.json`), 'utf8')) as {
      synced_bytes: number;
    };
    assert.ok(synced_bytes >= 100_000 && synced_bytes < CUT, String(synced_bytes));
    const kept = readFileSync(path(`${FILE}.partial`));
    writeFileSync(
      path(`${FILE}.partial`),
      Buffer.concat([kept.subarray(0, synced_bytes), Buffer.alloc(CUT - synced_bytes)]),
    );
    const later = await bootPulls(
      { [FILE]: MODEL },
      { ...synced, puller: { folder, host_boot_id: 'after' } },
    );
    try {
      assert.is((await later.pull('hf:user/tiny')).last?.offset_bytes, synced_bytes);
      isThere(later);
    } finally {
      await later.close();
    }
  },
  synced,
);

test.run();
