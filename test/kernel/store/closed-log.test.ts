import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import Database from 'better-sqlite3';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { tryLock } from '../../../src/home/file-lock.ts';
import { streamOf } from '../../../src/kernel/pages.ts';
import { removeOldCopies } from '../../../src/kernel/store/files/copies.ts';
import { openClosed, openClosedLog } from '../../../src/kernel/store/inspect/closed-log.ts';
import type { Commit, EventStore } from '../../../src/kernel/store/port.ts';
import { openClosedStore } from '../../../src/kernel/store/sqlite/closed-store.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { startWriter } from './process.ts';
import { accepted, codeOf, event, type Place, placed, run } from './samples.ts';

/** It waits for no one. */
const of = (place: Place, project: typeof NO_FOLD = NO_FOLD) => ({
  ...place,
  lock: `${place.folder}/data/lock`,
  limits: { ...defaultLimits, store_lock_ms: 0 },
  project,
});
const NO_FOLD = async (): Promise<ReturnType<typeof run> | null> => null;

async function add(place: Place, ...commits: Commit[]): Promise<void> {
  const store = place.store();
  await store.open();
  for (const commit of commits) await store.append(commit);
  await store.close();
}

/** The number of events of a stream in a dead daemon's log, or the error code of its end. */
async function countEvents(place: Place, stream: string): Promise<number | string | null> {
  const log = await openClosedLog(of(place));
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
    const log = await openClosedLog(of(place));
    assert.is((await log?.readAll(1, 9))?.length, 3, 'what is there can be saved');
    log?.close();

    writeFileSync(place.highWater, 'accept\n');
    assert.equal(
      [await countEvents(place, 'run_open'), await countEvents(place, 'run_late')],
      [1, 0],
    );
  }),
);

/** The names and the bytes of the files of the log. */
function filesOf(place: Place): [string, string][] {
  const folder = `${place.folder}/data`;
  const names = readdirSync(folder).filter((name) => name !== 'lock');
  return names.map((name) => [name, readFileSync(`${folder}/${name}`, 'latin1')]);
}

async function idsOf(store: EventStore | null): Promise<string[] | undefined> {
  return (await store?.listRuns({ limit: 9 }))?.map(({ run_id }) => run_id);
}

test(
  'a closed log is read where it is: there is no copy, and no byte of it changes',
  placed(async (place) => {
    await add(place, accepted(1, [run('run_a')]), end(2, 'run_a'));
    const before = filesOf(place);
    const opened = await openClosed(of(place));
    assert.is(opened?.isCopy, false);
    assert.is(opened?.db.name, place.database);
    assert.throws(() => opened?.db.exec('delete from runs'), /readonly/);
    opened?.close();
    const store = await openClosedStore(of(place));
    assert.equal(await idsOf(store), ['run_a']);
    assert.is((await store?.usage({ from_hour: 0, key: null }))?.sums.length, 0);
    assert.equal(await store?.searchRuns({ terms: ['x'], limit: 1 }), []);
    await store?.close();
    assert.equal(filesOf(place), before);
  }),
);

test(
  'a log that a killed daemon left is read where it is, with its WAL',
  placed(async (place) => {
    const writer = startWriter(place);
    await writer.says('open');
    writer.command('one');
    await writer.says('acked');
    await writer.end('SIGKILL');
    const before = filesOf(place);
    assert.ok(before.some(([name, bytes]) => name === 'events.db-wal' && bytes.length > 0));
    const store = await openClosedStore(of(place));
    assert.equal(await idsOf(store), ['run_1']);
    await store?.close();
    assert.equal(filesOf(place), before);
  }),
);

test(
  'readers share the lock of the home, and a daemon waits for the last of them',
  placed(async (place) => {
    await add(place, accepted(1, [run('run_a')]));
    const { lock } = of(place);
    const [one, two] = [await openClosedLog(of(place)), await openClosedLog(of(place))];
    assert.is((await one?.readAll(1, 9))?.length, 1);
    one?.close();
    assert.is((await two?.readAll(1, 9))?.length, 1, 'what the other left is not needed');
    assert.is(await tryLock(lock), null);
    two?.close();
    const release = await tryLock(lock);
    assert.ok(release);
    assert.is(await codeOf(openClosedLog(of(place))), 'daemon_already_running');
    release?.();
  }),
);

test(
  'a log with older tables is copied beside it, and the copy goes',
  placed(async (place) => {
    await add(place, accepted(1, [run('run_a')]), end(2, 'run_a'));
    const db = new Database(place.database);
    db.exec(`update meta set value = '0.1.0' where name = 'opened_by';
      drop trigger run_place_removed; drop table run_places`);
    db.close();
    const before = filesOf(place);
    const store = await openClosedStore(of(place));
    const names = readdirSync(`${place.folder}/data`);
    assert.is(names.filter((name) => name.startsWith(`svc-copy-${process.pid}-`)).length, 1);
    assert.equal(
      (await store?.listRuns({ limit: 9, conversation: 'run_a' }))?.map(({ run_id }) => run_id),
      ['run_a'],
    );
    await store?.close();
    assert.equal(filesOf(place), before);
  }),
);

test(
  'the copy of a dead process is removed, and that of a living one stays',
  placed(async (place) => {
    await add(place, accepted(1, [run('run_a')]));
    const dead = startWriter({ ...place, database: `${place.folder}/other/events.db` });
    await dead.end('close');
    for (const pid of [dead.child.pid, process.pid])
      mkdirSync(`${place.folder}/data/svc-copy-${pid}-x`);
    removeOldCopies(place.database);
    const left = readdirSync(`${place.folder}/data`).filter((name) => name.startsWith('svc-copy-'));
    assert.equal(left, [`svc-copy-${process.pid}-x`]);
  }),
);

test(
  'a run whose row is damaged is folded from its events, and the log stays as it is',
  placed(async (place) => {
    await add(place, accepted(1, [run('run_a')]), end(2, 'run_a'));
    const db = new Database(place.database);
    db.exec(`update runs set state = 'queued'`);
    db.close();
    const before = filesOf(place);
    const folded = run('run_a', { seq: 2, state: 'completed', finished: true });
    const store = await openClosedStore(of(place, async () => folded));
    assert.equal(await store?.getRun('run_a'), folded);
    assert.equal(await store?.listRuns({ limit: 1 }), [folded]);
    await store?.close();
    assert.equal(filesOf(place), before);
  }),
);

test(
  'a log in a folder that cannot be written is copied elsewhere',
  placed(async (place) => {
    await add(place, accepted(1, [run('run_a')]), end(2, 'run_a'));
    rmSync(of(place).lock, { force: true });
    chmodSync(`${place.folder}/data`, 0o500);
    try {
      const store = await openClosedStore(of(place));
      assert.equal(await idsOf(store), ['run_a']);
      await store?.close();
    } finally {
      chmodSync(`${place.folder}/data`, 0o700);
    }
  }),
);

test.run();
