import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Cell } from '../../src/kernel/cell.ts';
import { foldStream } from '../../src/kernel/fold.ts';
import { BootCheckpoint, readBootCheckpoint } from '../../src/runtime/boot-checkpoint.ts';
import { readLastBoot } from '../../src/runtime/recover.ts';
import type { EventStore } from '../../src/store/store.ts';
import { bootRuntime } from '../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../helpers/scripted-provider.ts';
import { waitFor } from '../helpers/wait.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-checkpoint-'));
const file = join(folder, 'cache', 'boot.json');
const log = { debug: () => {} };
const EVERY = 10;

/** A life of a hundred runs that leaves its log, and a checkpoint from somewhere on its way. */
const { kernel, store, runtime, daemon } = await bootRuntime({ local: new ScriptedProvider('local', [output('a', 1), finish()]) });
const checkpoint = new BootCheckpoint({ kernel, daemon, file, program: '1.0.0', log, every: EVERY });
for (let count = 0; count < 100; count += 1) {
  await runtime.startRun({ prompt: 'x' }, 'test');
  if (count === 50) await waitFor('a checkpoint is written', () => existsSync(file));
}
await waitFor('all are settled', () => runtime.status().state === 'ready');
kernel.close();
await checkpoint.close();
const whole = (await foldStream(store, daemon)) as Cell;
const written = readFileSync(file, 'utf8');
const found = () => readBootCheckpoint(file, '1.0.0', store, daemon);

test('what it says is what the facts up to there fold to', async () => {
  const cell = (await found()) as Cell;
  assert.ok(cell.version >= EVERY && cell.version % EVERY === 0 && cell.version <= whole.version);
  const folded = (await foldStream(store, daemon, cell.seq)) as Cell;
  const facts = ({ version, seq, path, since, snapshot }: Cell) => ({
    version,
    seq,
    path,
    since,
    value: snapshot.value,
    context: snapshot.context,
    status: snapshot.status,
  });
  assert.equal(facts(cell), facts(folded));
  assert.equal([...cell.snapshot.tags].sort(), [...folded.snapshot.tags].sort());
  assert.is(cell.recent.at(-1)?.at, folded.recent.at(-1)?.at);
});

test('with it the end of a boot is the same, and the facts before it are not read', async () => {
  let first = Number.POSITIVE_INFINITY;
  const watched: EventStore = {
    ...store,
    readStream: (stream, from, limit) => {
      first = Math.min(first, from);
      return store.readStream(stream, from, limit);
    },
  };
  const boot_id = daemon.replace('daemon:', '');
  const short = await readLastBoot(watched, boot_id, 'host', () => found());
  assert.equal(short, await readLastBoot(store, boot_id, 'host'));
  assert.is(first, ((await found())?.version ?? 0) + 1);
});

test('a life that ends on the very fact of the checkpoint is told whole', async () => {
  const cell = (await found()) as Cell;
  const cut = {
    ...store,
    readStream: async (...args: Parameters<EventStore['readStream']>) => (await store.readStream(...args)).filter(({ seq }) => seq <= cell.seq),
  };
  const boot_id = daemon.replace('daemon:', '');
  const short = await readLastBoot(cut, boot_id, 'host', (stream) => readBootCheckpoint(file, '1.0.0', cut, stream));
  assert.equal(short, await readLastBoot(cut, boot_id, 'host'));
  assert.ok((short?.at ?? 0) > 0);
});

test('it is not used for another stream, by another version of the program, or where the log is another one', async () => {
  assert.ok(await found());
  assert.is(await readBootCheckpoint(file, '1.0.1', store, daemon), undefined);
  assert.is(await readBootCheckpoint(file, '1.0.0', store, 'daemon:another'), undefined);
  assert.is(await readBootCheckpoint(join(folder, 'absent'), '1.0.0', store, daemon), undefined);
  assert.is(await readBootCheckpoint(file, '1.0.0', { readStream: async () => [] }, daemon), undefined);
  const moved = {
    readStream: async (...args: Parameters<EventStore['readStream']>) => (await store.readStream(...args)).map((event) => ({ ...event, seq: event.seq + 1 })),
  };
  assert.is(await readBootCheckpoint(file, '1.0.0', moved, daemon), undefined);
});

test('a harmed file is not used, whatever was harmed', async () => {
  const bytes = Buffer.from(written);
  for (let at = 0; at < bytes.length - 1; at += 1) {
    const harmed = Buffer.from(bytes);
    harmed[at] = (harmed[at] as number) ^ 1;
    writeFileSync(file, harmed);
    assert.is(await found(), undefined, `byte ${at}`);
  }
  for (const length of [0, 1, 63, 64, 65, bytes.length - 2]) {
    writeFileSync(file, bytes.subarray(0, length));
    assert.is(await found(), undefined, `${length} bytes`);
  }
  writeFileSync(file, bytes);
  assert.ok(await found());
});

test('only its owner may read it, and a place that takes no file is no trouble', async () => {
  assert.is(statSync(file).mode & 0o777, 0o600);
  const other = await bootRuntime({ local: new ScriptedProvider('local', [output('a', 1), finish()]) });
  const nowhere = new BootCheckpoint({ kernel: other.kernel, daemon: other.daemon, file: join(file, 'no', 'folder'), program: '1.0.0', log, every: 2 });
  await other.runtime.startRun({ prompt: 'x' }, 'test');
  await waitFor('it is settled', () => other.runtime.status().state === 'ready');
  await nowhere.close();
  other.kernel.close();
});

test.after(() => rmSync(folder, { recursive: true }));
test.run();
