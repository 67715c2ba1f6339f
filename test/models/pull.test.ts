import { writeFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Fit } from '../../src/contract/model-record.ts';
import { sha256 } from '../helpers/hub.ts';
import { address, FILE, isThere, MODEL, OTHER, pulls } from '../helpers/pulls.ts';

/** A model that is fetched: verified, named, and in its place. */

pulls(
  'a model of the hub is fetched whole, verified by its hash, and put in its place under its own name',
  async (harness) => {
    const { pull, hub, events } = harness;
    const { last, error } = await pull('hf:user/tiny');
    assert.is(error, null);
    assert.is(last?.model?.id, 'local/tiny-Q4_K_M');
    assert.is(last?.verified, true);
    assert.is(last?.revision, hub.commit);
    assert.is(last?.sha256, sha256(MODEL));
    isThere(harness);
    assert.is(hub.sent, MODEL.length);
    const types = (await events())
      .map(({ type }) => type)
      .filter((type) => type !== 'pull.progressed' && type !== 'pull.hashed');
    assert.equal(types, [
      'pull.requested',
      'pull.resolved',
      'pull.downloaded',
      'pull.verified',
      'pull.completed',
    ]);
  },
);

pulls(
  'an address whose file nobody knows the hash of is fetched, and the record says that it was not compared',
  async (harness) => {
    const { last } = await harness.pull(address(harness));
    assert.is(last?.state, 'completed');
    assert.is(last?.verified, false);
    assert.is(last?.sha256, sha256(MODEL));
    assert.is(harness.hub.lists.length, 0);
    isThere(harness);
  },
);

pulls('an address with a hash of the user is compared with it', async (harness) => {
  const { last } = await harness.pull(address(harness), { sha256: sha256(MODEL).toUpperCase() });
  assert.is(last?.verified, true);
  isThere(harness);
});

pulls(
  'a file that does not hash to what it should is deleted, and the error says so',
  async (harness) => {
    const { error } = await harness.pull(address(harness), { sha256: sha256(OTHER) });
    assert.is(error?.code, 'pull_failed');
    assert.ok(
      error?.message.includes(sha256(OTHER)) && error.message.includes(sha256(MODEL)),
      error?.message,
    );
    assert.equal(harness.inFolder(), []);
    assert.is(harness.hub.downloads.length, 1);
  },
);

pulls('a hub that lists another hash than that of its file is caught', async (harness) => {
  harness.hub.listedHash = sha256(OTHER);
  const { error } = await harness.pull('hf:user/tiny');
  assert.is(error?.code, 'pull_failed');
  assert.equal(harness.inFolder(), []);
});

pulls(
  'a hash of the user that the hub contradicts ends the pull before anything is fetched',
  async (harness) => {
    const { error } = await harness.pull('hf:user/tiny', { sha256: sha256(OTHER) });
    assert.is(error?.code, 'pull_failed');
    assert.is(harness.hub.downloads.length, 0);
  },
);

for (const path of [
  '../../evil.gguf',
  'a/../../evil.gguf',
  '..\\..\\evil.gguf',
  '/etc/evil.gguf',
  '.hidden.gguf',
  'sub/-rf.gguf',
  'new\nline.gguf',
]) {
  pulls(
    `a file that the hub names ${JSON.stringify(path)} stays in the models folder`,
    async ({ pull, hub, inFolder }) => {
      hub.files.clear();
      hub.files.set(path, MODEL);
      hub.usual = { bytes: MODEL };
      const { last, error } = await pull('hf:user/tiny');
      assert.is(error, null);
      assert.match(last?.model?.name ?? '', /^[A-Za-z0-9][\w.-]*$/);
      assert.is(inFolder().length, 1);
    },
  );
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

const disk = { free: 1e9 };

pulls(
  'a disk that fills while the model comes ends the pull and leaves the daemon its share',
  async ({ pull }) => {
    const { error } = await pull('hf:user/tiny', {
      onRecord: ({ state }) => {
        if (state === 'downloading') disk.free = 500;
      },
    });
    assert.is(error?.code, 'pull_failed');
    assert.match(error?.message ?? '', /nearly full/);
  },
  {
    puller: { freeBytes: async () => disk.free },
    limits: { pull_spare_bytes: 1000, pull_progress_ms: 0 },
  },
);

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

pulls('a file of another size is refused before it is read', async (harness) => {
  const { pull, path, events } = harness;
  for (const other of [MODEL.subarray(1), Buffer.concat([MODEL, Buffer.alloc(1)])]) {
    writeFileSync(path(FILE), other);
    assert.is((await pull('hf:user/tiny')).error?.code, 'model_exists');
    isThere(harness, other);
  }
  const types = new Set((await events()).map(({ type }) => type));
  assert.equal([...types], ['pull.requested', 'pull.failed']);
});

pulls('what follows a question mark is in no event and no record', async (harness) => {
  const { last } = await harness.pull(`${address(harness)}?signature=topsecret`);
  assert.is(last?.state, 'completed');
  assert.not.ok(JSON.stringify([await harness.events(), last]).includes('topsecret'));
});

pulls(
  'a model that does not fit the memory is refused before a byte of it is kept, or wanted anyway',
  async (harness) => {
    for (const reference of ['hf:user/tiny', address(harness)]) {
      const { error } = await harness.pull(reference);
      assert.equal([error?.code, error?.retryable], ['model_too_large', false]);
      assert.match(error?.message ?? '', 'it does not fit');
      assert.match(error?.hint ?? '', `svc model pull ${reference} --anyway`);
      assert.equal(harness.inFolder(), []);
    }
    const { records, last } = await harness.pull('hf:user/tiny', { anyway: true });
    assert.is(last?.state, 'completed');
    const shown = records.find(({ state }) => state === 'downloading');
    assert.is(shown?.fit?.verdict, 'does not fit');
    isThere(harness);
  },
  { puller: { fit: () => NO_FIT } },
);

const NO_FIT: Fit = {
  verdict: 'does not fit',
  needs_bytes: 2e9,
  budget_bytes: 1e9,
  free_bytes: 1e9,
  estimated: true,
  gpu: null,
  text: 'It needs about 1.9 GiB of memory: it does not fit.',
};

test.run();
