import { setTimeout as sleep } from 'node:timers/promises';
import * as assert from 'uvu/assert';
import type { Walked } from './edges.ts';
import { Harness, waitLong } from './harness.ts';

/** Scenarios of runs, with a scripted upstream and with the built-in engine. */

/** A model that answers 503 is not asked for as long as its provider asks to wait. */
const PROVIDERS = { up: {}, narrow: { max_runs: 1 }, busy: {}, busier: {} };
const ONE_PLACE = { LIMIT_PROVIDER_RUNS: 1 };

/**
 * Every end that an upstream or a client can give a run, and then those that only the clock can.
 */
async function everyEnd(): Promise<Walked> {
  const harness = await Harness.build({ LIMIT_RUN_ATTEMPTS: 2 }, { providers: PROVIDERS });
  await harness.start('ready');
  const ends: [prompt: string, state: string][] = [
    ['finish', 'completed'],
    ['filter', 'completed'],
    ['say say finish', 'completed'],
    ['400', 'failed'],
    ['503', 'failed'],
    ['say error', 'failed'],
    ['say cut', 'interrupted'],
  ];
  // A fault counts for its model, so that no end disturbs another.
  const ids = await Promise.all(
    ends.map(([prompt]) => harness.run(prompt, { model: `up/${prompt.replaceAll(' ', '-')}` })),
  );
  for (const [index, [prompt, state]] of ends.entries())
    assert.ok(await harness.untilRun(ids[index] as string, state), prompt);
  // The upstream writes no JSON, so it is asked once more.
  const asked = { response_format: { type: 'json', name: null, schema: null }, ask_again: true };
  await harness.untilRun(await harness.run('finish', asked), 'completed');
  // The one place of the narrow provider is taken.
  const first = await harness.run('hold', { provider: 'narrow' });
  await harness.untilRun(first, 'starting');
  const cancelled: [prompt: string, state: string, provider?: string][] = [
    ['hold', 'starting'],
    ['say hold', 'streaming'],
    ['503 after', 'backoff', 'busy'],
    ['hold', 'queued', 'narrow'],
  ];
  for (const [prompt, state, provider = 'up'] of cancelled) {
    const id = await harness.run(prompt, { provider });
    await harness.untilRun(id, state);
    await harness.cancel(id);
    await harness.cancel(id);
    assert.is((await harness.show(id)).state, 'cancelled', `cancelled in ${state}`);
  }
  await harness.cancel(first);
  // Two outputs are two events only when the second comes after the commit of the first.
  const slow = await harness.run('say hold');
  await harness.untilRun(slow, 'streaming');
  await harness.upstream.say();
  await harness.upstream.finish();
  await harness.untilRun(slow, 'completed');
  harness.signal('SIGTERM');
  await harness.gone(0);

  // Who waits in the queue gives up long before the place is free.
  await harness.start('ready', {
    LIMIT_FIRST_OUTPUT_MS: 12_000,
    LIMIT_IDLE_MS: 8000,
    LIMIT_QUEUE_MS: 4000,
  });
  const late = [
    await harness.run('hold', { provider: 'narrow' }),
    await harness.run('hold', { provider: 'narrow' }),
    await harness.run('say hold'),
    await harness.run('503 after', { provider: 'busy', timeout_ms: 8000 }),
  ];
  for (const id of late) await harness.untilRun(id, 'timed_out');
  harness.signal('SIGTERM');
  await harness.gone(0);
  return harness.leave();
}

/** A stop that does not wait: what may go on is handed over, the rest ends. */
async function handedOver(): Promise<Walked> {
  const harness = await Harness.build({}, { providers: PROVIDERS });
  await harness.start('ready');
  const [starting, backoff, streaming] = [
    await harness.run('hold'),
    await harness.run('503 after', { provider: 'busy' }),
    await harness.run('say hold'),
  ];
  await harness.untilRun(starting, 'starting');
  await harness.untilRun(backoff, 'backoff');
  await harness.untilRun(streaming, 'streaming');
  await harness.askToStop('force');
  await harness.gone(0);
  await harness.start('running.accepting');
  await harness.untilRun(starting, 'starting');
  assert.is((await harness.show(streaming)).state, 'interrupted');
  await harness.kill();
  return harness.leave();
}

/**
 * The daemon dies in each state of a run, under each policy, and again while the runs wait to
 * continue.
 */
async function killed(): Promise<Walked> {
  const harness = await Harness.build({ LIMIT_PROVIDER_RUNS: 64 }, { providers: PROVIDERS });
  await harness.start('ready');
  const left: [string, recovery: string, before: string, after: string[], provider?: string][] = [
    ['hold', 'resume', 'starting', ['suspended', 'starting']],
    ['hold', 'end', 'starting', ['interrupted']],
    ['say hold', 'restart', 'streaming', ['suspended', 'starting', 'streaming']],
    ['say hold', 'resume', 'streaming', ['interrupted']],
    ['503 after', 'resume', 'backoff', ['suspended', 'starting', 'backoff'], 'busy'],
    ['503 after', 'end', 'backoff', ['interrupted'], 'busier'],
  ];
  const ids = await Promise.all(
    left.map(([prompt, recovery, , , provider = 'up']) =>
      harness.run(prompt, { recovery, provider }),
    ),
  );
  for (const [index, [, , before]] of left.entries())
    await harness.untilRun(ids[index] as string, before);
  // What waits behind them, at a provider that answers one at a time: the first is cut off, the
  // others wait again.
  const queue = [await harness.run('say hold', { provider: 'narrow', recovery: 'restart' })];
  await harness.untilRun(queue[0] as string, 'streaming');
  queue.push(await harness.run('hold', { provider: 'narrow' }));
  await harness.kill();

  await harness.start('running.accepting');
  for (const [index, [prompt, recovery, , after]] of left.entries()) {
    const { state } = await harness.show(ids[index] as string);
    assert.ok(after.includes(state), `${prompt} (${recovery}) is ${state}`);
  }
  assert.is((await harness.show(queue[1] as string)).state, 'queued');
  await harness.kill();
  return harness.leave();
}

/**
 * Runs that were cut off wait for their turn: at a provider that takes one at a time all but one
 * stay `suspended`.
 */
async function suspended(): Promise<Walked> {
  const harness = await Harness.build({}, { providers: PROVIDERS });
  await harness.start('ready');
  const ids: string[] = [];
  for (let count = 0; count < 3; count += 1) {
    ids.push(await harness.run('hold'));
    await harness.untilRun(ids.at(-1) as string, 'starting');
  }
  await harness.kill();
  await harness.start('running.accepting', ONE_PLACE);
  await harness.untilRun(ids[0] as string, 'starting');
  const states = await Promise.all(ids.map(async (id) => (await harness.show(id)).state));
  assert.equal(states, ['starting', 'suspended', 'suspended']);
  await harness.cancel(ids[1] as string);
  await harness.kill();
  await harness.start('running.accepting', ONE_PLACE);
  assert.is((await harness.show(ids[2] as string)).state, 'suspended');
  for (const id of ids) await harness.cancel(id);
  await harness.kill();
  // A time limit that lasts until the run waits in the next boot, and no longer than it must.
  await harness.untilWalked(
    'run',
    'suspended | run.deadline_passed | cancelling.by_deadline',
    async (turn) => {
      await harness.start('ready');
      const first = await harness.run('hold');
      const timed = await harness.run('hold', { timeout_ms: 5000 * 2 ** Math.min(turn, 3) });
      await waitLong('it is asked', async () => (await harness.show(timed)).state !== 'queued');
      await harness.kill();
      await harness.start('running.accepting', ONE_PLACE);
      await harness.untilRun(timed, 'timed_out');
      await harness.cancel(first);
      await harness.kill();
    },
  );
  return harness.leave();
}

/**
 * Work of the built-in engine that ignores a cancel, because its process is stopped by a signal.
 */
async function stuckWork(): Promise<Walked> {
  const harness = await Harness.build(
    { LIMIT_CANCEL_GRACE_MS: 60_000, LIMIT_CLOSE_MS: 120_000, LIMIT_ENGINE_STOP_MS: 1000 },
    { engine: true },
  );
  await harness.start('ready');
  for (const how of ['cancel', 'kill'] as const) {
    const { id, engine } = await startHeld(harness);
    await harness.askToStop('force');
    await harness.until('stopping.closing');
    await harness.untilRun(id, 'cancelling');
    if (how === 'cancel') {
      const cancelled = harness.cancel(id);
      cancelled.catch(() => undefined);
      await waitLong('the cancel is recorded', async () =>
        ((await harness.get(`/v1/runs/${id}/why`)) as { events: { type: string }[] }).events.some(
          ({ type }) => type === 'run.cancel_requested',
        ),
      );
      process.kill(engine, 'SIGCONT');
      await cancelled;
      await harness.gone(0);
    } else await harness.kill();
    // The run goes on, and may be done before it is looked at.
    await harness.start(how === 'cancel' ? 'ready' : ['running.accepting', 'ready']);
  }
  await harness.kill();
  return harness.leave();
}

/** The engine dies under a run that has text, and again before the run has more. */
async function lostWork(): Promise<Walked> {
  const harness = await Harness.build({}, { engine: true });
  // The second one may have done its work before it is met.
  await harness.untilWalked('run', 'starting | run.suspended | suspended', async () => {
    await harness.start('ready');
    const { id, engine } = await startHeld(harness);
    process.kill(engine, 'SIGKILL');
    const next = await waitLong(
      'the engine is started again',
      async () => (await harness.engines()).find((pid) => pid !== engine),
      2,
    );
    const { output } = await harness.show(id);
    process.kill(next, 'SIGKILL');
    await waitLong(
      'the run goes on',
      async () => (await harness.show(id)).output.length > output.length,
    );
    await harness.cancel(id);
    await harness.kill();
  });
  return harness.leave();
}

/**
 * What was asked is not kept in the log: a run that a death of the daemon cuts off ends, even where
 * it only waited.
 */
async function notKept(): Promise<Walked> {
  const harness = await Harness.build({ HISTORY_PROMPTS: 'omit' }, { providers: PROVIDERS });
  await harness.start('ready');
  const [answered, waits] = [
    await harness.run('hold', { provider: 'narrow' }),
    await harness.run('hold', { provider: 'narrow' }),
  ];
  await harness.untilRun(answered, 'starting');
  await harness.kill();
  await harness.start('ready');
  for (const id of [answered, waits]) {
    const { state, error } = await harness.show(id);
    assert.equal([state, error?.code], ['interrupted', 'content_not_kept']);
  }
  await harness.kill();
  return harness.leave();
}

/**
 * A run of the built-in engine with some text, whose engine is stopped in the middle of its work.
 */
export async function startHeld(
  harness: Harness,
  fields: Record<string, unknown> = {},
): Promise<{ id: string; engine: number }> {
  const engine = await waitLong('the engine is warm', async () => {
    const report = await harness.report();
    return report.engine.state === 'warm.idle' && report.engine.pid;
  });
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    process.kill(engine, 'SIGSTOP');
    const id = await harness.run('go on', {
      provider: 'local',
      max_tokens: 3000,
      temperature: 0,
      ...fields,
    });
    // It works for a few milliseconds at a time, so that its answer is met in the middle.
    for (
      let state = 'starting';
      state === 'starting' || state === 'queued';
      state = (await harness.show(id)).state
    ) {
      process.kill(engine, 'SIGCONT');
      await sleep(PULSE_MS);
      process.kill(engine, 'SIGSTOP');
    }
    await sleep(PULSE_MS);
    if ((await harness.show(id)).state === 'streaming') return { id, engine };
    process.kill(engine, 'SIGCONT');
  }
  throw new Error('no answer of the engine was met in its middle');
}

const TURNS_MAX = 20;
const PULSE_MS = 4;

/** A run of several targets: a cloud one fails, the next one answers or fails too. */
async function movedOn(): Promise<Walked> {
  const harness = await Harness.build(
    { LIMIT_TARGET_ATTEMPTS: 1, LIMIT_RUN_ATTEMPTS: 1 },
    { providers: { ...PROVIDERS, far: { kind: 'cloud' } } },
  );
  await harness.start('ready');
  const id = await harness.run('503', { model: ['far/m', 'up/m'] });
  const { error } = await harness.untilRun(id, 'failed');
  assert.is(error?.code, 'targets_failed');
  harness.signal('SIGTERM');
  await harness.gone(0);
  return harness.leave();
}

export const runScenarios = [
  everyEnd,
  handedOver,
  killed,
  suspended,
  stuckWork,
  lostWork,
  notKept,
  movedOn,
];
