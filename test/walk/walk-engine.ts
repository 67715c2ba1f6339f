import { copyFileSync, linkSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { makeModel } from '../helpers/pulls.ts';
import { waitFor } from '../helpers/wait.ts';
import type { Walked } from './edges.ts';
import { House, type Settings } from './life.ts';
import { startHeld } from './walk-run.ts';

/**
 * Lives of the engine process, which is stopped, continued and killed from outside at the moments that matter. Only states that last until
 * something is done about them are waited for: one that ends by itself may be over before a busy machine looks.
 */

const HELD = { LIMIT_ENGINE_STOP_MS: 60_000, LIMIT_DRAIN_MS: 0 };

/** Stops the process as soon as there is one: it never says that it has started. */
async function heldAtItsStart(house: House, settings: Settings): Promise<number> {
  const starting = house.start('ready', settings);
  const pid = await newEngine(house);
  process.kill(pid, 'SIGSTOP');
  await starting;
  await isEngine(house, 'starting');
  return pid;
}

async function startIsCut(): Promise<Walked> {
  const house = await House.build({}, { engine: true });
  // Killed before it has started: it is tried again after a wait, by whoever needs it.
  const first = await heldAtItsStart(house, {});
  process.kill(first, 'SIGKILL');
  await isEngine(house, 'cold');
  await house.kill();
  // It does not come up in time, and does not end when it is asked to.
  await heldAtItsStart(house, { LIMIT_ENGINE_START_MS: 1000, LIMIT_ENGINE_STOP_MS: 500 });
  await isEngine(house, 'cold');
  await house.kill();
  // The daemon stops meanwhile.
  const third = await heldAtItsStart(house, HELD);
  house.signal('SIGTERM');
  await isEngine(house, 'stopping.asked');
  process.kill(third, 'SIGCONT');
  await house.gone(0);
  return house.leave();
}

/** The same while it loads the model. */
async function loadIsCut(): Promise<Walked> {
  const house = await House.build({}, { engine: true });
  const first = await heldWhileItLoads(house, {});
  process.kill(first, 'SIGKILL');
  await isEngine(house, 'cold');
  await house.kill();
  await heldWhileItLoads(house, { LIMIT_ENGINE_LOAD_MS: 1000, LIMIT_ENGINE_STOP_MS: 500 });
  await isEngine(house, 'cold');
  await house.kill();
  const third = await heldWhileItLoads(house, HELD);
  house.signal('SIGTERM');
  await isEngine(house, 'stopping.asked');
  process.kill(third, 'SIGCONT');
  await house.gone(0);
  return house.leave();
}

async function heldWhileItLoads(house: House, settings: Settings): Promise<number> {
  const starting = house.start('ready', settings);
  const pid = await newEngine(house);
  await starting;
  for (let state = 'starting'; state === 'starting'; state = (await house.report()).engine.state) {
    process.kill(pid, 'SIGCONT');
    await new Promise((resolve) => setTimeout(resolve, 2));
    process.kill(pid, 'SIGSTOP');
  }
  await isEngine(house, 'loading');
  return pid;
}

/** A model that is none, and a program that is gone. */
async function cannotLoad(): Promise<Walked> {
  const house = await House.build({}, { engine: true });
  await house.start('ready');
  await isEngine(house, 'warm.idle');
  const { writeFileSync } = await import('node:fs');
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
  await house.untilRun(failed, 'backoff');
  await isEngine(house, 'cold');
  await house.kill();
  return house.leave();
}

/** It works, rests, is put away, and dies in each of these. */
async function worksAndDies(): Promise<Walked> {
  const house = await House.build({ LIMIT_CANCEL_GRACE_MS: 500, LIMIT_ENGINE_STOP_MS: 60_000 }, { engine: true });
  await house.start('ready');
  await isEngine(house, 'warm.idle');
  const short = await house.run('hello', { provider: 'local', max_tokens: 1 });
  await house.untilRun(short, 'completed');
  const idle = (await house.report()).engine.pid as number;
  process.kill(idle, 'SIGKILL');
  await waitFor('its death is noticed', async () => (await house.report()).engine.state !== 'warm.idle', { every_ms: 3 });
  const next = await house.run('hello', { provider: 'local', max_tokens: 1 });
  await house.untilRun(next, 'completed');
  const { id, engine } = await startHeld(house);
  process.kill(engine, 'SIGKILL');
  await house.cancel(id);
  await house.untilRun(await house.run('hello', { provider: 'local', max_tokens: 1 }), 'completed');
  // Work that does not end when it is cancelled takes its process with it.
  const stuck = await startHeld(house);
  const cancelled = house.cancel(stuck.id);
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
  return waitFor('there is an engine process', async () => (await house.engines())[0], { every_ms: 2 });
}

function isEngine(house: House, state: string): Promise<unknown> {
  return waitFor(`the engine is ${state}`, async () => (await house.report()).engine.state === state, { every_ms: 3 });
}

export const engineLives = [startIsCut, loadIsCut, cannotLoad, worksAndDies];
