import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Instance } from '../../../src/kernel/instance.ts';
import type { EventStore, StoredEvent } from '../../../src/kernel/store/port.ts';
import { DaemonStates } from '../../../src/observability/history/daemon-states.ts';
import { LogFold } from '../../helpers/fold-log.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

const BOUNDS = { every: 20, kept_max: 8 };
const { kernel, store, runtime, daemon } = await bootRuntime({
  local: new ScriptedProvider('local', [output('a', 1), finish()]),
});
const BOOT = daemon.replace('daemon:', '');
const live = new DaemonStates(kernel, daemon, BOUNDS);
for (let count = 0; count < 100; count += 1) await runtime.runs.start({ prompt: 'x' }, 'test');
await waitFor('all are settled', () => runtime.status().state === 'ready');
const last = kernel.durableSeq;

type Reader = Pick<EventStore, 'readStream' | 'runBounds'>;

/** Counts the positions that are looked at. */
function counting(): Reader & { positions: number } {
  const counted = {
    positions: 0,
    readStream: store.readStream,
    runBounds: async (boot_id: string, after: number, to: number) => {
      counted.positions += to - after;
      return store.runBounds(boot_id, after, to);
    },
  };
  return counted;
}

const told = (instance: Instance | undefined) => [
  instance?.version,
  instance?.seq,
  instance?.path,
  instance?.since,
  instance?.snapshot.context,
];

test('the daemon writes nothing of its runs, and a fold at each position has the state of memory', async () => {
  const own = await store.readStream(daemon, 1, 1000);
  assert.is(own.length, kernel.instance(daemon)?.version);
  assert.ok(own.every(({ type }) => !type.startsWith('daemon.run_')));
  const fold = new LogFold();
  const late = new DaemonStates(kernel, 'daemon:another', BOUNDS);
  for (const event of await store.readAll(1, 10_000)) {
    fold.add(event);
    const { context } = fold.states.get(daemon) ?? {};
    const [one, other] = [
      await live.fold(store, BOOT, event.seq),
      await late.fold(store, BOOT, event.seq),
    ];
    assert.equal(one?.snapshot.context, context, String(event.seq));
    assert.equal(told(one), told(other), String(event.seq));
  }
  const [now, folded] = [kernel.instance(daemon), await live.fold(store, BOOT, last)];
  assert.equal(told(folded), told(now));
});

test('a fold stays short after many events, and the number of kept states stays small', async () => {
  const end = counting();
  await live.fold(end, BOOT, last);
  assert.ok(last > 400);
  assert.ok(end.positions <= 160, `${end.positions} of ${last}`);
});

test('a past boot is folded once, and then from its states; an unknown boot has none', async () => {
  const other = new DaemonStates(kernel, 'daemon:another', BOUNDS);
  const [first, second] = [counting(), counting()];
  await other.fold(first, BOOT, last);
  await other.fold(second, BOOT, last);
  assert.ok(second.positions < first.positions / 2, `${first.positions}, then ${second.positions}`);
  assert.is(await other.fold(store, 'boot_nobody', last), undefined);
});

test('removed runs leave the count of the others', async () => {
  const removed = new Set((await store.listRuns({ limit: 50 })).map(({ run_id }) => run_id));
  const kept = (await store.readAll(1, 10_000)).filter(({ stream }) => !removed.has(stream));
  const without: Reader = {
    readStream: store.readStream,
    runBounds: async (...args) =>
      (await store.runBounds(...args)).filter(({ run_id }) => !removed.has(run_id)),
  };
  const states = new DaemonStates(kernel, 'daemon:another', BOUNDS);
  assert.is((await states.fold(without, BOOT, last))?.path, 'ready');
  const accepted = kept.find(({ type }: StoredEvent) => type === 'run.accepted')?.seq ?? 0;
  assert.is((await states.fold(without, BOOT, accepted))?.path, 'running.accepting');
});

test.run();
