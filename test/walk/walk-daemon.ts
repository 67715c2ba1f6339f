import { createServer } from 'node:net';
import Database from 'better-sqlite3';
import * as assert from 'uvu/assert';
import { waitFor } from '../helpers/wait.ts';
import { canMount, type Disk, mountDisk } from './disk.ts';
import type { Walked } from './edges.ts';
import { House, type Settings } from './life.ts';

/** Lives of the daemon: each function is one home, in which one or more daemons live one after the other. */

const STOP = ['stop_requested'];

/** Every state with a name of its own, entered and left in the common way, looked at through every door. */
async function wholeLife(): Promise<Walked> {
  const house = await House.build({ LIMIT_PROBE_MS: 60_000, LIMIT_QUEUE_RUNS: 3 });
  house.upstream.listing = 'hold';
  await house.start('starting.probing');
  await waitFor('the upstream is asked', () => house.upstream.isAsked);
  await house.lookClosely('starting.probing');
  assert.is((await house.post('/v1/runs', { prompt: 'hold' })).status, 503);
  for (const type of ['store_opened', 'stopped', 'nope']) await house.refuses(type, 'starting.probing', STOP);
  house.upstream.answerLists('list');
  await house.until('ready');
  await house.lookClosely('ready');
  for (const type of ['providers_probed', 'run_settled', '__proto__']) await house.refuses(type, 'ready', STOP);
  const first = await house.run('say hold');
  await house.lookClosely('running.accepting');
  await house.refuses('run_admitted', 'running.accepting', STOP);
  const second = await house.run('say hold');
  await house.look('running.accepting');
  await house.run('say hold');
  await house.lookClosely('running.saturated');
  assert.is((await house.post('/v1/runs', { prompt: 'hold' })).status, 429);
  await house.refuses('store_freed', 'running.saturated', STOP);
  await house.cancel(first);
  await house.look('running.accepting');
  await house.cancel(second);
  await house.look('running.accepting');
  await house.upstream.finish();
  await house.until('ready');
  await house.look('ready');
  const last = [await house.run('say hold'), await house.run('say hold'), await house.run('say hold')];
  await house.look('running.saturated');
  await house.askToStop('drain');
  await house.lookClosely('stopping.draining');
  assert.is((await house.post('/v1/runs', { prompt: 'hold' })).status, 503);
  await house.refuses('start_deadline_passed', 'stopping.draining', STOP);
  await house.cancel(last[0] as string);
  await house.look('stopping.draining');
  await waitFor('the others stream', () => house.upstream.held.size === 2);
  await house.upstream.finish();
  await house.gone(0);
  assert.is((await house.home.svc(['status'])).code, 3);
  assert.is((await house.home.svc(['health'])).code, 3);
  return house.leave();
}

/** A stop while the daemon starts, and a start that takes too long. */
async function cutStarts(): Promise<Walked> {
  const house = await House.build();
  house.upstream.listing = 'hold';
  await house.start('starting.probing', { LIMIT_PROBE_MS: 10_000 });
  house.signal('SIGTERM');
  await house.gone(0);
  await house.start('starting.probing', { LIMIT_PROBE_MS: 60_000, LIMIT_START_MS: 8000 });
  await house.gone(4);
  return house.leave();
}

/** Another program holds the event log: `opening` lasts until it lets go. */
async function heldLog(): Promise<Walked> {
  const house = await House.build();
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
  // What happened before the log was open is its first commit, if it can be made before the daemon gives up.
  for (let turn = 0, recorded = false; !recorded; turn += 1) {
    assert.ok(turn < 8, 'the log was free too late each time');
    await behindLock(house, { LIMIT_START_MS: 1000 }, () => house.until('failed'));
    await house.gone(4);
    recorded = (await house.walked()).has('starting.opening | daemon.start_deadline_passed | failed');
  }
  return house.leave();
}

async function behindLock(house: House, settings: Settings, meanwhile: () => Promise<void>): Promise<void> {
  const log = new Database(house.home.paths.database);
  log.pragma('locking_mode = EXCLUSIVE');
  log.exec('BEGIN EXCLUSIVE');
  try {
    await house.startAt({ http: await freeAddress(), grpc: await freeAddress() }, 'starting.opening', { LIMIT_STORE_LOCK_MS: 60_000, ...settings });
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

/** So many runs are left by a crash that their recovery can be met, and outlasts the time that the start may take. */
async function longRecovery(): Promise<Walked> {
  const house = await House.build({ LIMIT_QUEUE_RUNS: 100_000, LIMIT_ACTIVE_RUNS: 1 });
  await house.start('ready');
  await post(house, 1200);
  await house.kill();
  for (let turn = 0, start_ms = 1000, outlasted = false; !outlasted; turn += 1) {
    assert.ok(turn < 8, 'the recovery was met too early or too late each time');
    const seen = house.start('running.accepting', { LIMIT_START_MS: start_ms }).then(
      () => 'running',
      () => 'ended',
    );
    if ((await seen) === 'running') {
      await post(house, 1200);
      await house.kill();
    } else {
      await house.gone(4);
      outlasted = (await house.walked()).has('starting.recovering | daemon.start_deadline_passed | failed');
      if (!outlasted) start_ms *= 2;
    }
  }
  await house.start('starting.recovering');
  await house.look('starting.recovering');
  house.signal('SIGTERM');
  await house.gone(0);
  return house.leave();
}

async function post(house: House, count: number): Promise<void> {
  let left = count;
  const client = async () => {
    for (; left > 0; left -= 1) await house.run('hold');
  };
  await Promise.all(Array.from({ length: 32 }, client));
}

/** More runs are left by a crash than the next life takes. */
async function fullAfterCrash(): Promise<Walked> {
  const house = await House.build({ LIMIT_PROVIDER_RUNS: 1, LIMIT_PROBE_MS: 60_000 });
  await house.start('ready');
  const runs: string[] = [];
  for (let index = 0; index < 5; index += 1) runs.push(await house.run('hold'));
  await house.kill();
  assert.is((await house.home.svc(['status'])).code, 1);
  house.upstream.listing = 'hold';
  await house.start('starting.probing', { LIMIT_QUEUE_RUNS: 2 });
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
  const house = await House.build({ LIMIT_DRAIN_MS: 0, LIMIT_ENGINE_STOP_MS: 60_000 }, { engine: true });
  const stopHeld = async (settings: Settings) => {
    await house.start('ready', settings);
    const engine = await waitFor('the engine is warm', async () => {
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
  const house = await House.build({ LIMIT_QUEUE_RUNS: 2, LIMIT_DRAIN_MS: 60_000 }, { folder: disk.folder });
  try {
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
      await house.lookClosely('running.held');
      await house.refuses('store_freed', 'running.held', STOP);
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
    await house.look('running.held');
    house.signal('SIGTERM');
    await house.gone(0);
    disk.free();
    await house.start('ready');
    await house.run('say hold');
    await held(house, disk);
    house.signal('SIGTERM');
    await house.until('stopping.draining');
    await house.upstream.finish();
    await house.gone(0);
    disk.free();
    return await house.leave();
  } finally {
    await house.close().catch(() => undefined);
    disk.unmount();
  }
}

/** History beyond its bound is removed, whatever the daemon does meanwhile. */
async function pruned(): Promise<Walked> {
  const states = ['ready', 'running.accepting', 'running.saturated', 'running.held'];
  for (let every_ms = 3000; ; every_ms *= 2) {
    const walked = await pruneInEachState(every_ms);
    const missed = states.filter((state) => !walked.of('daemon').has(`${state} | daemon.history_pruned | ${state}`));
    if (missed.length === 0) return walked;
    assert.ok(every_ms < 20_000, `history was not removed in ${missed.join(', ')}`);
  }
}

/** A round finds the state that was made since the one before, if that was made in time. */
async function pruneInEachState(every_ms: number): Promise<Walked> {
  const disk = mountDisk();
  const house = await House.build({ HISTORY_KEEP_BYTES: 1_048_576, LIMIT_PRUNE_EVERY_MS: every_ms, LIMIT_QUEUE_RUNS: 2 }, { folder: disk.folder });
  try {
    await house.start('ready');
    await large(house);
    await removed(house, 1);
    const first = await house.run('hold');
    await large(house);
    await removed(house, 2);
    await large(house);
    await house.run('hold');
    await house.look('running.saturated');
    await removed(house, 3);
    await house.cancel(first);
    await large(house);
    await held(house, disk);
    await removed(house, 4);
    await house.kill();
    return await house.leave();
  } finally {
    await house.close().catch(() => undefined);
    disk.unmount();
  }
}

/** Finished runs that are more than the history may hold. */
async function large(house: House): Promise<void> {
  for (let count = 0; count < 2; count += 1) await house.untilRun(await house.run(`finish ${'x'.repeat(700_000)}`), 'completed');
}

function removed(house: House, times: number): Promise<unknown> {
  return waitFor('history is removed', () => house.printed('history was removed') >= times);
}

/** Fills the disk, and makes the daemon write until it has noticed. */
async function held(house: House, disk: Disk): Promise<void> {
  disk.fill();
  await house.home.svc(['provider', 'test', 'up']);
  await house.until('running.held');
}

async function freeAddress(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return `127.0.0.1:${port}`;
}

export const daemonLives = [wholeLife, cutStarts, heldLog, hurriedStops, longRecovery, fullAfterCrash, stuckClose, ...(canMount() ? [fullDisk, pruned] : [])];
