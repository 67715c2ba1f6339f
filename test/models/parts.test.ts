import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeSplitGguf } from '../fixtures/models/make-gguf.ts';
import { sha256 } from '../helpers/hub.ts';
import { bootPulls, makeModel, type PullHarness } from '../helpers/pulls.ts';

/** Models in several files, and the file for images beside a model, as downloads bring them. */

const made = mkdtempSync(join(tmpdir(), 'svc-parts-'));
test.after(() => rmSync(made, { recursive: true, force: true }));
const paths = makeSplitGguf(join(made, 'big-Q4_K_M.gguf'), 3);
const PARTS = paths.map((path) => readFileSync(path));
const NAMES = paths.map((path) => basename(path));
const [FIRST, SECOND, THIRD] = NAMES as [string, string, string];
const [, MIDDLE, LAST] = PARTS as [Buffer, Buffer, Buffer];
const WHOLE = Buffer.concat(PARTS);
const IMAGES = makeModel(64, 3);
const PROJECTOR = 'big-Q4_K_M-mmproj.gguf';

const REPOSITORY = {
  ...Object.fromEntries(NAMES.map((name, index) => [`Q4_K_M/${name}`, PARTS[index] as Buffer])),
  'mmproj-big-F16.gguf': IMAGES,
};
const SERVER = Object.fromEntries(NAMES.map((name, index) => [name, PARTS[index] as Buffer]));

function pulls(
  name: string,
  files: Record<string, Buffer>,
  body: (harness: PullHarness) => Promise<void>,
  options: Parameters<typeof bootPulls>[1] = {},
): void {
  test(name, async () => {
    const harness = await bootPulls(files, options);
    try {
      await body(harness);
    } finally {
      await harness.close();
    }
  });
}

/** All parts are there with their bytes, beside nothing but `others`. */
function areThere({ inFolder, path }: PullHarness, others: string[], names = NAMES): void {
  assert.equal(inFolder(), [...names, ...others].sort());
  for (const [index, name] of names.entries())
    assert.ok(readFileSync(path(name)).equals(PARTS[index] as Buffer), name);
}

pulls(
  'all parts of a model come with its file for images, each compared with its hash',
  REPOSITORY,
  async (harness) => {
    const { last, error } = await harness.pull('hf:user/big');
    assert.is(error, null);
    areThere(harness, [PROJECTOR]);
    assert.ok(readFileSync(harness.path(PROJECTOR)).equals(IMAGES));
    assert.equal(
      [last?.file, last?.size_bytes, last?.bytes, last?.sha256, last?.verified],
      [
        'big-Q4_K_M.gguf',
        WHOLE.length + IMAGES.length,
        WHOLE.length + IMAGES.length,
        sha256(WHOLE),
        true,
      ],
    );
    assert.is(last?.model?.path, harness.path(FIRST));
    assert.is(harness.hub.sent, WHOLE.length + IMAGES.length);
    const again = await harness.pull('hf:user/big');
    assert.equal([again.last?.existing, again.last?.sha256], [true, sha256(WHOLE)]);
    assert.is(harness.hub.sent, WHOLE.length + IMAGES.length);
  },
);

pulls(
  'a download that was cut in a part goes on in that part',
  REPOSITORY,
  async (harness) => {
    const { hub, pull, fetched } = harness;
    hub.next.push({}, { cutAfter: 1000 });
    hub.beforeCut = () => fetched(SECOND, 1000);
    assert.is((await pull('hf:user/big')).error?.code, 'pull_failed');
    assert.equal(
      harness.inFolder().filter((name) => name.endsWith('.gguf')),
      [],
    );
    const before = hub.sent;
    assert.is(before, (PARTS[0]?.length ?? 0) + 1000);
    const { last, records, error } = await pull('hf:user/big');
    assert.is(error, null);
    areThere(harness, [PROJECTOR]);
    // The last byte of a whole file is fetched again, so that the server confirms the file.
    assert.is(hub.sent, WHOLE.length + IMAGES.length + 1);
    assert.is(records.find(({ state }) => state === 'downloading')?.offset_bytes, before - 1);
    assert.is(last?.sha256, sha256(WHOLE));
  },
  { limits: { pull_failures: 1, pull_connections: 1 } },
);

pulls(
  'a part that is damaged on its way is named and deleted, and only it is fetched again',
  REPOSITORY,
  async (harness) => {
    const { hub, pull, inFolder } = harness;
    const damaged = Buffer.from(MIDDLE);
    damaged[damaged.length - 1] = (damaged.at(-1) ?? 0) ^ 1;
    hub.next.push({}, { bytes: damaged });
    const { error } = await pull('hf:user/big');
    assert.is(error?.code, 'pull_failed');
    assert.is(
      error?.message,
      `The downloaded file ${SECOND} has the sha256 ${sha256(damaged)}, not ${sha256(MIDDLE)}. ` +
        'It was deleted.',
    );
    assert.equal(
      inFolder().filter((name) => name.endsWith('.partial')),
      [FIRST, THIRD, PROJECTOR].map((name) => `${name}.partial`).sort(),
    );
    hub.asked.length = 0;
    assert.is((await pull('hf:user/big')).error, null);
    areThere(harness, [PROJECTOR]);
    assert.is(hub.sent, MIDDLE.length + 3);
  },
);

pulls(
  'an address of any part brings all of them, compared with the hash of the whole',
  SERVER,
  async (harness) => {
    const { hub, pull, path } = harness;
    const address = `${hub.url}/${THIRD}`;
    const { error } = await pull(address, { sha256: sha256(LAST) });
    assert.match(error?.message ?? '', `big-Q4_K_M.gguf has the sha256 ${sha256(WHOLE)}, not`);
    assert.equal(harness.inFolder(), []);
    const { last } = await pull(address, { sha256: sha256(WHOLE), name: 'mine' });
    const names = NAMES.map((name) => name.replace('big-Q4_K_M', 'mine'));
    areThere(harness, [], names);
    assert.equal([last?.verified, last?.size_bytes, last?.file], [true, WHOLE.length, 'mine.gguf']);
    rmSync(path(names[1] ?? ''));
    const again = await pull(address, { name: 'mine' });
    assert.is(again.error?.code, 'model_exists');
  },
);

pulls(
  'a part that the server lacks is named before anything is fetched',
  SERVER,
  async (harness) => {
    const { hub, pull } = harness;
    hub.files.delete(SECOND);
    const { error } = await pull(`${hub.url}/${FIRST}`);
    assert.is(error?.code, 'model_unknown');
    assert.match(error?.message ?? '', `has no ${SECOND} (404)`);
    assert.is(hub.sent, 1);
    assert.equal(harness.inFolder(), []);
  },
);

pulls('a file that is not the part of its name is named', SERVER, async (harness) => {
  const { hub, pull } = harness;
  hub.files.set(SECOND, LAST);
  const { error } = await pull(`${hub.url}/${FIRST}`);
  assert.is(error?.code, 'model_invalid');
  assert.match(error?.message ?? '', `${SECOND} is part 3 of 3, and its name says another place`);
});

pulls('a part that is gone is fetched alone', REPOSITORY, async (harness) => {
  const { hub, pull, path } = harness;
  await pull('hf:user/big');
  for (const name of [SECOND, PROJECTOR]) rmSync(path(name));
  hub.asked.length = 0;
  const { last } = await pull('hf:user/big');
  areThere(harness, [PROJECTOR]);
  assert.equal([last?.existing, hub.sent], [false, MIDDLE.length + IMAGES.length]);
});

pulls('a model of that name in one file is not joined by parts', REPOSITORY, async (harness) => {
  writeFileSync(harness.path('big-Q4_K_M.gguf'), MIDDLE);
  const { error } = await harness.pull('hf:user/big');
  assert.is(error?.message, 'A model big-Q4_K_M exists already: big-Q4_K_M.gguf.');
  assert.is(harness.hub.sent, 0);
});

test.run();
