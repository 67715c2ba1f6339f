import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import * as assert from 'uvu/assert';
import { waitFor } from '../helpers/wait.ts';
import { canMount, type Disk, mountDisk } from './disk.ts';
import { Walked } from './edges.ts';
import { House, type Settings, TURNS_MAX, waitLong } from './life.ts';
import { silentLives } from './walk-silent.ts';

/** Lives of the daemon: each function is one home, in which one or more daemons live one after the other. */

const STOP = ['stop_requested'];

/** Enters and leaves every named state in the common way, and reads it through every interface. */
async function wholeLife(): Promise<Walked> {
  const house = await House.build({
    LIMIT_PROBE_MS: 60_000,
    LIMIT_QUEUE_RUNS: 3,
    LIMIT_DRAIN_MS: 600_000,
  });
  house.upstream.listing = 'hold';
  await house.start('starting.probing');
  await waitLong('the upstream is asked', () => house.upstream.isAsked);
  await house.lookClosely('starting.probing');
  assert.is((await house.post('/v1/runs', { prompt: 'hold' })).status, 503);
  for (const type of ['store_opened', 'stopped', 'nope'])
    await house.refuses(type, 'starting.probing', STOP);
  house.upstream.answerLists('list');
  await house.until('ready');
  await house.lookClosely('ready');
  for (const type of ['providers_probed', 'run_settled', '__proto__'])
    await house.refuses(type, 'ready', STOP);
  const first = await house.run('say hold');
  await house.lookClosely('running.accepting');
  await house.refuses('run_admitted', 'running.accepting', STOP);
  const second = await house.run('say hold');
  await house.look('running.accepting');
  const third = await house.run('say hold');
  await house.lookClosely('running.saturated');
  assert.is((await house.post('/v1/runs', { prompt: 'hold' })).status, 429);
  await house.refuses('store_freed', 'running.saturated', STOP);
  await house.cancel(first);
  await house.look('running.accepting');
  await house.cancel(second);
  await house.look('running.accepting');
  await house.untilRun(third, 'streaming');
  await house.upstream.finish();
  await house.until('ready');
  await house.look('ready');
  const last = [
    await house.run('say hold'),
    await house.run('say hold'),
    await house.run('say hold'),
  ];
  await house.look('running.saturated');
  await house.askToStop('drain');
  await house.lookClosely('stopping.draining');
  assert.is((await house.post('/v1/runs', { prompt: 'hold' })).status, 503);
  await house.refuses('start_deadline_passed', 'stopping.draining', STOP);
  await house.cancel(last[0] as string);
  await house.look('stopping.draining');
  for (const id of last.slice(1)) await house.untilRun(id, 'streaming');
  await house.upstream.finish();
  await house.gone(0);
  assert.is((await house.home.svc(['status'])).code, 3);
  assert.is((await house.home.svc(['health'])).code, 3);
  return house.leave();
}

/** A stop while the daemon starts, and a start that takes too long. */
async function cutStarts(): Promise<Walked> {
  const house = await House.build({ LIMIT_PROBE_MS: 60_000, LIMIT_CLOSE_MS: 120_000 });
  house.upstream.listing = 'hold';
  await house.start('starting.probing');
  house.signal('SIGTERM');
  await house.until('stopping.closing');
  house.upstream.answerLists('list');
  await house.gone(0);
  house.upstream.listing = 'hold';
  // The time has to last until the upstream is asked.
  await house.untilWalked(
    'daemon',
    'starting.probing | daemon.start_deadline_passed | failed',
    async (turn) => {
      house.launch({ LIMIT_START_MS: 2000 * 2 ** Math.min(turn, 4) });
      await house.gone(4);
    },
  );
  return house.leave();
}

/** Another program locks the event log: `opening` lasts until it releases the lock. */
async function heldLog(): Promise<Walked> {
  const house = await House.build({ LIMIT_CLOSE_MS: 120_000 });
  await house.start('ready');
  house.signal('SIGTERM');
  await house.gone(0);
  await behindLock(house, {}, async () => {
    await house.look('starting.opening');
    house.signal('SIGTERM');
    await house.until('stopping.closing');
    await house.look('stopping.closing');
  });
  await house.gone(0);
  // The events before the log opens become its first commit. For that it opens within half a second of the deadline. How long the opening takes is found out: one that came too early lets the daemon start.
  let free_ms = HELD_START_MS - 50;
  await house.untilWalked(
    'daemon',
    'starting.opening | daemon.start_deadline_passed | failed',
    async () => {
      await behindLock(house, { LIMIT_START_MS: HELD_START_MS }, () => sleep(free_ms));
      await waitLong(
        'the daemon has started or ended',
        async () =>
          house.hasEnded || (await house.report().catch(() => null))?.state_path === 'ready',
      );
      free_ms += house.hasEnded ? -130 : 200;
      if (house.hasEnded) await house.gone(4);
      else await house.kill();
    },
  );
  return house.leave();
}

const HELD_START_MS = 3000;

async function behindLock(
  house: House,
  settings: Settings,
  meanwhile: () => Promise<unknown>,
): Promise<void> {
  const log = new Database(house.home.paths.database);
  log.pragma('locking_mode = EXCLUSIVE');
  log.exec('BEGIN EXCLUSIVE');
  try {
    await house.startAt('starting.opening', { LIMIT_STORE_LOCK_MS: 60_000, ...settings });
    await meanwhile();
  } finally {
    log.exec('ROLLBACK');
    log.close();
  }
}

/** One place: the first run takes the last one. Stops that do not wait, from each state. */
async function hurriedStops(): Promise<Walked> {
  const house = await House.build({ RECOVERY: 'end' });
  await house.start('ready', { LIMIT_QUEUE_RUNS: 1 });
  const run = await house.run('say hold');
  await house.lookClosely('running.saturated');
  await house.cancel(run);
  await house.look('ready');
  await house.run('say hold');
  await house.askToStop('force');
  await house.gone(0);
  await house.start('ready');
  await house.run('say hold');
  await house.askToStop('force');
  await house.gone(0);
  await house.start('ready');
  await house.run('say hold');
  await house.askToStop('drain', 100);
  await house.gone(0);
  await house.start('ready');
  await house.run('say hold');
  house.signal('SIGINT');
  await house.until('stopping.draining');
  house.signal('SIGINT');
  await house.gone(0);
  await house.start('ready');
  await house.home.svc(['stop']);
  await house.gone(0);
  return house.leave();
}

/** So many runs are left by a crash that their recovery takes several steps, and can be met. */
async function longRecovery(): Promise<Walked> {
  const house = await House.build({
    LIMIT_QUEUE_RUNS: 100_000,
    LIMIT_ACTIVE_RUNS: 1,
    LIMIT_DRAIN_MS: 0,
    LIMIT_CLOSE_MS: 120_000,
  });
  await house.start('ready');
  await post(house, 1200);
  await house.kill();
  await house.untilWalked(
    'daemon',
    'starting.recovering | daemon.stop_requested | stopping.closing',
    async (turn) => {
      if (turn > 0) {
        await house.start('running.accepting');
        await post(house, 1200);
        await house.kill();
      }
      const state = await house.start([
        'starting.recovering',
        'starting.probing',
        'running.accepting',
      ]);
      const isMet = state === 'starting.recovering' && (await looksInTime(house, state, turn));
      house.signal('SIGTERM');
      await house.gone(0);
      return isMet;
    },
  );
  return house.leave();
}

/**
 * Whether the state lasted until every interface was read. The last try reports a wrong reading.
 */
function looksInTime(house: House, state: string, turn: number): Promise<boolean> {
  return house.look(state).then(
    () => true,
    (error: unknown) => {
      if (turn + 1 === TURNS_MAX) throw error;
      return false;
    },
  );
}

async function post(house: House, count: number): Promise<void> {
  let left = count;
  const client = async () => {
    for (; left > 0; left -= 1) await house.run('hold');
  };
  await Promise.all(Array.from({ length: 32 }, client));
}

/** More runs are left by a crash than the next life takes, and than it recovers in one step. */
async function fullAfterCrash(): Promise<Walked> {
  const house = await House.build({ LIMIT_PROVIDER_RUNS: 1, LIMIT_PROBE_MS: 60_000 });
  await house.start('ready');
  const runs: string[] = [];
  for (let index = 0; index < 5; index += 1) runs.push(await house.run('hold'));
  await house.kill();
  assert.is((await house.home.svc(['status'])).code, 1);
  house.upstream.listing = 'hold';
  await house.start('starting.probing', { LIMIT_QUEUE_RUNS: 2, LIMIT_RECOVER_RUNS: 1 });
  await house.look('starting.probing');
  await house.cancel(runs[4] as string);
  house.upstream.answerLists('list');
  await house.until('running.saturated');
  await house.look('running.saturated');
  await house.cancel(runs[3] as string);
  await house.look('running.saturated');
  await house.cancel(runs[2] as string);
  await house.cancel(runs[1] as string);
  await house.until('running.accepting');
  await house.kill();
  await house.start('running.accepting');
  await house.look('running.accepting');
  await house.kill();
  return house.leave();
}

/** An engine that does not answer holds the daemon in its last state, until the deadline of that. */
async function stuckClose(): Promise<Walked> {
  const house = await House.build(
    { LIMIT_DRAIN_MS: 0, LIMIT_ENGINE_STOP_MS: 60_000 },
    { engine: true },
  );
  const stopHeld = async (settings: Settings) => {
    await house.start('ready', settings);
    const engine = await waitLong('the engine is warm', async () => {
      const report = await house.report();
      return report.engine.state === 'warm.idle' && report.engine.pid;
    });
    process.kill(engine, 'SIGSTOP');
    house.signal('SIGTERM');
    return engine;
  };
  const engine = await stopHeld({ LIMIT_CLOSE_MS: 60_000 });
  await house.until('stopping.closing');
  await house.lookClosely('stopping.closing');
  await house.refuses('stop_requested', 'stopping.closing', []);
  process.kill(engine, 'SIGCONT');
  await house.gone(0);
  await stopHeld({ LIMIT_CLOSE_MS: 1000 });
  await house.gone(1);
  return house.leave();
}

/** A disk that fills while the daemon lives: what was accepted goes on, nothing new is taken until there is space. */
async function fullDisk(): Promise<Walked> {
  const disk = mountDisk();
  const house = await House.build(
    { LIMIT_QUEUE_RUNS: 2, LIMIT_DRAIN_MS: 600_000 },
    { folder: disk.folder },
  );
  await house.start('ready');
  // With nothing to do, with a place left, and with none.
  for (const [runs, state, after] of [
    [0, 'ready', 'ready'],
    [1, 'running.accepting', 'running.accepting'],
    [2, 'running.saturated', 'running.saturated'],
  ] as const) {
    const ids: string[] = [];
    while (ids.length < runs) ids.push(await house.run('say hold'));
    await house.until(state);
    await held(house, disk);
    await house.lookClosely('running.disk_full');
    await house.refuses('store_freed', 'running.disk_full', STOP);
    assert.is((await house.post('/v1/runs', { prompt: 'finish' })).status, 507);
    disk.free();
    await house.until(after);
    await house.look(after);
    for (const id of ids) await house.cancel(id);
    await house.until('ready');
  }
  // A run settles while the disk is full.
  const run = await house.run('say hold');
  await held(house, disk);
  await house.cancel(run);
  await house.look('running.disk_full');
  house.signal('SIGTERM');
  await house.gone(0);
  disk.free();
  await house.start('ready');
  await house.untilRun(await house.run('say hold'), 'streaming');
  await held(house, disk);
  house.signal('SIGTERM');
  await house.until('stopping.draining');
  await house.upstream.finish();
  await house.gone(0);
  disk.free();
  const walked = await house.leave();
  await disk.unmount();
  return walked;
}

/** History beyond its bound is removed, whatever the daemon does meanwhile. The log is read after each life, since it loses its beginning. */
async function pruned(): Promise<Walked> {
  const disk = mountDisk();
  const house = await House.build(
    { HISTORY_KEEP_BYTES: 1_048_576, LIMIT_QUEUE_RUNS: 2, LOG_LEVEL: 'debug' },
    { folder: disk.folder },
  );
  const walked = new Walked();
  await house.start('ready');
  await large(house);
  await house.kill();
  // A start begins with a round, which finds the state that the runs make which the life before has left.
  const left: string[] = [];
  for (const state of ['ready', 'running.accepting', 'running.saturated']) {
    await house.start(state);
    await waitLong('history is removed', () => removals(house) > 0);
    if (state === 'running.saturated') for (const id of left) await house.cancel(id);
    else {
      await large(house);
      left.push(await house.run('hold'));
    }
    await house.kill();
    walked.add(await house.walked());
  }
  // A disk that is full takes no start, but a later round, if the disk fills before it.
  for (
    let every_ms = 3000;
    !walked.of('daemon').has('running.disk_full | daemon.history_pruned | running.disk_full');
    every_ms *= 2
  ) {
    assert.ok(every_ms < 50_000, 'history was not removed in running.disk_full');
    await house.start('ready', { LIMIT_PRUNE_EVERY_MS: every_ms });
    await large(house);
    await held(house, disk);
    const before = removals(house);
    // In vain where the round came before.
    await waitFor('history is removed', () => removals(house) > before, {
      within_ms: 2 * every_ms,
    }).catch(() => undefined);
    await house.kill();
    disk.free();
    walked.add(await house.walked());
  }
  await house.close();
  await disk.unmount();
  return walked;
}

/** Finished runs that are more than the history may hold. One that is not there any more was removed before it was looked at. */
async function large(house: House): Promise<void> {
  for (let count = 0; count < 2; count += 1) {
    const id = await house.run(`finish ${'x'.repeat(700_000)}`);
    await waitLong('the run is completed', async () =>
      ['completed', undefined].includes((await house.show(id)).state),
    );
  }
}

/** Facts of it that are on disk: a daemon that is killed earlier has removed history and not said so. */
function removals(house: House): number {
  return house.printed('daemon.history_pruned');
}

/**
 * Fills the disk, and makes the daemon write until it notices: the log may have space for some
 * commits.
 */
async function held(house: House, disk: Disk): Promise<void> {
  disk.fill();
  await waitLong('the daemon is running.disk_full', async () => {
    await house.home.svc(['provider', 'test', 'up']);
    return (await house.report()).state_path === 'running.disk_full';
  });
}

export const daemonLives = [
  wholeLife,
  cutStarts,
  heldLog,
  hurriedStops,
  longRecovery,
  fullAfterCrash,
  stuckClose,
  ...(canMount ? [fullDisk, pruned] : []),
  ...silentLives,
];
