import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { address, FILE, isThere, MODEL, makeModel, OTHER, pulls } from '../../helpers/pulls.ts';
import { waitFor } from '../../helpers/wait.ts';

/** Hubs and servers that refuse, lie, lead elsewhere or send something else. */

const withToken = { env: { HF_TOKEN: 'hf_secret_1234' } };

pulls(
  'the token goes to the hub and to nobody else, wherever it redirects to',
  async ({ pull, hub, elsewhere, events }) => {
    const other = await elsewhere();
    hub.usual = { redirect: `${other.url}/${FILE}` };
    const { last } = await pull('hf:user/tiny');
    assert.is(last?.state, 'completed');
    assert.is(last?.revision, hub.commit);
    for (const { headers } of hub.asked) assert.is(headers.authorization, 'Bearer hf_secret_1234');
    assert.is(other.downloads.length, 1);
    for (const { headers } of other.asked) assert.is(headers.authorization, undefined);
    assert.not.ok(JSON.stringify(await events()).includes('hf_secret'));
  },
  withToken,
);

pulls(
  'an address elsewhere gets no token, not even when it redirects to the hub',
  async (harness) => {
    const { pull, hub, elsewhere } = harness;
    const other = await elsewhere();
    other.usual = { redirect: `${hub.url}/user/tiny/resolve/main/${FILE}` };
    await pull(`${other.url}/${FILE}`);
    assert.ok(hub.downloads.length > 0);
    for (const { headers } of [...other.asked, ...hub.asked])
      assert.is(headers.authorization, undefined);
    isThere(harness);
  },
  withToken,
);

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

const refusals = [
  {
    name: 'a repository that is not there',
    list: { status: 404 },
    code: 'model_unknown',
    asked: 1,
  },
  {
    name: 'a repository that the hub hides',
    list: { status: 401, headers: { 'x-error-code': 'RepoNotFound' } },
    code: 'model_unknown',
    asked: 1,
  },
  {
    name: 'a repository whose terms nobody accepted',
    list: { status: 403, headers: { 'x-error-code': 'GatedRepo' } },
    code: 'pull_refused',
    asked: 1,
  },
  { name: 'a hub that refuses the token', list: { status: 401 }, code: 'pull_refused', asked: 1 },
  {
    name: 'a hub that is too busy, each time',
    list: { status: 429 },
    code: 'pull_failed',
    asked: 5,
  },
  { name: 'a hub that is broken, each time', list: { status: 500 }, code: 'pull_failed', asked: 5 },
  {
    name: 'a hub that answers with a page',
    list: { body: '<html>hello</html>' },
    code: 'pull_failed',
    asked: 1,
  },
  {
    name: 'a hub that answers with something else',
    list: { body: '{"error":"no"}' },
    code: 'pull_failed',
    asked: 1,
  },
  {
    name: 'a list without an end',
    list: { body: `[${' '.repeat(100_000)}` },
    code: 'pull_failed',
    asked: 1,
  },
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

pulls('the wait that a busy hub asks for is kept to', async ({ pull, hub, events }) => {
  hub.next.push({ status: 429, headers: { 'retry-after': '17' } });
  const { last } = await pull('hf:user/tiny');
  assert.is(last?.state, 'completed');
  const failed = (await events()).find(({ type }) => type === 'pull.attempt_failed');
  assert.is(Number(failed?.data.retry_at) - Number(failed?.at), 17_000);
});

pulls(
  'an address where nothing is: model_unknown; one that needs a key: pull_refused',
  async ({ pull, hub }) => {
    assert.is((await pull(`${hub.url}/nothing.gguf`)).error?.code, 'model_unknown');
    hub.next.push({ status: 403 });
    assert.is((await pull(`${hub.url}/${FILE}`)).error?.code, 'pull_refused');
  },
);

pulls(
  'a server that says a longer length than it sends is asked for the rest, and not believed for ever',
  async (harness) => {
    const { pull, hub } = harness;
    hub.usual = { claimedLength: MODEL.length + 1000, noRanges: true };
    const { error } = await pull(address(harness));
    assert.is(error?.code, 'pull_failed');
    assert.ok(!harness.inFolder().includes(FILE));
  },
);

pulls('a file of another size than the hub lists is not read', async ({ pull, hub, inFolder }) => {
  hub.usual = { bytes: makeModel(600) };
  const { error } = await pull('hf:user/tiny');
  assert.is(error?.code, 'pull_failed');
  assert.match(error?.message ?? '', /bytes instead of/);
  assert.equal(inFolder(), []);
});

pulls(
  'a file that goes on beyond its size is cut off and deleted',
  async ({ pull, hub, inFolder }) => {
    hub.usual = { bytes: makeModel(600), chunked: true };
    const { error } = await pull('hf:user/tiny');
    assert.is(error?.code, 'pull_failed');
    assert.match(error?.message ?? '', /more than/);
    assert.equal(inFolder(), []);
  },
);

pulls('a web page in place of a model is not fetched', async (harness) => {
  harness.hub.usual = { headers: { 'content-type': 'text/html; charset=utf-8' } };
  const { error } = await harness.pull(address(harness));
  assert.is(error?.code, 'pull_failed');
  assert.match(error?.message ?? '', /web page/);
  assert.equal(harness.inFolder(), []);
});

pulls(
  'a file that begins with anything but GGUF is given up at its first bytes',
  async (harness) => {
    harness.hub.usual = { bytes: Buffer.alloc(64 * 1024 * 1024, 'PK') };
    const { error } = await harness.pull(address(harness));
    assert.is(error?.code, 'model_invalid');
    assert.equal(harness.inFolder(), []);
    await waitFor('the connection was closed', () => harness.hub.open.size === 0);
    assert.ok(harness.hub.sent < 32 * 1024 * 1024, `${harness.hub.sent} bytes were sent`);
  },
);

pulls('a compressed answer is not taken', async (harness) => {
  harness.hub.usual = { headers: { 'content-encoding': 'gzip' } };
  const { error } = await harness.pull(address(harness));
  assert.match(error?.message ?? '', /compressed/);
  assert.equal(harness.inFolder(), []);
});

pulls(
  'a file of unknown size and hash that was cut short is not taken for a model',
  async (harness) => {
    harness.hub.usual = { bytes: MODEL.subarray(0, MODEL.length - 1), chunked: true };
    const { error } = await harness.pull(address(harness));
    assert.is(error?.code, 'model_invalid');
    assert.equal(harness.inFolder(), []);
  },
);

pulls('a list of many pages is read to its end', async (harness) => {
  harness.hub.pageSize = 1;
  for (const name of ['a-Q8_0.gguf', 'b-Q2_K.gguf', 'README.md'])
    harness.hub.files.set(name, OTHER);
  const { last } = await harness.pull('hf:user/tiny');
  assert.is(last?.file, FILE);
  assert.equal(last?.choices, ['a-Q8_0.gguf', 'b-Q2_K.gguf']);
  assert.is(harness.hub.lists.length, 4);
});

pulls(
  'a list whose pages do not end fails by name',
  async (harness) => {
    harness.hub.pageSize = 1;
    for (const name of ['a-Q8_0.gguf', 'b-Q2_K.gguf']) harness.hub.files.set(name, OTHER);
    const { error } = await harness.pull('hf:user/tiny');
    const { host } = new URL(harness.hub.url);
    assert.is(error?.message, `The list that ${host} sends has more than 2 pages.`);
    assert.is(harness.hub.lists.length, 2);
  },
  { limits: { pull_list_pages: 2 } },
);

pulls(
  'a list of very many files is read like any other',
  async (harness) => {
    const list = (length: number) =>
      `[${Array.from({ length }, (_, index) => `{"type":"file","path":"${index}","size":1}`).join(',')}]`;
    harness.hub.nextLists.push({ body: list(62_000) }, { body: list(63_000) });
    assert.is((await harness.pull('hf:user/tiny')).error?.code, 'model_unknown');
    const { error } = await harness.pull('hf:user/tiny');
    assert.is(
      error?.message,
      `The list that ${new URL(harness.hub.url).host} sends has more than 250000 values.`,
    );
  },
  { limits: { pull_list_bytes: 32 * 1024 * 1024 } },
);

test.run();
