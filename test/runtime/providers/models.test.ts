import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ProviderSnapshot } from '../../../machines/provider/chart.ts';
import { CIRCUITS_MAX } from '../../../machines/provider/circuit.ts';
import { SvcError } from '../../../src/errors.ts';
import { boot, busy, failed } from '../../helpers/circuits.ts';
import { finish, gate, type Move, output } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

const refusal = (status: number | null = 401) =>
  new SvcError('provider_unauthorised', 'far refused the key (status 401).', { status });
const garbled = () => new SvcError('stream_garbled', 'far sent garbage.', { retryable: true });

/** What each model of `far` does. The others answer. */
async function models(script: Record<string, () => Move>, run_attempts = 1) {
  const byModel = new Map(Object.entries(script));
  const world = await boot([], run_attempts);
  world.far.script = ({ request }) => [byModel.get(request.model)?.() ?? output('yes'), finish()];
  const ask = async (model: string) => {
    const { id } = await world.runtime.runs.start({ prompt: 'hi', provider: 'far', model }, 'test');
    return run_attempts === 1 ? world.ended(id) : world.endedInTime(id);
  };
  const askedOf = (model: string) =>
    world.far.asked.filter(({ request }) => request.model === model).length;
  const states = () =>
    Object.fromEntries(world.record().faulty_models.map(({ model, state }) => [model, state]));
  return { ...world, byModel, ask, askedOf, states };
}

test('a limit, refused credentials and unreadable answers of one model spare the others', async () => {
  for (const fault of [() => busy(60_000), refusal, garbled]) {
    const { ask, record } = await models({ bad: fault });
    for (let time = 0; time < 5; time += 1) await ask('bad');
    assert.is((await ask('good')).state, 'completed');
    assert.is(record().state, 'available');
    assert.match(
      (await ask('bad')).error?.message ?? '',
      /^far was not asked: 1 s ago it .* for far\/bad\./,
    );
    assert.is((await ask('good')).state, 'completed');
  }
});

test('the attempts of one run are one fault', async () => {
  const { ask, askedOf, states } = await models({ bad: garbled }, 3);
  for (const runs of [1, 2]) {
    assert.is((await ask('bad')).error?.code, 'stream_garbled');
    assert.equal([askedOf('bad'), states()], [3 * runs, {}]);
  }
  await ask('bad');
  assert.equal(states(), { bad: 'unavailable' });
});

test('several models that fail without an answer between them close their provider', async () => {
  const limited = () => busy(60_000);
  const { ask, record, far } = await models({ a: limited, b: limited, c: limited });
  await ask('a');
  await ask('b');
  await ask('good');
  await ask('a');
  await ask('c');
  assert.is(record().state, 'degraded', 'a model answered between');
  const {
    ask: asks,
    record: state,
    far: upstream,
  } = await models({ a: limited, b: limited, c: limited });
  for (const model of ['a', 'b', 'c']) await asks(model);
  assert.is(state().state, 'rate_limited');
  const refused = await asks('good');
  assert.match(refused.error?.message ?? '', /^far was not asked: 1 s ago it failed for far\/c\./);
  assert.is(upstream.asked.length, 3);
  assert.is(far.asked.length, 4);
});

test('a fault of a model shows that its provider is there, and the count of failures begins again', async () => {
  const { ask, record } = await models({ away: failed, bad: garbled });
  for (const model of ['away', 'away', 'bad', 'away', 'away']) await ask(model);
  assert.is(record().state, 'degraded');
  await ask('away');
  assert.is(record().state, 'unavailable');
});

test('a used-up quota is of the provider, and tried again after a while', async () => {
  const spent = () => new SvcError('provider_quota_exceeded', 'far: no credit (status 402).');
  const { ask, record, askedOf, byModel, pass } = await models({ bad: spent });
  await ask('bad');
  assert.is(record().state, 'rate_limited');
  assert.is((await ask('good')).error?.code, 'provider_quota_exceeded');
  assert.is(askedOf('good'), 0);
  byModel.clear();
  await pass(13_000);
  assert.is((await ask('good')).state, 'completed');
  assert.is(record().state, 'available');
});

test('refused credentials: another model is the probe, and a second refusal closes the provider', async () => {
  const { ask, record, states, far, byModel, pass, providers } = await models({
    a: refusal,
    b: refusal,
  });
  await ask('a');
  assert.equal([record().state, states()], ['degraded', { a: 'unauthorised' }]);
  await ask('b');
  assert.is(record().state, 'unauthorised');
  assert.is((await ask('good')).error?.code, 'provider_unauthorised');
  assert.is(far.asked.length, 2);
  await pass(13_000);
  assert.is(record().state, 'half_open');
  byModel.set('good', refusal);
  await ask('good');
  assert.is(record().state, 'unauthorised');
  await pass(13_000);
  assert.is(record().state, 'unauthorised', 'the wait doubles');
  byModel.clear();
  await providers.rereadKey('far');
  assert.equal([record().state, states()], ['unknown', {}]);
  assert.is((await ask('a')).state, 'completed');
});

test('refused credentials of one model are asked again after waits that double', async () => {
  const { ask, askedOf, faulty, clock, pass, byModel, states } = await models({ a: refusal });
  for (const least of [10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]) {
    await ask('a');
    const wait_ms = Date.parse(faulty()?.retry_at ?? '') - clock.now();
    assert.ok(wait_ms >= least && wait_ms <= 1.25 * least, `${wait_ms}`);
    const asked = askedOf('a');
    await ask('a');
    assert.is(askedOf('a'), asked);
    await pass(wait_ms);
  }
  byModel.clear();
  assert.is((await ask('a')).state, 'completed');
  assert.equal(states(), {});
});

test('a test by a user ends each wait, and a failed one does not', async () => {
  const { ask, states, runtime, far, byModel } = await models({
    a: refusal,
    b: () => busy(60_000),
  });
  await ask('a');
  await ask('b');
  assert.equal(states(), { a: 'unauthorised', b: 'rate_limited' });
  far.probe = () => Promise.reject(new SvcError('provider_failed', 'far failed.'));
  await runtime.providers.test('far');
  assert.equal(Object.keys(states()).length, 2);
  far.probe = () => Promise.resolve({ models: ['a'] });
  await runtime.providers.test('far');
  assert.equal(states(), {});
  byModel.clear();
  assert.is((await ask('a')).state, 'completed');
});

test('one request at a time tries a model, and the others wait for its outcome', async () => {
  const {
    ask,
    askedOf,
    far,
    pass,
    start: _,
    runtime,
    ended,
  } = await models({ bad: () => busy(5000) });
  await ask('bad');
  await pass(5000);
  const trial = gate();
  far.script = () => [() => trial.opened, output('yes'), finish()];
  const start = async () =>
    (await runtime.runs.start({ prompt: 'hi', provider: 'far', model: 'bad' }, 'test')).id;
  const first = await start();
  await waitFor('it is asked', () => askedOf('bad') === 2);
  const other = await start();
  await pass(20_000);
  assert.is((await runtime.runs.get(other)).state, 'starting');
  assert.is(askedOf('bad'), 2);
  trial.open();
  for (const id of [first, other]) assert.is((await ended(id)).state, 'completed');
});

test('a key that cannot be read is refused for every model', async () => {
  const { ask, record } = await models({ a: () => refusal(null) });
  await ask('a');
  assert.is(record().state, 'unauthorised');
});

test('a run with two targets at one provider goes on to the second model', async () => {
  const { ask, runtime, ended } = await models({ a: () => busy(60_000) });
  await ask('a');
  const { id } = await runtime.runs.start({ prompt: 'hi', model: ['far/a', 'far/good'] }, 'test');
  const { state, model } = await ended(id);
  assert.equal([state, model], ['completed', 'good']);
});

test('a client that names many models fills no memory, and those with faults stay', async () => {
  const script = Object.fromEntries(
    Array.from({ length: 200 }, (_, at) => [`m${at}`, () => garbled()]),
  );
  const { ask, record, kernel, providers } = await models({ ...script, bad: () => busy(60_000) });
  await ask('bad');
  for (let at = 0; at < 100; at += 1) await ask(`m${at}`);
  const stream = providers.streamOf('far') as Parameters<typeof kernel.snapshot>[0];
  const { circuits } = (kernel.snapshot(stream) as ProviderSnapshot).context;
  assert.is(circuits.length, CIRCUITS_MAX);
  assert.equal(
    record().faulty_models.map(({ model }) => model),
    ['bad'],
  );
});

test.run();
