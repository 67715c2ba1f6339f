import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { sha256 } from '../helpers/hub.ts';
import { bootPulls, makeModel, type PullHarness } from '../helpers/pulls.ts';

const MODEL = makeModel(512);
const FILE = 'tiny-Q4_K_M.gguf';

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

const place = ({ hub }: PullHarness) => `${hub.url}/files/${FILE}`;

pulls('a model of the hub is fetched whole, verified by its hash, and put in its place under its own name', async (harness) => {
  const { pull, hub, inFolder, path, facts } = harness;
  const { last, error } = await pull('hf:user/tiny');
  assert.is(error, null);
  assert.is(last?.model?.id, 'local/tiny-Q4_K_M');
  assert.is(last?.verified, true);
  assert.is(last?.revision, hub.commit);
  assert.is(last?.sha256, sha256(MODEL));
  assert.equal(inFolder(), [FILE]);
  assert.ok(readFileSync(path(FILE)).equals(MODEL));
  assert.is(hub.sent, MODEL.length);
  const types = (await facts()).map(({ type }) => type).filter((type) => type !== 'pull.progressed' && type !== 'pull.hashed');
  assert.equal(types, ['pull.requested', 'pull.resolved', 'pull.downloaded', 'pull.verified', 'pull.completed']);
});

test.run();
void writeFileSync;
void place;
