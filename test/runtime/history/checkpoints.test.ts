import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { foldStream } from '../../../src/kernel/fold.ts';
import { Checkpoints } from '../../../src/runtime/history/history.ts';
import type { EventStore } from '../../../src/store/port.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

const BOUNDS = { every: 10, kept_max: 8 };
const { kernel, store, runtime, daemon } = await bootRuntime({
  local: new ScriptedProvider('local', [output('a', 1), finish()]),
});
const live = new Checkpoints(kernel, daemon, BOUNDS);
for (let count = 0; count < 100; count += 1) await runtime.runs.start({ prompt: 'x' }, 'test');
await waitFor('all are settled', () => runtime.status().state === 'ready');
const last = kernel.durableSeq;

/** Counts the events that are read. */
function counting(): Pick<EventStore, 'readStream'> & { events: number } {
  const counted = {
    events: 0,
    readStream: async (stream: string, from: number, limit: number) => {
      const page = await store.readStream(stream, from, limit);
      counted.events += page.filter(({ seq }) => seq <= last).length;
      return page;
    },
  };
  return counted;
}

test('a fold from a checkpoint gives the same state, at every position', async () => {
  const late = new Checkpoints(kernel, daemon, BOUNDS);
  for (let at = 1; at <= last; at += 1) {
    const whole = await foldStream(store, daemon, at);
    for (const instance of [await live.fold(store, daemon, at), await late.fold(store, daemon, at)])
      assert.equal(
        [
          instance?.version,
          instance?.seq,
          instance?.path,
          instance?.since,
          instance?.snapshot.context,
        ],
        [whole?.version, whole?.seq, whole?.path, whole?.since, whole?.snapshot.context],
        String(at),
      );
  }
});

test('a fold stays short after many events, and the number of checkpoints stays small', async () => {
  const end = counting();
  await live.fold(end, daemon, last);
  const versions = (await foldStream(store, daemon))?.version ?? 0;
  assert.ok(versions > 200);
  assert.ok(end.events <= 80, `${end.events} of ${versions}`);
});

test('a past boot is folded once, and then from its checkpoints; an unknown stream has no state', async () => {
  const other = new Checkpoints(kernel, 'daemon:another', BOUNDS);
  const [first, second] = [counting(), counting()];
  await other.fold(first, daemon, last);
  await other.fold(second, daemon, last);
  assert.ok(second.events < first.events / 2, `${first.events}, then ${second.events}`);
  assert.is(await other.fold(store, 'daemon:nobody', last), undefined);
});

test.run();
