import { copyFileSync, linkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeModel } from '../helpers/pulls.ts';
import type { Walked } from './edges.ts';
import { House, type Settings, waitLong } from './life.ts';
import { startHeld } from './walk-run.ts';

/**
 * Lives of the engine process, which is stopped, continued and killed from outside at the moments that matter. Only states that last until
 * something is done about them are waited for: one that ends by itself may be over before a busy machine looks. Whether the process was
 * stopped in time is asked of the log.
 */

/** It does not end by itself when it is asked to, and the daemon waits for it. */
const HELD = { LIMIT_ENGINE_STOP_MS: 60_000, LIMIT_DRAIN_MS: 0, LIMIT_CLOSE_MS: 120_000 };
/** However far it has come when it is stopped, a deadline asks it to end, and another kills it. */
const SHORT = { LIMIT_ENGINE_LOAD_MS: 1000, LIMIT_ENGINE_IDLE_MS: 1000, LIMIT_ENGINE_STOP_MS: 500 };
const PULSE_MS = 10;

/** Cut off before it has said that it has started. */
function startIsCut(): Promise<Walked> {
  return cutWhile('starting', heldAtItsStart, { ...SHORT, LIMIT_ENGINE_START_MS: 3000 });
}

/** The same while it loads the model. */
function loadIsCut(): Promise<Walked> {
  return cutWhile('loading', heldWhileItLoads, SHORT);
}

async function cutWhile(
  state: string,
  hold: (house: House, settings?: Settings) => Promise<number>,
  short: Settings,
): Promise<Walked> {
  const house = await House.build({}, { engine: true });
  // After a kill, the next run that needs the engine starts it again after a wait.
  await house.untilWalked('engine', `${state} | engine.exited | crashed`, async () => {
    process.kill(await hold(house), 'SIGKILL');
    await isEngine(house, 'cold');
    await house.kill();
  });
  // It is not done in time, and does not end when it is asked to.
  await house.untilWalked(
    'engine',
    `${state} | engine.deadline_passed | stopping.asked`,
    async () => {
      await hold(house, short);
      await isEngine(house, 'cold');
      await house.kill();
    },
  );
  // The daemon stops meanwhile.
  await house.untilWalked(
    'engine',
    `${state} | engine.stop_requested | stopping.asked`,
    async () => {
      const pid = await hold(house, HELD);
      house.signal('SIGTERM');
      await isEngine(house, 'stopping.asked');
      process.kill(pid, 'SIGCONT');
      await house.gone(0);
    },
  );
  return house.leave();
}

/** Stops the process as soon as there is one. */
async function heldAtItsStart(house: House, settings: Settings = {}): Promise<number> {
  const ready = house.start('ready', settings);
  // Its failure is met below, maybe later than it comes.
  ready.catch(() => undefined);
  const pid = await newEngine(house);
  process.kill(pid, 'SIGSTOP');
  await ready;
  return pid;
}

/** It goes on for moments only, until it has started. */
async function heldWhileItLoads(house: House, settings: Settings = {}): Promise<number> {
  const pid = await heldAtItsStart(house, settings);
  while ((await house.report()).engine.state === 'starting') {
    process.kill(pid, 'SIGCONT');
    await sleep(PULSE_MS);
    process.kill(pid, 'SIGSTOP');
  }
  return pid;
}

/** A model that is none, and a program that is gone. */
async function cannotLoad(): Promise<Walked> {
  const house = await House.build({}, { engine: true });
  await house.start('ready');
  await isEngine(house, 'warm.idle');
  writeFileSync(join(house.home.paths.models, 'empty.gguf'), makeModel(16));
  const run = await house.run('hello', { provider: 'local', model: 'empty' });
  await house.untilRun(run, 'failed');
  await isEngine(house, 'cold');
  await house.kill();
  // The daemon runs from a program file that is not there any more: no process can be made of it.
  const node = join(house.home.folder, 'node');
  try {
    linkSync(process.execPath, node);
  } catch {
    copyFileSync(process.execPath, node);
  }
  await house.start('ready', { MODEL: 'absent' }, node);
  rmSync(node);
  const failed = await house.run('hello', { provider: 'local', model: 'endless', max_tokens: 1 });
  await house.untilRun(failed, 'failed');
  await isEngine(house, 'cold');
  await house.kill();
  return house.leave();
}

/** It works, rests, is put away, and dies in each of these. */
async function worksAndDies(): Promise<Walked> {
  const house = await House.build(
    { LIMIT_CANCEL_GRACE_MS: 500, LIMIT_ENGINE_STOP_MS: 60_000 },
    { engine: true },
  );
  await house.start('ready');
  await isEngine(house, 'warm.idle');
  const short = await house.run('hello', { provider: 'local', max_tokens: 1 });
  await house.untilRun(short, 'completed');
  const idle = (await house.report()).engine.pid as number;
  process.kill(idle, 'SIGKILL');
  await waitLong(
    'its death is noticed',
    async () => (await house.report()).engine.state !== 'warm.idle',
    3,
  );
  const next = await house.run('hello', { provider: 'local', max_tokens: 1 });
  await house.untilRun(next, 'completed');
  const { id, engine } = await startHeld(house);
  process.kill(engine, 'SIGKILL');
  await house.cancel(id);
  await house.untilRun(await house.run('hello', { provider: 'local', max_tokens: 1 }), 'completed');
  // Work that does not end when it is cancelled takes its process with it.
  const stuck = await startHeld(house);
  const cancelled = house.cancel(stuck.id);
  cancelled.catch(() => undefined);
  await isEngine(house, 'stopping.asked');
  process.kill(stuck.engine, 'SIGCONT');
  await cancelled;
  await house.kill();
  await house.start('ready', { LIMIT_ENGINE_IDLE_MS: 1000 });
  await house.untilRun(await house.run('hello', { provider: 'local', max_tokens: 1 }), 'completed');
  await isEngine(house, 'cold');
  house.signal('SIGTERM');
  await house.gone(0);
  return house.leave();
}

function newEngine(house: House): Promise<number> {
  return waitLong('there is an engine process', async () => (await house.engines())[0], 2);
}

function isEngine(house: House, state: string): Promise<unknown> {
  return waitLong(
    `the engine is ${state}`,
    async () => (await house.report()).engine.state === state,
    3,
  );
}

export const engineLives = [startIsCut, loadIsCut, cannotLoad, worksAndDies];
