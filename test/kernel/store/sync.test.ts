import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readMark } from '../../../src/kernel/store/files/high-water.ts';
import { toRows } from '../../../src/kernel/store/row.ts';
import { EventLog } from '../../../src/kernel/store/sqlite/event-log.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { SMALL_RESERVE } from '../../helpers/small-reserve.ts';
import { accepted, event, type Place, placed, run } from './samples.ts';

/** An open log in this thread, and what each sync of a commit does. */
interface Syncs {
  log: EventLog;
  count: number;
  /** Called instead of the sync. */
  sync: () => void;
}

/** Few enough commits that the high-water mark is not synced among them. */
function withSyncs(work: (syncs: Syncs, place: Place) => void): () => Promise<void> {
  return placed(async (place) => {
    const { database, highWater } = place;
    const limits = { ...defaultLimits, ...SMALL_RESERVE };
    const log = new EventLog({ database, highWater, limits });
    const { fdatasyncSync } = fs;
    const syncs: Syncs = { log, count: 0, sync: () => {} };
    fs.fdatasyncSync = (fd) => {
      syncs.count += 1;
      syncs.sync();
      fdatasyncSync(fd);
    };
    syncBuiltinESMExports();
    try {
      work(syncs, place);
    } finally {
      fs.fdatasyncSync = fdatasyncSync;
      syncBuiltinESMExports();
      log.close();
    }
  });
}

/** An accepted run, its end, and an event behind it. */
const first = toRows(accepted(1, [run('run_1')]));
const second = toRows({
  events: [event(2, 'run_1', 2, { type: 'run.completed' }), event(3, 'daemon:1', 1)],
  runs: [run('run_1', { state: 'completed', finished: true, seq: 2, record: {} })],
});

test(
  'each commit has one sync, and the high-water mark moves behind it',
  withSyncs((syncs, { highWater }) => {
    syncs.sync = () => assert.is(readMark(highWater)?.seq, 0);
    syncs.log.append(first);
    assert.is(syncs.count, 1);
    assert.is(readMark(highWater)?.seq, 1);
    syncs.sync = () => assert.is(readMark(highWater)?.seq, 1);
    syncs.log.append(second);
    assert.is(syncs.count, 2);
    assert.is(readMark(highWater)?.seq, 3);
  }),
);

test(
  'the removal of a run is synced before it is answered',
  withSyncs((syncs) => {
    syncs.log.append(first);
    syncs.log.append(second);
    assert.is(syncs.log.removeRun('run_1').runs, 1);
    assert.is(syncs.count, 3);
    assert.is(syncs.log.removeRun('run_1').runs, 0);
    assert.is(syncs.count, 3, 'nothing was removed');
  }),
);

test(
  'after a sync that failed nothing is acknowledged, and the mark stays',
  withSyncs((syncs, { highWater }) => {
    syncs.log.append(first);
    syncs.sync = () => {
      throw Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' });
    };
    assert.throws(() => syncs.log.append(second), hasFailed);
    syncs.sync = () => {};
    assert.throws(() => syncs.log.append(second), hasFailed);
    assert.throws(() => syncs.log.removeRun('run_1'), hasFailed);
    assert.is(syncs.count, 2, 'it is not tried again');
    assert.is(readMark(highWater)?.seq, 1);
  }),
);

const hasFailed = (error: { code?: string }) => error.code === 'store_failed';

test.run();
