import { copyFileSync, linkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeModel } from '../helpers/pulls.ts';
import type { Walked } from './edges.ts';
import { Harness, type Settings, waitLong } from './harness.ts';
import { startHeld } from './walk-run.ts';

/**
 * Scenarios of the engine process. Signals stop, continue and kill it at the moments that matter.
 * Only states that last until something is done about them are waited for: one that ends by itself
 * may be over before a busy machine looks. Whether the process was stopped in time is asked of the
 * log.
 */

/** It does not end by itself when it is asked to, and the daemon waits for it. */
const HELD = { LIMIT_ENGINE_STOP_MS: 60_000, LIMIT_DRAIN_MS: 0, LIMIT_CLOSE_MS: 120_000 };
/** However far it has come when it is stopped, a deadline asks it to end, and another kills it. */
const SHORT = {
  LIMIT_ENGINE_START_MS: 1000,
  LIMIT_ENGINE_LOAD_MS: 1000,
  LIMIT_ENGINE_IDLE_MS: 1000,
  LIMIT_ENGINE_STOP_MS: 500,
};
const PULSE_MS = 10;

/** Cut off before it has said that it has started. */
function startIsCut(): Promise<Walked> {
  return cutWhile('starting', heldAtItsStart, SHORT);
}

/** The same while it loads the model. */
function loadIsCut(): Promise<Walked> {
  return cutWhile('loading', heldWhileItLoads, SHORT);
}

async function cutWhile(
  state: string,
  hold: (harness: Harness, settings?: Settings) => Promise<number>,
  short: Settings,
): Promise<Walked> {
  const harness = await Harness.build({}, { engine: true });
  // After a kill, the next run that needs the engine starts it again after a wait.
  await harness.untilWalked('engine', `${state} | engine.exited | crashed`, async () => {
    process.kill(await hold(harness), 'SIGKILL');
    await isEngine(harness, 'cold');
    await harness.kill();
  });
  // It is not done in time, and does not end when it is asked to.
  await harness.untilWalked(
    'engine',
    `${state} | engine.deadline_passed | stopping.asked`,
    async () => {
      await hold(harness, short);
      await isEngine(harness, 'cold');
      await harness.kill();
    },
  );
  // The daemon stops meanwhile.
  await harness.untilWalked(
    'engine',
    `${state} | engine.stop_requested | stopping.asked`,
    async () => {
      const pid = await hold(harness, HELD);
      harness.signal('SIGTERM');
      await isEngine(harness, 'stopping.asked');
      process.kill(pid, 'SIGCONT');
      await harness.gone(0);
    },
  );
  return harness.leave();
}

/** Stops the process as soon as there is one. */
async function heldAtItsStart(harness: Harness, settings: Settings = {}): Promise<number> {
  const ready = harness.start('ready', settings);
  // Its failure is met below, maybe later than it comes.
  ready.catch(() => undefined);
  const pid = await newEngine(harness);
  process.kill(pid, 'SIGSTOP');
  await ready;
  return pid;
}

/** It goes on for moments only, until it has started. */
async function heldWhileItLoads(harness: Harness, settings: Settings = {}): Promise<number> {
  const pid = await heldAtItsStart(harness, settings);
  while ((await harness.report()).engine.state === 'starting') {
    process.kill(pid, 'SIGCONT');
    await sleep(PULSE_MS);
    process.kill(pid, 'SIGSTOP');
  }
  return pid;
}

/** An invalid model, and a program that is gone. */
async function cannotLoad(): Promise<Walked> {
  const harness = await Harness.build({}, { engine: true });
  await harness.start('ready');
  await isEngine(harness, 'warm.idle');
  writeFileSync(join(harness.home.paths.models, 'empty.gguf'), makeModel(16));
  const run = await harness.run('hello', { provider: 'local', model: 'empty' });
  await harness.untilRun(run, 'failed');
  await waitLong(
    'only the first model has a process',
    async () => (await harness.report()).engines.length === 1,
    3,
  );
  await harness.kill();
  // The daemon runs from a program file that is not there any more: no process can be made of it.
  const node = join(harness.home.folder, 'node');
  try {
    linkSync(process.execPath, node);
  } catch {
    copyFileSync(process.execPath, node);
  }
  await harness.start('ready', { MODEL: 'absent' }, node);
  rmSync(node);
  const failed = await harness.run('hello', { provider: 'local', model: 'endless', max_tokens: 1 });
  await harness.untilRun(failed, 'failed');
  await isEngine(harness, 'cold');
  await harness.kill();
  return harness.leave();
}

/** It works, rests, is put away, and dies in each of these. */
async function worksAndDies(): Promise<Walked> {
  const harness = await Harness.build(
    { LIMIT_CANCEL_GRACE_MS: 500, LIMIT_ENGINE_STOP_MS: 60_000 },
    { engine: true },
  );
  await harness.start('ready');
  await isEngine(harness, 'warm.idle');
  const short = await harness.run('hello', { provider: 'local', max_tokens: 1 });
  await harness.untilRun(short, 'completed');
  const idle = (await harness.report()).engine.pid as number;
  process.kill(idle, 'SIGKILL');
  await waitLong(
    'its death is noticed',
    async () => (await harness.report()).engine.state !== 'warm.idle',
    3,
  );
  const next = await harness.run('hello', { provider: 'local', max_tokens: 1 });
  await harness.untilRun(next, 'completed');
  const { id, engine } = await startHeld(harness);
  process.kill(engine, 'SIGKILL');
  await harness.cancel(id);
  await harness.untilRun(
    await harness.run('hello', { provider: 'local', max_tokens: 1 }),
    'completed',
  );
  // Work that does not end when it is cancelled takes its process with it.
  const stuck = await startHeld(harness);
  const cancelled = harness.cancel(stuck.id);
  cancelled.catch(() => undefined);
  await isEngine(harness, 'stopping.asked');
  process.kill(stuck.engine, 'SIGCONT');
  await cancelled;
  await harness.kill();
  await harness.start('ready', { LIMIT_ENGINE_IDLE_MS: 1000 });
  await harness.untilRun(
    await harness.run('hello', { provider: 'local', max_tokens: 1 }),
    'completed',
  );
  await isEngine(harness, 'cold');
  harness.signal('SIGTERM');
  await harness.gone(0);
  return harness.leave();
}

function newEngine(harness: Harness): Promise<number> {
  return waitLong('there is an engine process', async () => (await harness.engines())[0], 2);
}

function isEngine(harness: Harness, state: string): Promise<unknown> {
  return waitLong(
    `the engine is ${state}`,
    async () => (await harness.report()).engine.state === state,
    3,
  );
}

export const engineScenarios = [startIsCut, loadIsCut, cannotLoad, worksAndDies];
