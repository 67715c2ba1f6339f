import { setTimeout as sleep } from 'node:timers/promises';
import * as assert from 'uvu/assert';
import type { Walked } from './edges.ts';
import { House, waitLong } from './life.ts';

/** Lives of runs, at a scripted upstream and at the built-in engine. */

const PROVIDERS = { up: {}, narrow: { max_runs: 1 } };
const ONE_PLACE = { LIMIT_PROVIDER_RUNS: 1 };

/** Every end that an upstream or a client can give a run, and then those that only the clock can. */
async function everyEnd(): Promise<Walked> {
  const house = await House.build({ LIMIT_RUN_ATTEMPTS: 2 }, { providers: PROVIDERS });
  await house.start('ready');
  const ends: [prompt: string, state: string][] = [
    ['finish', 'completed'],
    ['say say finish', 'completed'],
    ['400', 'failed'],
    ['503', 'failed'],
    ['say error', 'failed'],
    ['say cut', 'interrupted'],
  ];
  const ids = await Promise.all(ends.map(([prompt]) => house.run(prompt)));
  for (const [index, [prompt, state]] of ends.entries())
    assert.ok(await house.untilRun(ids[index] as string, state), prompt);
  // The one place of the narrow provider is taken.
  const first = await house.run('hold', { provider: 'narrow' });
  await house.untilRun(first, 'starting');
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
  await house.cancel(first);
  // Two outputs are two facts only when the second comes after the commit of the first.
  const slow = await house.run('say hold');
  await house.untilRun(slow, 'streaming');
  await house.upstream.say();
  await house.upstream.finish();
  await house.untilRun(slow, 'completed');
  house.signal('SIGTERM');
  await house.gone(0);

  // Who waits in the queue gives up long before the place is free.
  await house.start('ready', {
    LIMIT_FIRST_OUTPUT_MS: 12_000,
    LIMIT_IDLE_MS: 8000,
    LIMIT_QUEUE_MS: 4000,
  });
  const late = [
    await house.run('hold', { provider: 'narrow' }),
    await house.run('hold', { provider: 'narrow' }),
    await house.run('say hold'),
    await house.run('503 after', { timeout_ms: 8000 }),
  ];
  for (const id of late) await house.untilRun(id, 'timed_out');
  house.signal('SIGTERM');
  await house.gone(0);
  return house.leave();
}

/** A stop that does not wait: what may go on is handed over, the rest ends. */
async function handedOver(): Promise<Walked> {
  const house = await House.build({}, { providers: PROVIDERS });
  await house.start('ready');
  const [starting, backoff, streaming] = [
    await house.run('hold'),
    await house.run('503 after'),
    await house.run('say hold'),
  ];
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

/**
 * The daemon dies in each state of a run, under each policy, and again while the runs wait to
 * continue.
 */
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
  for (const [index, [, , before]] of left.entries())
    await house.untilRun(ids[index] as string, before);
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
  for (let count = 0; count < 3; count += 1) {
    ids.push(await house.run('hold'));
    await house.untilRun(ids.at(-1) as string, 'starting');
  }
  await house.kill();
  await house.start('running.accepting', ONE_PLACE);
  await house.untilRun(ids[0] as string, 'starting');
  const states = await Promise.all(ids.map(async (id) => (await house.show(id)).state));
  assert.equal(states, ['starting', 'suspended', 'suspended']);
  await house.cancel(ids[1] as string);
  await house.kill();
  await house.start('running.accepting', ONE_PLACE);
  assert.is((await house.show(ids[2] as string)).state, 'suspended');
  for (const id of ids) await house.cancel(id);
  await house.kill();
  // A time limit that lasts until the run waits in the next life, and no longer than it must.
  await house.untilWalked(
    'run',
    'suspended | run.deadline_passed | cancelling.by_deadline',
    async (turn) => {
      await house.start('ready');
      const first = await house.run('hold');
      const timed = await house.run('hold', { timeout_ms: 5000 * 2 ** Math.min(turn, 3) });
      await waitLong('it is asked', async () => (await house.show(timed)).state !== 'queued');
      await house.kill();
      await house.start('running.accepting', ONE_PLACE);
      await house.untilRun(timed, 'timed_out');
      await house.cancel(first);
      await house.kill();
    },
  );
  return house.leave();
}

/**
 * Work of the built-in engine that ignores a cancel, because its process is stopped by a signal.
 */
async function stuckWork(): Promise<Walked> {
  const house = await House.build(
    { LIMIT_CANCEL_GRACE_MS: 60_000, LIMIT_CLOSE_MS: 120_000, LIMIT_ENGINE_STOP_MS: 1000 },
    { engine: true },
  );
  await house.start('ready');
  for (const how of ['cancel', 'kill'] as const) {
    const { id, engine } = await startHeld(house);
    await house.askToStop('force');
    await house.until('stopping.closing');
    await house.untilRun(id, 'cancelling');
    if (how === 'cancel') {
      const cancelled = house.cancel(id);
      cancelled.catch(() => undefined);
      await waitLong('the cancel is recorded', async () =>
        ((await house.get(`/v1/runs/${id}/why`)) as { events: { type: string }[] }).events.some(
          ({ type }) => type === 'run.cancel_requested',
        ),
      );
      process.kill(engine, 'SIGCONT');
      await cancelled;
      await house.gone(0);
    } else await house.kill();
    // The run goes on, and may be done before it is looked at.
    await house.start(how === 'cancel' ? 'ready' : ['running.accepting', 'ready']);
  }
  await house.kill();
  return house.leave();
}

/** The engine dies under a run that has text, and again before the run has more. */
async function lostWork(): Promise<Walked> {
  const house = await House.build({}, { engine: true });
  // The second one may have done its work before it is met.
  await house.untilWalked('run', 'starting | run.suspended | suspended', async () => {
    await house.start('ready');
    const { id, engine } = await startHeld(house);
    process.kill(engine, 'SIGKILL');
    const next = await waitLong(
      'the engine is started again',
      async () => (await house.engines()).find((pid) => pid !== engine),
      2,
    );
    const { output } = await house.show(id);
    process.kill(next, 'SIGKILL');
    await waitLong(
      'the run goes on',
      async () => (await house.show(id)).output.length > output.length,
    );
    await house.cancel(id);
    await house.kill();
  });
  return house.leave();
}

/** What was asked is not kept in the log: a run that a death of the daemon cuts off ends, even where it only waited. */
async function notKept(): Promise<Walked> {
  const house = await House.build({ HISTORY_PROMPTS: 'omit' }, { providers: PROVIDERS });
  await house.start('ready');
  const [answered, waits] = [
    await house.run('hold', { provider: 'narrow' }),
    await house.run('hold', { provider: 'narrow' }),
  ];
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
export async function startHeld(
  house: House,
  fields: Record<string, unknown> = {},
): Promise<{ id: string; engine: number }> {
  const engine = await waitLong('the engine is warm', async () => {
    const report = await house.report();
    return report.engine.state === 'warm.idle' && report.engine.pid;
  });
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    process.kill(engine, 'SIGSTOP');
    const id = await house.run('go on', {
      provider: 'local',
      max_tokens: 3000,
      temperature: 0,
      ...fields,
    });
    // It works for a few milliseconds at a time, so that its answer is met in the middle.
    for (
      let state = 'starting';
      state === 'starting' || state === 'queued';
      state = (await house.show(id)).state
    ) {
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
