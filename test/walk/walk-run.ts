import { setTimeout as sleep } from 'node:timers/promises';
import * as assert from 'uvu/assert';
import { waitFor } from '../helpers/wait.ts';
import type { Walked } from './edges.ts';
import { House } from './life.ts';

/** Lives of runs, at a scripted upstream and at the built-in engine. */

const PROVIDERS = { up: {}, narrow: { max_runs: 1 } };

/** Every end that an upstream, a client or the clock can give a run. */
async function everyEnd(): Promise<Walked> {
  const house = await House.build({ LIMIT_FIRST_OUTPUT_MS: 8000, LIMIT_IDLE_MS: 8000, LIMIT_QUEUE_MS: 8000, LIMIT_RUN_ATTEMPTS: 2 }, { providers: PROVIDERS });
  await house.start('ready');
  const ends: [prompt: string, state: string, fields?: Record<string, unknown>][] = [
    ['hold', 'timed_out'],
    ['say hold', 'timed_out'],
    ['finish', 'completed'],
    ['say say finish', 'completed'],
    ['400', 'failed'],
    ['503', 'failed'],
    ['say error', 'failed'],
    ['say cut', 'interrupted'],
    ['503 after', 'timed_out', { timeout_ms: 1000 }],
    ['hold', 'timed_out', { provider: 'narrow' }],
    ['hold', 'timed_out', { provider: 'narrow' }],
  ];
  const ids = await Promise.all(ends.map(([prompt, , fields]) => house.run(prompt, fields)));
  const cancelled: [prompt: string, state: string, provider?: string][] = [
    ['hold', 'starting'],
    ['say hold', 'streaming'],
    ['503 after', 'backoff'],
    ['hold', 'queued', 'narrow'],
  ];
  for (const [prompt, state, provider = 'up'] of cancelled) {
    const id = await house.run(prompt, { provider });
    await house.untilRun(id, state);
    await house.cancel(id);
    await house.cancel(id);
    assert.is((await house.show(id)).state, 'cancelled', `cancelled in ${state}`);
  }
  for (const [index, [prompt, state]] of ends.entries()) assert.ok(await house.untilRun(ids[index] as string, state), prompt);
  // Two outputs are two facts only when the second comes after the commit of the first.
  const slow = await house.run('say hold');
  await house.untilRun(slow, 'streaming');
  await house.upstream.say();
  await house.upstream.finish();
  await house.untilRun(slow, 'completed');
  house.signal('SIGTERM');
  await house.gone(0);
  return house.leave();
}

/** A stop that does not wait: what may go on is handed over, the rest ends. */
async function handedOver(): Promise<Walked> {
  const house = await House.build({}, { providers: PROVIDERS });
  await house.start('ready');
  const [starting, backoff, streaming] = [await house.run('hold'), await house.run('503 after'), await house.run('say hold')];
  await house.untilRun(starting, 'starting');
  await house.untilRun(backoff, 'backoff');
  await house.untilRun(streaming, 'streaming');
  await house.askToStop('force');
  await house.gone(0);
  await house.start('running.accepting');
  await house.untilRun(starting, 'starting');
  assert.is((await house.show(streaming)).state, 'interrupted');
  await house.kill();
  return house.leave();
}

/** A death of the daemon in each state of a run, under each policy; and again while they wait to be taken up. */
async function killed(): Promise<Walked> {
  const house = await House.build({ LIMIT_PROVIDER_RUNS: 64 }, { providers: PROVIDERS });
  await house.start('ready');
  const left: [prompt: string, recovery: string, before: string, after: string[]][] = [
    ['hold', 'resume', 'starting', ['suspended', 'starting']],
    ['hold', 'end', 'starting', ['interrupted']],
    ['say hold', 'restart', 'streaming', ['suspended', 'starting', 'streaming']],
    ['say hold', 'resume', 'streaming', ['interrupted']],
    ['503 after', 'resume', 'backoff', ['suspended', 'starting', 'backoff']],
    ['503 after', 'end', 'backoff', ['interrupted']],
  ];
  const ids = await Promise.all(left.map(([prompt, recovery]) => house.run(prompt, { recovery })));
  for (const [index, [, , before]] of left.entries()) await house.untilRun(ids[index] as string, before);
  // What waits behind them, at a provider that answers one at a time: the first is cut off, the others wait again.
  const queue = [await house.run('say hold', { provider: 'narrow', recovery: 'restart' })];
  await house.untilRun(queue[0] as string, 'streaming');
  queue.push(await house.run('hold', { provider: 'narrow' }));
  await house.kill();

  await house.start('running.accepting');
  for (const [index, [prompt, recovery, , after]] of left.entries()) {
    const { state } = await house.show(ids[index] as string);
    assert.ok(after.includes(state), `${prompt} (${recovery}) is ${state}`);
  }
  assert.is((await house.show(queue[1] as string)).state, 'queued');
  await house.kill();
  return house.leave();
}

/** Runs that were cut off wait for their turn: at a provider that takes one at a time all but one stay `suspended`. */
async function suspended(): Promise<Walked> {
  const house = await House.build({}, { providers: PROVIDERS });
  await house.start('ready');
  const ids: string[] = [];
  for (const timeout_ms of [600_000, 15_000, 600_000, 600_000]) {
    ids.push(await house.run('hold', { timeout_ms }));
    await house.untilRun(ids.at(-1) as string, 'starting');
  }
  await house.kill();
  await house.start('running.accepting', { LIMIT_PROVIDER_RUNS: 1 });
  await house.untilRun(ids[0] as string, 'starting');
  const states = await Promise.all(ids.map(async (id) => (await house.show(id)).state));
  assert.equal(states, ['starting', 'suspended', 'suspended', 'suspended']);
  await house.cancel(ids[2] as string);
  await house.untilRun(ids[1] as string, 'timed_out');
  await house.kill();
  await house.start('running.accepting', { LIMIT_PROVIDER_RUNS: 1 });
  assert.is((await house.show(ids[3] as string)).state, 'suspended');
  await house.kill();
  return house.leave();
}

/** Work at the built-in engine, which is held by stopping its process: it does not end when it is asked to. */
async function stuckWork(): Promise<Walked> {
  const house = await House.build({ LIMIT_CANCEL_GRACE_MS: 60_000, LIMIT_CLOSE_MS: 120_000, LIMIT_ENGINE_STOP_MS: 1000 }, { engine: true });
  await house.start('ready');
  for (const how of ['cancel', 'kill'] as const) {
    const { id, engine } = await startHeld(house);
    await house.askToStop('force');
    await house.until('stopping.closing');
    await house.untilRun(id, 'cancelling');
    if (how === 'cancel') {
      const cancelled = house.cancel(id);
      await waitFor('the cancel is recorded', async () =>
        ((await house.get(`/v1/runs/${id}/why`)) as { events: { type: string }[] }).events.some(({ type }) => type === 'run.cancel_requested'),
      );
      process.kill(engine, 'SIGCONT');
      await cancelled;
      await house.gone(0);
    } else {
      await house.kill();
      process.kill(engine, 'SIGKILL');
    }
    await house.start(how === 'cancel' ? 'ready' : 'running.accepting');
  }
  await house.kill();
  return house.leave();
}

/** The engine dies under a run that has text, and again before the run has more. */
async function lostWork(): Promise<Walked> {
  const house = await House.build({}, { engine: true });
  await house.start('ready');
  const { id, engine } = await startHeld(house);
  process.kill(engine, 'SIGKILL');
  const next = await waitFor('the engine is started again', async () => (await house.engines()).find((pid) => pid !== engine));
  process.kill(next, 'SIGKILL');
  await house.untilRun(id, 'completed');
  await house.kill();
  return house.leave();
}

/** What was asked is not kept in the log: a run that a death of the daemon cuts off ends, even where it only waited. */
async function notKept(): Promise<Walked> {
  const house = await House.build({ HISTORY_PROMPTS: 'omit' }, { providers: PROVIDERS });
  await house.start('ready');
  const [answered, waits] = [await house.run('hold', { provider: 'narrow' }), await house.run('hold', { provider: 'narrow' })];
  await house.untilRun(answered, 'starting');
  await house.kill();
  await house.start('ready');
  for (const id of [answered, waits]) {
    const { state, error } = await house.show(id);
    assert.equal([state, error?.code], ['interrupted', 'content_not_kept']);
  }
  await house.kill();
  return house.leave();
}

/** A run of the built-in engine with some text, whose engine is stopped in the middle of its work. */
export async function startHeld(house: House): Promise<{ id: string; engine: number }> {
  const engine = await waitFor('the engine is warm', async () => {
    const report = await house.report();
    return report.engine.state === 'warm.idle' && report.engine.pid;
  });
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    process.kill(engine, 'SIGSTOP');
    const id = await house.run('go on', { provider: 'local', max_tokens: 3000, temperature: 0 });
    // It works for a few milliseconds at a time, so that its answer is met in the middle.
    for (let state = 'starting'; state === 'starting' || state === 'queued'; state = (await house.show(id)).state) {
      process.kill(engine, 'SIGCONT');
      await sleep(PULSE_MS);
      process.kill(engine, 'SIGSTOP');
    }
    await sleep(PULSE_MS);
    if ((await house.show(id)).state === 'streaming') return { id, engine };
    process.kill(engine, 'SIGCONT');
  }
  throw new Error('no answer of the engine was met in its middle');
}

const TURNS_MAX = 20;
const PULSE_MS = 4;

export const runLives = [everyEnd, handedOver, killed, suspended, stuckWork, lostWork, notKept];
