import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Hub, sha256 } from '../helpers/hub.ts';
import { bootPulls, makeModel, type PullHarness } from '../helpers/pulls.ts';
import { waitFor } from '../helpers/wait.ts';

const MODEL = makeModel(512);
const OTHER = makeModel(512, 2);
const FILE = 'tiny-Q4_K_M.gguf';
const CUT = 200_000;
/** What is lost of a connection that breaks: bytes that were read and not yet handed on. */
const ONE_READ = 65_536;

/** Each test has a hub and a folder of its own. */
function pulls(name: string, body: (harness: PullHarness) => Promise<void>, options: Parameters<typeof bootPulls>[1] = {}): void {
  test(name, async () => {
    const harness = await bootPulls({ [FILE]: MODEL }, options);
    try {
      await body(harness);
    } finally {
      await harness.close();
    }
  });
}

const address = ({ hub }: PullHarness) => `${hub.url}/${FILE}`;

/** The model is there, byte for byte, and nothing beside it. */
function isThere({ inFolder, path }: PullHarness, model = MODEL, file = FILE): void {
  assert.equal(inFolder(), [file]);
  assert.ok(readFileSync(path(file)).equals(model));
}

pulls('a model of the hub is fetched whole, verified by its hash, and put in its place under its own name', async (harness) => {
  const { pull, hub, facts } = harness;
  const { last, error } = await pull('hf:user/tiny');
  assert.is(error, null);
  assert.is(last?.model?.id, 'local/tiny-Q4_K_M');
  assert.is(last?.verified, true);
  assert.is(last?.revision, hub.commit);
  assert.is(last?.sha256, sha256(MODEL));
  isThere(harness);
  assert.is(hub.sent, MODEL.length);
  const types = (await facts()).map(({ type }) => type).filter((type) => type !== 'pull.progressed' && type !== 'pull.hashed');
  assert.equal(types, ['pull.requested', 'pull.resolved', 'pull.downloaded', 'pull.verified', 'pull.completed']);
});

pulls('an address whose file nobody knows the hash of is fetched, and the record says that it was not compared', async (harness) => {
  const { last } = await harness.pull(address(harness));
  assert.is(last?.state, 'completed');
  assert.is(last?.verified, false);
  assert.is(last?.sha256, sha256(MODEL));
  assert.is(harness.hub.lists.length, 0);
  isThere(harness);
});

pulls('an address with a hash of the user is compared with it', async (harness) => {
  const { last } = await harness.pull(address(harness), { sha256: sha256(MODEL).toUpperCase() });
  assert.is(last?.verified, true);
  isThere(harness);
});

pulls('a file that does not hash to what it should is deleted, and the error says so', async (harness) => {
  const { error } = await harness.pull(address(harness), { sha256: sha256(OTHER) });
  assert.is(error?.code, 'pull_failed');
  assert.ok(error?.message.includes(sha256(OTHER)) && error.message.includes(sha256(MODEL)), error?.message);
  assert.equal(harness.inFolder(), []);
  assert.is(harness.hub.downloads.length, 1);
});

pulls('a hub that lists another hash than that of its file is caught', async (harness) => {
  harness.hub.listedHash = sha256(OTHER);
  const { error } = await harness.pull('hf:user/tiny');
  assert.is(error?.code, 'pull_failed');
  assert.equal(harness.inFolder(), []);
});

pulls('a hash of the user that the hub contradicts ends the pull before anything is fetched', async (harness) => {
  const { error } = await harness.pull('hf:user/tiny', { sha256: sha256(OTHER) });
  assert.is(error?.code, 'pull_failed');
  assert.is(harness.hub.downloads.length, 0);
});

pulls('connections that break again and again cost little: each attempt goes on where the one before stopped', async (harness) => {
  const { pull, hub, facts, config } = harness;
  const large = makeModel(4096);
  hub.files.set(FILE, large);
  const breaks = config.limits.pull_failures + 3;
  for (let time = 0; time < breaks; time += 1) hub.next.push({ cutAfter: 300_000 });
  const { last, error } = await pull('hf:user/tiny');
  assert.is(error, null);
  assert.is(last?.attempt, breaks + 1);
  isThere(harness, large);
  const ranges = hub.downloads.map(({ headers }) => Number(/^bytes=(\d+)-$/.exec(headers.range ?? '')?.[1] ?? 0));
  const offsets = (await facts()).filter(({ type }) => type === 'pull.resolved').map(({ data }) => data.offset_bytes);
  assert.equal(offsets, ranges);
  for (const [index, from] of ranges.entries()) assert.ok(index === 0 || from > (ranges[index - 1] ?? 0), String(ranges));
  assert.ok(hub.sent - large.length <= breaks * ONE_READ, `${hub.sent - large.length} bytes came twice`);
});

pulls('attempts that get no further are bounded; then the pull fails and the bytes stay', async (harness) => {
  const { pull, hub, inFolder, config } = harness;
  hub.next.push({ cutAfter: CUT });
  hub.usual = { status: 503 };
  const { error } = await pull('hf:user/tiny');
  assert.is(error?.code, 'pull_failed');
  assert.is(hub.downloads.length, config.limits.pull_failures);
  assert.equal(inFolder(), [`${FILE}.partial`, `${FILE}.partial.json`]);
});

pulls('a second command goes on from what a failed one left', async (harness) => {
  const { pull, hub, sizeOf } = harness;
  hub.next.push({ hangAfter: CUT });
  const stop = new AbortController();
  const first = pull('hf:user/tiny', { signal: stop.signal });
  await harness.fetched(FILE, CUT);
  stop.abort();
  await first;
  await waitFor('the work has stopped', () => hub.sockets.size === 0 || undefined);
  const kept = sizeOf(`${FILE}.partial`);
  assert.is(kept, CUT);
  const { last } = await pull('hf:user/tiny');
  assert.is(last?.offset_bytes, CUT);
  assert.is(hub.sent, MODEL.length);
  isThere(harness);
});

pulls('a server that knows no ranges sends the file again from its start, and the two are not mixed', async (harness) => {
  const { pull, hub } = harness;
  hub.next.push({ cutAfter: CUT }, { noRanges: true });
  const { last } = await pull(address(harness));
  assert.is(last?.state, 'completed');
  isThere(harness);
  assert.equal(
    hub.downloads.map(({ status }) => status),
    [200, 200],
  );
});

pulls('a file that changed between two attempts is fetched from its start', async (harness) => {
  const { pull, hub } = harness;
  hub.next.push({ cutAfter: CUT });
  const { last } = await pull(address(harness), { onRecord: ({ state }) => state === 'backoff' && hub.files.set(FILE, OTHER) });
  assert.is(last?.state, 'completed');
  assert.ok(hub.downloads[1]?.headers['if-range']);
  isThere(harness, OTHER);
});

pulls('a file that changed on the hub is known by its hash, and fetched from its start', async (harness) => {
  const { pull, hub } = harness;
  hub.next.push({ cutAfter: CUT });
  await pull('hf:user/tiny', { onRecord: ({ state }) => state === 'backoff' && hub.files.set(FILE, OTHER) });
  assert.is(hub.downloads[1]?.headers.range, undefined);
  isThere(harness, OTHER);
});

pulls('a server that answers with another range than it was asked for is asked for the whole file', async (harness) => {
  const { pull, hub } = harness;
  hub.next.push({ cutAfter: CUT }, { rangeFrom: 4 });
  const { last } = await pull(address(harness));
  assert.is(last?.state, 'completed');
  assert.is(hub.downloads[2]?.headers.range, undefined);
  isThere(harness);
});

pulls('a server that ignores the condition and sends a range of a changed file is asked for the whole file', async (harness) => {
  const { pull, hub } = harness;
  hub.next.push({ cutAfter: CUT }, { bytes: OTHER, headers: { etag: '"another"' }, etag: `"${sha256(MODEL).slice(0, 16)}"` });
  hub.usual = { bytes: OTHER };
  await pull(address(harness));
  assert.is(hub.downloads[1]?.status, 206);
  isThere(harness, OTHER);
});

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

test('the token goes to the hub and to nobody else, wherever it redirects to', async () => {
  const elsewhere = await Hub.start({ [FILE]: MODEL });
  const harness = await bootPulls({ [FILE]: MODEL }, { env: { HF_TOKEN: 'hf_secret_1234' } });
  harness.hub.usual = { redirect: `${elsewhere.url}/${FILE}` };
  const { last } = await harness.pull('hf:user/tiny');
  assert.is(last?.state, 'completed');
  assert.is(last?.revision, harness.hub.commit);
  for (const { headers } of harness.hub.asked) assert.is(headers.authorization, 'Bearer hf_secret_1234');
  assert.is(elsewhere.downloads.length, 1);
  for (const { headers } of elsewhere.asked) assert.is(headers.authorization, undefined);
  assert.not.ok(JSON.stringify(await harness.facts()).includes('hf_secret'));
  await harness.close();
  await elsewhere.stop();
});

test('an address elsewhere gets no token, not even when it redirects to the hub', async () => {
  const elsewhere = await Hub.start({ [FILE]: MODEL });
  const harness = await bootPulls({ [FILE]: MODEL }, { env: { HF_TOKEN: 'hf_secret_1234' } });
  elsewhere.usual = { redirect: `${harness.hub.url}/user/tiny/resolve/main/${FILE}` };
  await harness.pull(`${elsewhere.url}/${FILE}`);
  for (const { headers } of [...elsewhere.asked, ...harness.hub.asked]) assert.is(headers.authorization, undefined);
  isThere(harness);
  await harness.close();
  await elsewhere.stop();
});

test('after a break the redirect is asked for anew, since the address it leads to may have run out', async () => {
  const elsewhere = await Hub.start({ [FILE]: MODEL });
  elsewhere.next.push({ cutAfter: CUT }, { status: 403 });
  const harness = await bootPulls({ [FILE]: MODEL });
  harness.hub.usual = { redirect: `${elsewhere.url}/${FILE}` };
  const { last } = await harness.pull('hf:user/tiny');
  assert.is(last?.state, 'completed');
  assert.is(harness.hub.downloads.length, 3);
  isThere(harness);
  await harness.close();
  await elsewhere.stop();
});

for (const [what, redirect] of [
  ['in the clear to another machine', 'http://192.0.2.1/tiny.gguf'],
  ['to a file of this machine', 'file:///etc/passwd'],
  ['to an address with a password', 'https://user:secret@example.org/tiny.gguf'],
  ['to nowhere', 'http://'],
] as const) {
  pulls(`a redirect ${what} is not followed`, async ({ pull, hub, inFolder }) => {
    hub.usual = { redirect };
    const { error } = await pull('hf:user/tiny');
    assert.is(error?.code, 'pull_failed');
    assert.ok(error?.message.includes('redirects'), error?.message);
    assert.not.ok(error?.message.includes('secret'));
    assert.equal(inFolder(), []);
  });
}

pulls('redirects are bounded', async ({ pull, hub, config }) => {
  hub.usual = { redirect: '/again.gguf' };
  const { error } = await pull('hf:user/tiny');
  assert.is(error?.code, 'pull_failed');
  assert.is(hub.downloads.length, config.limits.pull_redirects + 1);
});

pulls('silence in the middle of a file ends the attempt, its connection too, and the next one goes on', async (harness) => {
  const { pull, hub, clock, config } = harness;
  hub.next.push({ hangAfter: CUT });
  const pulling = pull('hf:user/tiny');
  await harness.fetched(FILE, CUT);
  clock.advance(config.limits.pull_idle_ms + 1);
  const { records, last } = await pulling;
  assert.ok(records.some(({ state, error }) => state === 'backoff' && error?.message.includes('stopped sending')));
  assert.is(last?.state, 'completed');
  assert.is(hub.sent, MODEL.length);
  isThere(harness);
});

pulls('silence instead of an answer ends the attempt, and a hub that stays silent ends the pull', async ({ pull, hub, clock, config }) => {
  for (let time = 0; time < 20; time += 1) hub.nextLists.push({ silent: true });
  const pulling = pull('hf:user/tiny');
  for (let time = 1; time <= config.limits.pull_failures; time += 1) {
    await waitFor(`the hub was asked ${time} times`, () => hub.lists.length === time);
    clock.advance(config.limits.pull_idle_ms + 1);
  }
  const { error } = await pulling;
  assert.is(error?.code, 'pull_failed');
  assert.is(hub.lists.length, config.limits.pull_failures);
  await waitFor('no connection is left open', () => hub.sockets.size === 0);
});

const refusals = [
  { name: 'a repository that is not there', list: { status: 404 }, code: 'model_unknown', asked: 1 },
  { name: 'a repository that the hub hides', list: { status: 401, headers: { 'x-error-code': 'RepoNotFound' } }, code: 'model_unknown', asked: 1 },
  { name: 'a repository whose terms nobody accepted', list: { status: 403, headers: { 'x-error-code': 'GatedRepo' } }, code: 'pull_refused', asked: 1 },
  { name: 'a hub that refuses the token', list: { status: 401 }, code: 'pull_refused', asked: 1 },
  { name: 'a hub that is too busy, each time', list: { status: 429 }, code: 'pull_failed', asked: 5 },
  { name: 'a hub that is broken, each time', list: { status: 500 }, code: 'pull_failed', asked: 5 },
  { name: 'a hub that answers with a page', list: { body: '<html>hello</html>' }, code: 'pull_failed', asked: 1 },
  { name: 'a hub that answers with something else', list: { body: '{"error":"no"}' }, code: 'pull_failed', asked: 1 },
  { name: 'a list without an end', list: { body: `[${' '.repeat(100_000)}` }, code: 'pull_failed', asked: 1 },
] as const;

for (const { name, list, code, asked } of refusals) {
  pulls(
    `${name}: ${code}`,
    async ({ pull, hub, inFolder }) => {
      for (let time = 0; time < 10; time += 1) hub.nextLists.push(list);
      const { error } = await pull('hf:user/tiny');
      assert.is(error?.code, code);
      assert.is(hub.lists.length, asked);
      assert.is(hub.downloads.length, 0);
      assert.equal(inFolder(), []);
    },
    { limits: { pull_list_bytes: 65_536 } },
  );
}

pulls('the wait that a busy hub asks for is kept to', async ({ pull, hub, facts }) => {
  hub.next.push({ status: 429, headers: { 'retry-after': '17' } });
  const { last } = await pull('hf:user/tiny');
  assert.is(last?.state, 'completed');
  const failed = (await facts()).find(({ type }) => type === 'pull.attempt_failed');
  assert.is(Number(failed?.data.retry_at) - Number(failed?.at), 17_000);
});

pulls('an address where nothing is: model_unknown; one that needs a key: pull_refused', async ({ pull, hub }) => {
  assert.is((await pull(`${hub.url}/nothing.gguf`)).error?.code, 'model_unknown');
  hub.next.push({ status: 403 });
  assert.is((await pull(`${hub.url}/${FILE}`)).error?.code, 'pull_refused');
});

pulls('a server that says a longer length than it sends is asked for the rest, and not believed for ever', async (harness) => {
  const { pull, hub } = harness;
  hub.usual = { claimedLength: MODEL.length + 1000, noRanges: true };
  const { error } = await pull(address(harness));
  assert.is(error?.code, 'pull_failed');
  assert.ok(!harness.inFolder().includes(FILE));
});

pulls('a file of another size than the hub lists is not read', async ({ pull, hub, inFolder }) => {
  hub.usual = { bytes: makeModel(600) };
  const { error } = await pull('hf:user/tiny');
  assert.is(error?.code, 'pull_failed');
  assert.match(error?.message ?? '', /bytes where/);
  assert.equal(inFolder(), []);
});

pulls('a file that goes on beyond its size is cut off and deleted', async ({ pull, hub, inFolder }) => {
  hub.usual = { bytes: makeModel(600), chunked: true };
  const { error } = await pull('hf:user/tiny');
  assert.is(error?.code, 'pull_failed');
  assert.match(error?.message ?? '', /more than/);
  assert.equal(inFolder(), []);
});

pulls('a web page in place of a model is not fetched', async (harness) => {
  harness.hub.usual = { headers: { 'content-type': 'text/html; charset=utf-8' } };
  const { error } = await harness.pull(address(harness));
  assert.is(error?.code, 'pull_failed');
  assert.match(error?.message ?? '', /web page/);
  assert.equal(harness.inFolder(), []);
});

pulls('a file that begins with anything but GGUF is given up at its first bytes', async (harness) => {
  harness.hub.usual = { bytes: Buffer.alloc(64 * 1024 * 1024, 'PK') };
  const { error } = await harness.pull(address(harness));
  assert.is(error?.code, 'model_invalid');
  assert.equal(harness.inFolder(), []);
  await waitFor('the connection was closed', () => harness.hub.sockets.size === 0);
  assert.ok(harness.hub.sent < 32 * 1024 * 1024, `${harness.hub.sent} bytes were sent`);
});

pulls('a compressed answer is not taken', async (harness) => {
  harness.hub.usual = { headers: { 'content-encoding': 'gzip' } };
  const { error } = await harness.pull(address(harness));
  assert.match(error?.message ?? '', /compressed/);
  assert.equal(harness.inFolder(), []);
});

pulls('a file of unknown size and hash that was cut short is not taken for a model', async (harness) => {
  harness.hub.usual = { bytes: MODEL.subarray(0, MODEL.length - 1), chunked: true };
  const { error } = await harness.pull(address(harness));
  assert.is(error?.code, 'model_invalid');
  assert.equal(harness.inFolder(), []);
});

for (const path of ['../../evil.gguf', 'a/../../evil.gguf', '..\\..\\evil.gguf', '/etc/evil.gguf', '.hidden.gguf', 'sub/-rf.gguf', 'new\nline.gguf']) {
  test(`a file that the hub names ${JSON.stringify(path)} stays in the models folder`, async () => {
    const harness = await bootPulls({ [path]: MODEL });
    harness.hub.usual = { bytes: MODEL };
    const { last, error } = await harness.pull('hf:user/tiny');
    assert.is(error, null);
    assert.match(last?.model?.name ?? '', /^[A-Za-z0-9][\w.-]*$/);
    assert.is(harness.inFolder().length, 1);
    await harness.close();
  });
}

pulls('an address whose path leads upwards stays in the models folder', async (harness) => {
  harness.hub.usual = { bytes: MODEL };
  const { last } = await harness.pull(`${harness.hub.url}/a/..%2f..%2fevil.gguf`);
  assert.is(last?.model?.name, 'evil');
  isThere(harness, MODEL, 'evil.gguf');
});

pulls('the name that is asked for is the name it gets', async (harness) => {
  const { last } = await harness.pull('hf:user/tiny', { name: 'mine.gguf' });
  assert.is(last?.model?.id, 'local/mine');
  isThere(harness, MODEL, 'mine.gguf');
});

pulls(
  'a disk without room for the model ends the pull before it begins',
  async ({ pull, hub, inFolder }) => {
    const { error } = await pull('hf:user/tiny');
    assert.is(error?.code, 'pull_failed');
    assert.match(error?.message ?? '', /free/);
    assert.is(hub.sent < MODEL.length || inFolder().length === 0, true);
    assert.equal(inFolder(), []);
  },
  { puller: { freeBytes: async () => MODEL.length + 999 }, limits: { pull_spare_bytes: 1000 } },
);

test('a disk that fills while the model comes ends the pull and leaves the daemon its share', async () => {
  let free = 1e9;
  const harness = await bootPulls({ [FILE]: MODEL }, { puller: { freeBytes: async () => free }, limits: { pull_spare_bytes: 1000, pull_progress_ms: 0 } });
  const { error } = await harness.pull('hf:user/tiny', { onRecord: ({ state }) => state === 'downloading' && void (free = 500) });
  assert.is(error?.code, 'pull_failed');
  assert.match(error?.message ?? '', /nearly full/);
  await harness.close();
});

pulls('cancelled, it is over when the work has stopped; what was fetched stays and is gone on with', async (harness) => {
  const { pull, hub, runtime, facts, sizeOf } = harness;
  hub.next.push({ hangAfter: CUT });
  let id = '';
  const first = pull('hf:user/tiny', { onRecord: (record) => void (id = record.id) });
  await harness.fetched(FILE, CUT);
  assert.equal(await runtime.cancelPull(id, 'test'), { cancelled: true });
  assert.is((await facts()).at(-1)?.type, 'pull.cancelled');
  assert.equal((await facts()).at(-1)?.data, { forced: false });
  assert.is((await first).error?.code, 'pull_cancelled');
  assert.is(sizeOf(`${FILE}.partial`), CUT);
  assert.equal(await runtime.cancelPull(id, 'test'), { cancelled: true });
  const { last } = await pull('hf:user/tiny');
  assert.is(last?.offset_bytes, CUT);
  assert.is(hub.sent, MODEL.length);
  isThere(harness);
});

pulls('while it waits for its next attempt it can be cancelled', async ({ runtime, hub, inFolder, facts }) => {
  hub.usual = { status: 503 };
  const signal = new AbortController().signal;
  const codes: string[] = [];
  try {
    for await (const record of runtime.pullModel({ reference: 'hf:user/tiny', name: null, sha256: null }, { client: 'test', signal })) {
      if (record.state === 'backoff') await runtime.cancelPull(record.id, 'test');
    }
  } catch (error) {
    codes.push((error as { code: string }).code);
  }
  assert.equal(codes, ['pull_cancelled']);
  assert.equal(inFolder(), []);
  assert.is((await facts()).at(-1)?.type, 'pull.cancelled');
});

pulls('two who ask for the same wait for one pull, and it goes on when one of them leaves', async (harness) => {
  const { pull, hub, runtime } = harness;
  hub.next.push({ hangAfter: CUT });
  const leave = new AbortController();
  const ids = new Set<string>();
  const seen = (record: { id: string }) => void ids.add(record.id);
  const first = pull('hf:user/tiny', { signal: leave.signal, onRecord: seen });
  await harness.fetched(FILE, CUT);
  const second = pull('hf:user/tiny', { onRecord: seen });
  await waitFor('the second waits too', () => ids.size === 1);
  const [id = ''] = ids;
  await waitFor('both count', async () => !(await runtime.cancelPull(id, 'test')).cancelled);
  leave.abort();
  await first;
  harness.clock.advance(harness.config.limits.pull_idle_ms + 1);
  const { last, error } = await second;
  assert.is(error, null);
  assert.is(last?.model?.id, 'local/tiny-Q4_K_M');
  assert.is(ids.size, 1);
  assert.is(hub.sent, MODEL.length);
  isThere(harness);
});

pulls('two models are fetched at one time, and a third is refused as busy', async (harness) => {
  const { pull, hub, inFolder } = harness;
  hub.files.set('b.gguf', OTHER);
  hub.files.set('c.gguf', OTHER);
  hub.next.push({ hangAfter: CUT }, { hangAfter: CUT });
  const both = [pull(`${hub.url}/${FILE}`), pull(`${hub.url}/b.gguf`)];
  await harness.fetched(FILE, CUT);
  await harness.fetched('b.gguf', CUT);
  assert.is((await pull(`${hub.url}/c.gguf`)).error?.code, 'busy');
  harness.clock.advance(harness.config.limits.pull_idle_ms + 1);
  const ends = await Promise.all(both);
  assert.equal(
    ends.map(({ last }) => last?.state),
    ['completed', 'completed'],
  );
  assert.equal(inFolder(), ['b.gguf', FILE]);
  assert.is((await pull(`${hub.url}/c.gguf`)).last?.state, 'completed');
});

pulls('two references that come to the same file do not write it at one time', async (harness) => {
  const { pull, hub } = harness;
  hub.next.push({ hangAfter: CUT });
  const first = pull('hf:user/tiny');
  await harness.fetched(FILE, CUT);
  const { error } = await pull('hf:user/tiny:Q4_K_M');
  assert.is(error?.code, 'busy');
  harness.clock.advance(harness.config.limits.pull_idle_ms + 1);
  assert.is((await first).last?.state, 'completed');
  isThere(harness);
});

pulls('a model that is there and is the same is not fetched again', async (harness) => {
  const { pull, hub } = harness;
  await pull('hf:user/tiny');
  const { last } = await pull('hf:user/tiny');
  assert.is(last?.existing, true);
  assert.is(last?.verified, true);
  assert.is(last?.model?.id, 'local/tiny-Q4_K_M');
  assert.is(hub.downloads.length, 1);
});

pulls('another model of the same name is not overwritten', async (harness) => {
  const { pull, hub, path } = harness;
  writeFileSync(path(FILE), OTHER);
  assert.is((await pull('hf:user/tiny')).error?.code, 'model_exists');
  assert.is((await pull(address(harness))).error?.code, 'model_exists');
  assert.is(hub.sent, 0);
  isThere(harness, OTHER);
});

for (const [what, spoil] of [
  ['a sidecar that cannot be read', ({ path }: PullHarness) => writeFileSync(path(`${FILE}.partial.json`), '{"url":')],
  ['a sidecar of another form', ({ path }: PullHarness) => writeFileSync(path(`${FILE}.partial.json`), '{"url":1,"synced_bytes":-1}')],
  ['more bytes than the file has', ({ path }: PullHarness) => writeFileSync(path(`${FILE}.partial`), Buffer.alloc(MODEL.length + 1))],
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

test('after a power cut the pull goes on from what was surely on disk', async () => {
  const limits = { pull_sync_bytes: 65_536 };
  const harness = await bootPulls({ [FILE]: MODEL }, { limits, puller: { host_boot_id: 'before' } });
  harness.hub.next.push({ cutAfter: CUT });
  harness.hub.usual = { status: 503 };
  await harness.pull('hf:user/tiny');
  const { synced_bytes } = JSON.parse(readFileSync(harness.path(`${FILE}.partial.json`), 'utf8')) as { synced_bytes: number };
  assert.ok(synced_bytes >= 65_536 && synced_bytes < CUT, String(synced_bytes));
  const kept = readFileSync(harness.path(`${FILE}.partial`));
  writeFileSync(harness.path(`${FILE}.partial`), Buffer.concat([kept.subarray(0, synced_bytes), Buffer.alloc(kept.length - synced_bytes)]));
  const sidecar = readFileSync(harness.path(`${FILE}.partial.json`));
  const later = await bootPulls({ [FILE]: MODEL }, { limits, puller: { host_boot_id: 'after' } });
  writeFileSync(later.path(`${FILE}.partial`), readFileSync(harness.path(`${FILE}.partial`)));
  writeFileSync(later.path(`${FILE}.partial.json`), sidecar);
  const { last } = await later.pull('hf:user/tiny');
  assert.is(last?.offset_bytes, synced_bytes);
  isThere(later);
  await harness.close();
  await later.close();
});

pulls('when the daemon stops, pulls stop with it, and say that they can be gone on with', async (harness) => {
  const { pull, hub, pulls: all, sizeOf } = harness;
  hub.next.push({ hangAfter: CUT });
  const pulling = pull('hf:user/tiny');
  await harness.fetched(FILE, CUT);
  await all.close();
  assert.is((await pulling).error?.code, 'daemon_stopping');
  assert.is(sizeOf(`${FILE}.partial`), CUT);
});

pulls('what follows a question mark is in no fact and no record', async (harness) => {
  const { last } = await harness.pull(`${address(harness)}?signature=topsecret`);
  assert.is(last?.state, 'completed');
  assert.not.ok(JSON.stringify([await harness.facts(), last]).includes('topsecret'));
});

pulls('a list of many pages is read to its end', async (harness) => {
  harness.hub.pageSize = 1;
  for (const name of ['a-Q8_0.gguf', 'b-Q2_K.gguf', 'README.md']) harness.hub.files.set(name, OTHER);
  const { last } = await harness.pull('hf:user/tiny');
  assert.is(last?.file, FILE);
  assert.equal(last?.choices, ['a-Q8_0.gguf', 'b-Q2_K.gguf']);
  assert.is(harness.hub.lists.length, 4);
});

test.run();
