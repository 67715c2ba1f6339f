import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { boot, busy, failed } from '../../helpers/circuits.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import {
  finish,
  gate,
  type Move,
  output,
  ScriptedProvider,
  untilAborted,
} from '../../helpers/scripted-provider.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';

test('several failures open the circuit, and requests are refused without being sent', async () => {
  const { far, ask, record } = await boot([failed()]);
  const states = [];
  for (let time = 0; time < 3; time += 1) {
    assert.is((await ask()).error?.code, 'provider_unreachable');
    states.push(record().state);
  }
  assert.equal(states, ['degraded', 'degraded', 'unavailable']);
  const refused = await ask();
  assert.is(far.asked.length, 3, 'the provider is not asked');
  assert.is(refused.state, 'failed');
  assert.is(refused.error?.code, 'provider_unavailable');
  assert.ok(refused.error?.retryable);
  assert.match(
    refused.error?.message ?? '',
    /^far was not asked: 1 s ago it failed\. far refuses the connection\. It is asked again in [23] s\. To ask now: svc provider test far$/,
  );
});

test('a half-open provider gets one request, and its success closes the circuit', async () => {
  const { far, ask, start, ended, record, pass, runtime } = await boot([failed()]);
  for (let time = 0; time < 3; time += 1) await ask();
  await pass(2600);
  assert.is(record().state, 'half_open');
  const trial = gate();
  far.script = [() => trial.opened, output('yes'), finish()];
  const first = await start();
  await waitFor('it is asked', () => far.asked.length === 4);
  const other = await start();
  await pass(29_000);
  assert.is((await runtime.runs.get(other)).state, 'starting');
  await pass(1000);
  const refused = await ended(other);
  assert.is(refused.error?.code, 'provider_unavailable');
  assert.match(refused.error?.message ?? '', /Another request tries it now/);
  assert.is(far.asked.length, 4, 'one at a time');
  trial.open();
  assert.is((await ended(first)).state, 'completed');
  assert.is(record().state, 'available');
  assert.is((await ask()).state, 'completed');
  const { transitions } = record();
  assert.equal(
    transitions.map(({ state }) => state),
    ['unknown', 'degraded', 'unavailable', 'half_open', 'available'],
  );
  assert.is(transitions[2]?.code, 'provider_unreachable');
});

test('the first output of the trial closes the circuit', async () => {
  const { far, ask, start, record, pass, runtime } = await boot([failed()]);
  for (let time = 0; time < 3; time += 1) await ask();
  await pass(2600);
  far.script = (_, signal) => [output('yes'), untilAborted(signal)];
  const id = await start();
  await waitFor('it closes', () => record().state === 'available');
  await runtime.runs.cancel(id, 'test');
});

test('the wait doubles with each trial that fails, up to the longest', async () => {
  const { ask, record, pass, clock } = await boot([failed()]);
  for (let time = 0; time < 3; time += 1) await ask();
  const waits = [];
  for (let time = 0; time < 5; time += 1) {
    const wait_ms = Date.parse(record().retry_at ?? '') - clock.now();
    waits.push(wait_ms);
    await pass(wait_ms);
    assert.is(record().state, 'half_open');
    assert.is((await ask()).error?.code, 'provider_unreachable');
    assert.is(record().state, 'unavailable');
  }
  for (const [index, least] of [2000, 4000, 8000, 8000, 8000].entries()) {
    const wait = waits[index] ?? 0;
    assert.ok(wait >= least * 0.9 && wait <= least * 1.25, `${wait} after ${index} failed trials`);
  }
});

test('a trial that is cancelled leaves the provider half-open', async () => {
  const { far, ask, start, record, pass, runtime } = await boot([failed()]);
  for (let time = 0; time < 3; time += 1) await ask();
  await pass(2600);
  far.script = (_, signal) => [untilAborted(signal)];
  const id = await start();
  await waitFor('it is asked', () => far.asked.length === 4);
  await runtime.runs.cancel(id, 'test');
  await turns();
  far.script = [output('yes'), finish()];
  assert.is((await ask()).state, 'completed');
  assert.is(record().state, 'available');
});

test('too many requests: the model is not asked before the time that the provider says', async () => {
  const { far, ask, faulty, pass, clock, providers } = await boot([busy(20_000)]);
  const at = clock.now();
  assert.is((await ask()).error?.code, 'provider_busy');
  assert.is(faulty()?.state, 'rate_limited');
  assert.is(Date.parse(faulty()?.retry_at ?? ''), at + 20_000);
  const usable = providers.usable('far', faulty()?.model);
  assert.equal([usable.ok, !usable.ok && usable.until], [false, at + 20_000]);
  assert.match(
    (await ask()).error?.message ?? '',
    /^far was not asked: 1 s ago it failed for far\/\S+\. far: too many requests \(status 429\)\. It is asked again in 20 s\. To ask now: svc provider test far$/,
  );
  assert.is(far.asked.length, 1);
  await pass(20_000);
  assert.is(faulty()?.state, 'half_open');
  far.script = [output('yes'), finish()];
  assert.is((await ask()).state, 'completed');
  assert.is(faulty(), undefined);
});

test('too many requests and failures are counted apart, and the attempts of a run once', async () => {
  const { far, start, endedInTime, faulty, pass, providers } = await boot([busy(2000)], 3);
  const broken = () =>
    new SvcError('provider_failed', 'far failed (status 500).', { retryable: true });
  await endedInTime(await start());
  assert.is(far.asked.length, 3);
  await pass(2000);
  assert.is(faulty()?.state, 'half_open');
  far.script = [broken()];
  const failure = (await endedInTime(await start())).error;
  assert.is(failure?.message, 'far failed (status 500).', 'nothing says that it asks for a wait');
  assert.is(far.asked.length, 6);
  const model = faulty()?.model;
  assert.equal(providers.usable('far', model), { ok: true }, 'one failed request closes nothing');
  far.script = [output('yes'), finish()];
  assert.is((await endedInTime(await start())).state, 'completed');
});

test('one run that fails at each attempt opens the circuit once, so its wait does not grow', async () => {
  const { start, endedInTime, faulty, pass, clock } = await boot([busy(null)], 3);
  for (const most_ms of [2500, 5000]) {
    await endedInTime(await start());
    const wait_ms = Date.parse(faulty()?.retry_at ?? '') - clock.now();
    assert.ok(wait_ms <= most_ms, `${wait_ms} of at most ${most_ms}`);
    await pass(8000);
  }
});

test('a provider that asks for an hour is tried again after the longest wait', async () => {
  const { ask, faulty, clock } = await boot([busy(3_600_000)]);
  const at = clock.now();
  const { error } = await ask();
  assert.match(error?.message ?? '', /It asks for a wait of 3600 s\.$/);
  assert.is(Date.parse(faulty()?.retry_at ?? ''), at + 300_000);
});

test('without a time of the provider the wait is that of the circuit', async () => {
  const { ask, faulty, clock } = await boot([busy(null)]);
  await ask();
  const wait_ms = Date.parse(faulty()?.retry_at ?? '') - clock.now();
  assert.ok(wait_ms >= 1900 && wait_ms <= 2500, `${wait_ms}`);
});

test('a run waits for the next trial if it comes soon, and is then answered', async () => {
  const { far, ask, start, ended, endedInTime, pass, runtime } = await boot([failed()], 2);
  far.script = (_, __) => [far.asked.length <= 6 ? failed() : output('yes'), finish()];
  // Three runs fail, with two attempts each, so the circuit is open.
  for (let run = 0; run < 3; run += 1) {
    const id = await start();
    assert.is((await endedInTime(id)).error?.code, 'provider_unreachable');
  }
  const second = await start();
  await waitFor('it waits', async () => (await runtime.runs.get(second)).state === 'backoff');
  await pass(5000);
  assert.is((await ended(second)).state, 'completed');
  assert.is((await ask()).state, 'completed');
});

/** The first request is refused with a wait of 5 s. The next one ends when the gate opens. */
async function limited(trial: Move = output('yes')) {
  const free = gate();
  const far = (): Move[] =>
    world.far.asked.length === 1 ? [busy(5000)] : [() => free.opened, trial, finish()];
  const world = await boot(far, 2);
  const first = await world.start();
  await waitFor('it waits', async () => (await world.runtime.runs.get(first)).state === 'backoff');
  const others = [await world.start(), await world.start()];
  const states = () =>
    Promise.all([first, ...others].map(async (id) => (await world.runtime.runs.get(id)).state));
  await waitFor('all wait', async () => (await states()).every((state) => state === 'backoff'));
  await world.pass(5000);
  assert.is(world.faulty()?.state, 'half_open');
  return { ...world, free, first, others, states };
}

test('runs that come while a provider is limited wait as the one that was refused, and for its trial', async () => {
  const { far, free, first, others, states, ended, pass } = await limited();
  await pass(20_000);
  assert.equal(await states(), ['starting', 'starting', 'starting']);
  assert.is(far.asked.length, 2, 'one request tries it');
  free.open();
  for (const id of [first, ...others]) {
    const { state, attempts } = await ended(id);
    assert.equal([state, attempts], ['completed', 2]);
  }
});

test('a trial that fails is a failed attempt of each run that waits for it', async () => {
  const { far, free, first, others, ended } = await limited(busy(5000));
  free.open();
  for (const id of [first, ...others]) assert.is((await ended(id)).error?.code, 'provider_busy');
  assert.is(far.asked.length, 2);
});

test('the wait for a trial has a bound, ends with a cancel, and is not for a run with another target', async () => {
  const { others, ended, pass, runtime, states, free } = await limited();
  const [cancelled = '', late = ''] = others;
  await runtime.runs.cancel(cancelled, 'test');
  assert.is((await ended(cancelled)).state, 'cancelled');
  const { id } = await runtime.runs.start({ prompt: 'hi', model: ['far/m', 'near/n'] }, 'test');
  await waitFor('it moves on', async () => (await runtime.runs.get(id)).provider === 'near');
  await pass(29_000);
  assert.equal((await states()).slice(2), ['starting']);
  await pass(1000);
  assert.is((await ended(late)).error?.code, 'provider_unavailable');
  free.open();
});

test('a local provider that was down is probed when it is asked', async () => {
  const gone = new SvcError('provider_unreachable', 'near refuses the connection.');
  const { near, ask, record } = await boot([gone]);
  near.probe = () => Promise.reject(gone);
  for (let time = 0; time < 4; time += 1)
    assert.is((await ask('near')).error?.code, 'provider_unreachable');
  assert.is(record('near').state, 'unavailable');
  assert.is(near.asked.length, 3, 'the fourth was only probed');
  near.probe = () => Promise.resolve({ models: ['m'] });
  near.script = [output('yes'), finish()];
  assert.is((await ask('near')).state, 'completed');
  assert.is(record('near').state, 'available');
});

test('the waits between probes grow while nothing changes, and a change shortens them', async () => {
  const port = new ScriptedProvider('near', []);
  let looks = 0;
  port.probe = async () => {
    looks += 1;
    return { models: ['m'] };
  };
  const { clock, runtime } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    remote: { near: { port, kind: 'local' } },
    limits: { probe_every_ms: 1000, probe_idle_ms: 16_000 },
  });
  const looksIn = async (seconds: number) => {
    const before = looks;
    for (let second = 0; second < seconds; second += 1) {
      clock.advance(1000);
      await turns();
    }
    return looks - before;
  };
  const early = await looksIn(16);
  const late = await looksIn(160);
  assert.ok(early >= 3 && early <= 6, `${early} in the first 16 s`);
  assert.ok(late >= 7 && late <= 14, `${late} in 160 s`);
  const working = port.probe;
  port.probe = () => {
    looks += 1;
    return Promise.reject(new SvcError('provider_unreachable', 'near is gone.'));
  };
  await looksIn(60);
  assert.is(runtime.providers.list().find(({ id }) => id === 'near')?.state, 'unavailable');
  port.probe = working;
  await looksIn(40);
  assert.is(runtime.providers.list().find(({ id }) => id === 'near')?.state, 'available');
});

test('the record has the latest transitions only', async () => {
  const { far, ask, record } = await boot();
  for (let time = 0; time < 14; time += 1) {
    far.script = time % 2 === 0 ? [failed()] : [output('yes'), finish()];
    await ask();
  }
  assert.is(record().transitions.length, 10);
  assert.is(record().transitions.at(-1)?.state, 'available');
});

test.run();
