import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { inject, possible } from './inject.ts';
import { startWriter, type Writer } from './process.ts';
import { makePlace, type Place, placed } from './samples.ts';

const tried = possible ? test : test.skip;

/** A writer that writes until a fault stops it. */
async function writeUntilRefused(place: Place, fault: string): Promise<Writer> {
  const writer = startWriter(place, {}, inject(fault));
  await writer.says('open', 'refused');
  writer.command('on');
  await writer.says('refused');
  await writer.end('close');
  return writer;
}

/** Acknowledged events are there, and all commits are whole. */
async function checkAcknowledged(place: Place, acked: number, label: string): Promise<void> {
  const store = place.store();
  const { last_seq } = await store.open();
  assert.ok(last_seq >= acked, `${label}: ${last_seq} of ${acked}`);
  assert.equal(await store.verify(), { ok: true, events: last_seq, problems: [] }, label);
  await store.close();
}

/** Each commit is a sync. */
for (const [event, fault, code] of [
  [
    'a disk that does not take a sync ends all writing',
    'fdatasync:error=EIO:when=10+',
    'store_failed',
  ],
  ['a sync that failed once is not tried again', 'fdatasync:error=EIO:when=10', 'store_failed'],
  [
    'a disk that does not take a write ends all writing',
    'pwrite64:error=EIO:when=200+',
    'store_failed',
  ],
  [
    'a write without space is known to have changed nothing',
    'pwrite64:error=ENOSPC:when=200+',
    'store_full',
  ],
  ['a used up quota is the same as a full disk', 'pwrite64:error=EDQUOT:when=200+', 'store_full'],
] as const) {
  tried(
    event,
    placed(async (place) => {
      const writer = await writeUntilRefused(place, fault);
      assert.match(writer.lines.at(-2) ?? '', `refused ${code}`);
      assert.is(writer.lines.at(-1), `again ${code}`);
      assert.ok(writer.acked() > 0, writer.lines.join());
      await checkAcknowledged(place, writer.acked(), fault);
    }),
  );
}

/** Places in the writer's first commits; SVC_TEST_POINTS=1 tries each one. */
const STRIDE = Number(process.env.SVC_TEST_POINTS ?? 13);

tried(
  'a writer that is killed at its first writes and syncs, at one after the other, leaves a whole log',
  async () => {
    let points = 0;
    for (const [call, count] of [
      ['pwrite64', 90],
      ['fsync', 14],
      ['fdatasync', 10],
    ] as const) {
      for (let when = 1; when <= count; when += STRIDE) {
        const place = makePlace();
        try {
          const fault = `${call}:signal=SIGKILL:when=${when}`;
          const writer = await writeUntilRefused(place, fault);
          assert.is(writer.child.signalCode, 'SIGKILL', fault);
          await checkAcknowledged(place, writer.acked(), fault);
          points += 1;
        } finally {
          place.remove();
        }
      }
    }
    assert.ok(points >= 9, `${points} points`);
  },
);

test.run();
