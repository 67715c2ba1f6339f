import { copyFileSync, rmSync, writeFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { streamOf } from '../../src/kernel/pages.ts';
import { defaultLimits } from '../../src/limits.ts';
import { openCopiedLog } from '../../src/store/inspect/copied-log.ts';
import type { Commit } from '../../src/store/port.ts';
import { accepted, codeOf, event, type Place, placed, run } from './samples.ts';

async function add(place: Place, ...commits: Commit[]): Promise<void> {
  const store = place.store();
  await store.open();
  for (const commit of commits) await store.append(commit);
  await store.close();
}

/** The number of events of a stream in a dead daemon's log, or the error code of its end. */
async function countEvents(place: Place, stream: string): Promise<number | string | null> {
  const log = openCopiedLog({ ...place, limits: defaultLimits });
  if (log === null) return null;
  let events = 0;
  const read = async () => {
    for await (const _ of streamOf(log, stream)) events += 1;
  };
  const code = await codeOf(read());
  log.close();
  return code ?? events;
}

const end = (seq: number, run_id: string): Commit => ({
  events: [event(seq, run_id, 2, { type: 'run.completed' })],
  runs: [run(run_id, { seq, state: 'completed', finished: true })],
});

test(
  'in a log that lost its end only finished runs are whole, until the loss is accepted',
  placed(async (place) => {
    await add(
      place,
      accepted(1, [run('run_done')]),
      end(2, 'run_done'),
      accepted(3, [run('run_open', { seq: 3 })]),
    );
    const backup = `${place.folder}/backup.db`;
    copyFileSync(place.database, backup);
    await add(place, end(4, 'run_open'), accepted(5, [run('run_late', { seq: 5 })]));
    assert.equal(
      [
        await countEvents(place, 'run_done'),
        await countEvents(place, 'run_open'),
        await countEvents(place, 'run_late'),
      ],
      [2, 2, 1],
    );

    rmSync(`${place.database}-wal`, { force: true });
    copyFileSync(backup, place.database);
    assert.is(await countEvents(place, 'run_done'), 2);
    assert.is(await countEvents(place, 'run_open'), 'store_tail_lost', 'it had gone on');
    assert.is(await countEvents(place, 'run_late'), 'store_tail_lost', 'it had been accepted');
    const log = openCopiedLog({ ...place, limits: defaultLimits });
    assert.is((await log?.readAll(1, 9))?.length, 3, 'what is there can be saved');
    log?.close();

    writeFileSync(place.highWater, 'accept\n');
    assert.equal(
      [await countEvents(place, 'run_open'), await countEvents(place, 'run_late')],
      [1, 0],
    );
  }),
);

test.run();
