import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import * as assert from 'uvu/assert';
import { waitFor } from '../helpers/wait.ts';
import { canMount, type Disk, mountDisk } from './disk.ts';
import { Walked } from './edges.ts';
import { Harness, type Settings, TURNS_MAX, waitLong } from './harness.ts';
import { silentScenarios } from './walk-silent.ts';

/** Scenarios of the daemon. Each function has one home, with one or more boots in a row. */

const STOP = ['stop_requested'];

/** Enters and leaves every named state in the common way, and reads it through every interface. */
async function wholeBoot(): Promise<Walked> {
  const harness = await Harness.build({
    LIMIT_PROBE_MS: 60_000,
    LIMIT_QUEUE_RUNS: 3,
    LIMIT_DRAIN_MS: 600_000,
  });
  harness.upstream.listing = 'hold';
  await harness.start('starting.probing');
  await waitLong('the upstream is asked', () => harness.upstream.isAsked);
  await harness.lookClosely('starting.probing');
  assert.is((await harness.post('/v1/runs', { prompt: 'hold' })).status, 503);
  for (const type of ['store_opened', 'stopped', 'nope'])
    await harness.refuses(type, 'starting.probing', STOP);
  harness.upstream.answerLists('list');
  await harness.until('ready');
  await harness.lookClosely('ready');
  for (const type of ['providers_probed', 'run_settled', '__proto__'])
    await harness.refuses(type, 'ready', STOP);
  const first = await harness.run('say hold');
  await harness.lookClosely('running.accepting');
  await harness.refuses('run_admitted', 'running.accepting', STOP);
  const second = await harness.run('say hold');
  await harness.look('running.accepting');
  const third = await harness.run('say hold');
  await harness.lookClosely('running.saturated');
  assert.is((await harness.post('/v1/runs', { prompt: 'hold' })).status, 429);
  await harness.refuses('store_freed', 'running.saturated', STOP);
  await harness.cancel(first);
  await harness.look('running.accepting');
  await harness.cancel(second);
  await harness.look('running.accepting');
  await harness.untilRun(third, 'streaming');
  await harness.upstream.finish();
  await harness.until('ready');
  await harness.look('ready');
  const last = [
    await harness.run('say hold'),
    await harness.run('say hold'),
    await harness.run('say hold'),
  ];
  await harness.look('running.saturated');
  await harness.askToStop('drain');
  await harness.lookClosely('stopping.draining');
  assert.is((await harness.post('/v1/runs', { prompt: 'hold' })).status, 503);
  await harness.refuses('start_deadline_passed', 'stopping.draining', STOP);
  await harness.cancel(last[0] as string);
  await harness.look('stopping.draining');
  for (const id of last.slice(1)) await harness.untilRun(id, 'streaming');
  await harness.upstream.finish();
  await harness.gone(0);
  assert.is((await harness.home.svc(['status'])).code, 3);
  assert.is((await harness.home.svc(['health'])).code, 3);
  return harness.leave();
}

/** A stop while the daemon starts, and a start that takes too long. */
async function cutStarts(): Promise<Walked> {
  const harness = await Harness.build({ LIMIT_PROBE_MS: 60_000, LIMIT_CLOSE_MS: 120_000 });
  harness.upstream.listing = 'hold';
  await harness.start('starting.probing');
  harness.signal('SIGTERM');
  await harness.until('stopping.closing');
  harness.upstream.answerLists('list');
  await harness.gone(0);
  harness.upstream.listing = 'hold';
  // The time has to last until the upstream is asked.
  await harness.untilWalked(
    'daemon',
    'starting.probing | daemon.start_deadline_passed | failed',
    async (turn) => {
      harness.launch({ LIMIT_START_MS: 2000 * 2 ** Math.min(turn, 4) });
      await harness.gone(4);
    },
  );
  return harness.leave();
}

/** Another program locks the event log: `opening` lasts until it releases the lock. */
async function heldLog(): Promise<Walked> {
  const harness = await Harness.build({ LIMIT_CLOSE_MS: 120_000 });
  await harness.start('ready');
  harness.signal('SIGTERM');
  await harness.gone(0);
  await behindLock(harness, {}, async () => {
    await harness.look('starting.opening');
    harness.signal('SIGTERM');
    await harness.until('stopping.closing');
    await harness.look('stopping.closing');
  });
  await harness.gone(0);
  // The events before the log opens become its first commit. For that it opens within half a second
  // after the deadline. How long the opening takes is found out. One that came too early is in the
  // log: the deadline may have met a later state of the same start.
  const openings = async () =>
    (await harness.events()).filter(({ type }) => type === 'daemon.store_opened').length;
  let opening_ms = 250;
  await harness.untilWalked(
    'daemon',
    'starting.opening | daemon.start_deadline_passed | failed',
    async () => {
      const before = await openings();
      await behindLock(harness, { LIMIT_START_MS: HELD_START_MS }, async () => {
        const open_at = harness.startedAt + HELD_START_MS + 250;
        await sleep(Math.max(0, open_at - opening_ms - Date.now()));
      });
      await waitLong(
        'the daemon has started or ended',
        async () =>
          harness.hasEnded || (await harness.report().catch(() => null))?.state_path === 'ready',
      );
      if (harness.hasEnded) await harness.gone(4);
      else await harness.kill();
      opening_ms += (await openings()) > before ? -100 : 150;
    },
  );
  return harness.leave();
}

const HELD_START_MS = 3000;

async function behindLock(
  harness: Harness,
  settings: Settings,
  meanwhile: () => Promise<unknown>,
): Promise<void> {
  const log = new Database(harness.home.paths.database);
  log.pragma('locking_mode = EXCLUSIVE');
  log.exec('BEGIN EXCLUSIVE');
  try {
    await harness.startAt('starting.opening', { LIMIT_STORE_LOCK_MS: 60_000, ...settings });
    await meanwhile();
  } finally {
    log.exec('ROLLBACK');
    log.close();
  }
}

/** One place: the first run takes the last one. Stops that do not wait, from each state. */
async function hurriedStops(): Promise<Walked> {
  const harness = await Harness.build({ RECOVERY: 'end' });
  await harness.start('ready', { LIMIT_QUEUE_RUNS: 1 });
  const run = await harness.run('say hold');
  await harness.lookClosely('running.saturated');
  await harness.cancel(run);
  await harness.look('ready');
  await harness.run('say hold');
  await harness.askToStop('force');
  await harness.gone(0);
  await harness.start('ready');
  await harness.run('say hold');
  await harness.askToStop('force');
  await harness.gone(0);
  await harness.start('ready');
  await harness.run('say hold');
  await harness.askToStop('drain', 100);
  await harness.gone(0);
  await harness.start('ready');
  await harness.run('say hold');
  harness.signal('SIGINT');
  await harness.until('stopping.draining');
  harness.signal('SIGINT');
  await harness.gone(0);
  await harness.start('ready');
  await harness.home.svc(['stop']);
  await harness.gone(0);
  return harness.leave();
}

/** So many runs are left by a crash that their recovery takes several steps, and can be met. */
async function longRecovery(): Promise<Walked> {
  const harness = await Harness.build({
    LIMIT_QUEUE_RUNS: 100_000,
    LIMIT_ACTIVE_RUNS: 1,
    LIMIT_DRAIN_MS: 0,
    LIMIT_CLOSE_MS: 120_000,
  });
  await harness.start('ready');
  await post(harness, 1200);
  await harness.kill();
  await harness.untilWalked(
    'daemon',
    'starting.recovering | daemon.stop_requested | stopping.closing',
    async (turn) => {
      if (turn > 0) {
        await harness.start('running.accepting');
        await post(harness, 1200);
        await harness.kill();
      }
      const state = await harness.start([
        'starting.recovering',
        'starting.probing',
        'running.accepting',
      ]);
      const isMet = state === 'starting.recovering' && (await looksInTime(harness, state, turn));
      harness.signal('SIGTERM');
      await harness.gone(0);
      return isMet;
    },
  );
  return harness.leave();
}

/**
 * Whether the state lasted until every interface was read. The last try reports a wrong reading.
 */
function looksInTime(harness: Harness, state: string, turn: number): Promise<boolean> {
  return harness.look(state).then(
    () => true,
    (error: unknown) => {
      if (turn + 1 === TURNS_MAX) throw error;
      return false;
    },
  );
}

async function post(harness: Harness, count: number): Promise<void> {
  let left = count;
  const client = async () => {
    for (; left > 0; left -= 1) await harness.run('hold');
  };
  await Promise.all(Array.from({ length: 32 }, client));
}

/** A crash leaves more runs than the next boot admits, and than it recovers in one step. */
async function fullAfterCrash(): Promise<Walked> {
  const harness = await Harness.build({ LIMIT_PROVIDER_RUNS: 2, LIMIT_PROBE_MS: 60_000 });
  await harness.start('ready');
  const runs: string[] = [];
  for (let index = 0; index < 5; index += 1) runs.push(await harness.run('hold'));
  await harness.kill();
  assert.is((await harness.home.svc(['status'])).code, 1);
  harness.upstream.listing = 'hold';
  await harness.start('starting.probing', { LIMIT_QUEUE_RUNS: 2, LIMIT_RECOVER_RUNS: 1 });
  await harness.look('starting.probing');
  await harness.cancel(runs[4] as string);
  harness.upstream.answerLists('list');
  await harness.until('running.saturated');
  await harness.look('running.saturated');
  await harness.cancel(runs[3] as string);
  await harness.look('running.saturated');
  await harness.cancel(runs[2] as string);
  await harness.cancel(runs[1] as string);
  await harness.until('running.accepting');
  await harness.kill();
  await harness.start('running.accepting');
  await harness.look('running.accepting');
  await harness.kill();
  return harness.leave();
}

/**
 * An engine that does not answer holds the daemon in its last state, until the deadline of that.
 */
async function stuckClose(): Promise<Walked> {
  const harness = await Harness.build(
    { LIMIT_DRAIN_MS: 0, LIMIT_ENGINE_STOP_MS: 60_000 },
    { engine: true },
  );
  const stopHeld = async (settings: Settings) => {
    await harness.start('ready', settings);
    const engine = await waitLong('the engine is warm', async () => {
      const report = await harness.report();
      return report.engine.state === 'warm.idle' && report.engine.pid;
    });
    process.kill(engine, 'SIGSTOP');
    harness.signal('SIGTERM');
    return engine;
  };
  const engine = await stopHeld({ LIMIT_CLOSE_MS: 60_000 });
  await harness.until('stopping.closing');
  await harness.lookClosely('stopping.closing');
  await harness.refuses('stop_requested', 'stopping.closing', []);
  process.kill(engine, 'SIGCONT');
  await harness.gone(0);
  await stopHeld({ LIMIT_CLOSE_MS: 1000 });
  await harness.gone(1);
  return harness.leave();
}

/**
 * The disk fills while the daemon runs: accepted runs continue, and new ones are refused until
 * there is space.
 */
async function fullDisk(): Promise<Walked> {
  const disk = mountDisk();
  const harness = await Harness.build(
    { LIMIT_QUEUE_RUNS: 2, LIMIT_DRAIN_MS: 600_000 },
    { folder: disk.folder },
  );
  await harness.start('ready');
  // With nothing to do, with a place left, and with none.
  for (const [runs, state, after] of [
    [0, 'ready', 'ready'],
    [1, 'running.accepting', 'running.accepting'],
    [2, 'running.saturated', 'running.saturated'],
  ] as const) {
    const ids: string[] = [];
    while (ids.length < runs) ids.push(await harness.run('say hold'));
    await harness.until(state);
    await held(harness, disk);
    await harness.lookClosely('running.disk_full');
    await harness.refuses('store_freed', 'running.disk_full', STOP);
    assert.is((await harness.post('/v1/runs', { prompt: 'finish' })).status, 507);
    disk.free();
    await harness.until(after);
    await harness.look(after);
    for (const id of ids) await harness.cancel(id);
    await harness.until('ready');
  }
  // A run settles while the disk is full.
  const run = await harness.run('say hold');
  await held(harness, disk);
  await harness.cancel(run);
  await harness.look('running.disk_full');
  harness.signal('SIGTERM');
  await harness.gone(0);
  disk.free();
  await harness.start('ready');
  await harness.untilRun(await harness.run('say hold'), 'streaming');
  await held(harness, disk);
  harness.signal('SIGTERM');
  await harness.until('stopping.draining');
  await harness.upstream.finish();
  await harness.gone(0);
  disk.free();
  const walked = await harness.leave();
  await disk.unmount();
  return walked;
}

/**
 * History over its limit is removed in every state. The test reads the log after each boot, because
 * its beginning is removed.
 */
async function pruned(): Promise<Walked> {
  const disk = mountDisk();
  const harness = await Harness.build(
    { HISTORY_KEEP_BYTES: 1_048_576, LIMIT_QUEUE_RUNS: 2, LOG_LEVEL: 'debug' },
    { folder: disk.folder },
  );
  const walked = new Walked();
  await harness.start('ready');
  await large(harness);
  await harness.kill();
  // A start prunes first, in the state that the runs of the boot before lead to.
  const left: string[] = [];
  for (const state of ['ready', 'running.accepting', 'running.saturated']) {
    await harness.start(state);
    await waitLong('history is removed', () => removals(harness) > 0);
    if (state === 'running.saturated') for (const id of left) await harness.cancel(id);
    else {
      await large(harness);
      left.push(await harness.run('hold'));
    }
    await harness.kill();
    walked.add(await harness.walked());
  }
  // A disk that is full takes no start, but a later round, if the disk fills before it.
  for (
    let every_ms = 3000;
    !walked.of('daemon').has('running.disk_full | daemon.history_pruned | running.disk_full');
    every_ms *= 2
  ) {
    assert.ok(every_ms < 50_000, 'history was not removed in running.disk_full');
    await harness.start('ready', { LIMIT_PRUNE_EVERY_MS: every_ms });
    await large(harness);
    await held(harness, disk);
    const before = removals(harness);
    // In vain where the round came before.
    await waitFor('history is removed', () => removals(harness) > before, {
      within_ms: 2 * every_ms,
    }).catch(() => undefined);
    await harness.kill();
    disk.free();
    walked.add(await harness.walked());
  }
  await harness.close();
  await disk.unmount();
  return walked;
}

/**
 * Finished runs that are more than the history may hold. One that is not there any more was removed
 * before it was looked at.
 */
async function large(harness: Harness): Promise<void> {
  for (let count = 0; count < 2; count += 1) {
    const id = await harness.run(`finish ${'x'.repeat(700_000)}`);
    await waitLong('the run is completed', async () =>
      ['completed', undefined].includes((await harness.show(id)).state),
    );
  }
}

/**
 * Events of it that are on disk: a daemon that is killed earlier has removed history and not said
 * so.
 */
function removals(harness: Harness): number {
  return harness.printed('daemon.history_pruned');
}

/**
 * Fills the disk, and makes the daemon write until it notices: the log may have space for some
 * commits.
 */
async function held(harness: Harness, disk: Disk): Promise<void> {
  disk.fill();
  await waitLong('the daemon is running.disk_full', async () => {
    await harness.home.svc(['provider', 'test', 'up']);
    return (await harness.report()).state_path === 'running.disk_full';
  });
}

export const daemonScenarios = [
  wholeBoot,
  cutStarts,
  heldLog,
  hurriedStops,
  longRecovery,
  fullAfterCrash,
  stuckClose,
  ...(canMount ? [fullDisk, pruned] : []),
  ...silentScenarios,
];
