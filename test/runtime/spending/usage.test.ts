import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { costOf } from '../../../machines/price.ts';
import type { Settings } from '../../../src/config/settings.ts';
import { SvcError } from '../../../src/errors.ts';
import type { EventStore } from '../../../src/kernel/store/port.ts';
import { HOUR_MS, OTHER_MODELS } from '../../../src/kernel/store/usage-sums.ts';
import type { OutputPart } from '../../../src/ports/providers.ts';
import { costOfSum, priceOf } from '../../../src/runtime/spending/price.ts';
import { type ManualClock, manualClock } from '../../helpers/manual-clock.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { gate, output, ScriptedProvider, untilAborted } from '../../helpers/scripted-provider.ts';
import { codeOf, waitFor } from '../../helpers/wait.ts';

/** What runs use, and the budget of a day. far is a cloud provider, near is on this machine. */

const used = (input_tokens: number, output_tokens: number): OutputPart => ({
  type: 'finish',
  finish_reason: 'stop',
  usage: { input_tokens, output_tokens },
});
const says = (id: string) => new ScriptedProvider(id, [output(`from ${id}`), used(1000, 500)]);
const PRICES = { 'far/*': { input: 2, output: 4 }, 'far/dear': { input: 2000, output: 4000 } };

async function boot(
  settings: Partial<Settings> = {},
  options: {
    store?: EventStore;
    boot_id?: string;
    far?: ScriptedProvider;
    other?: ScriptedProvider;
    clock?: ManualClock;
  } = {},
) {
  const { far = says('far'), other = says('other'), ...rest } = options;
  const near = says('near');
  const booted = await bootRuntime({
    ...rest,
    settings,
    local: says('local'),
    remote: {
      far: { port: far, kind: 'cloud' },
      other: { port: other, kind: 'cloud' },
      near: { port: near, kind: 'local' },
    },
    limits: { target_attempts: 1 },
  });
  const { runtime, kernel } = booted;
  const start = async (model: string | string[], fields: object = {}) =>
    (await runtime.runs.start({ prompt: 'hi', model, ...fields }, 'test')).id;
  const ask = async (model: string | string[], fields: object = {}) => {
    const id = await start(model, fields);
    await waitFor('the run has ended', () => !kernel.instances.has(id));
    return runtime.runs.get(id);
  };
  return { ...booted, far, near, start, ask };
}

function toMidnight(clock: { now(): number; advance(ms: number): void }): void {
  const day_ms = 24 * HOUR_MS;
  clock.advance(day_ms - (clock.now() % day_ms));
}

test('runs are summed by model, provider, client and day, with their cost', async () => {
  const clock = manualClock(Date.parse('2026-11-28T23:30:00Z'));
  const { ask, runtime } = await boot({ prices: PRICES }, { clock });
  await ask('far/m', { client: 'a' });
  await ask('far/m', { client: 'b' });
  await ask('far/dear', { client: 'a' });
  await ask('near/n', { client: 'command line 41' });
  const rows = async (by: 'model' | 'provider' | 'client' | 'day') =>
    (await runtime.usage({ by })).groups.map(({ name, runs, input_tokens, cost }) => [
      name,
      runs,
      input_tokens,
      cost,
    ]);
  assert.equal(await rows('model'), [
    ['far/dear', 1, 1000, 4],
    ['far/m', 2, 2000, 0.008],
    ['near/n', 1, 1000, 0],
  ]);
  assert.equal(await rows('provider'), [
    ['far', 3, 3000, 4.008],
    ['near', 1, 1000, 0],
  ]);
  assert.equal(
    (await rows('client')).map(([name, runs]) => [name, runs]),
    [
      ['a', 2],
      ['b', 1],
      ['command line', 1],
    ],
  );
  const [day, ...others] = await rows('day');
  assert.equal([day?.[0], day?.[1], others], ['2026-11-28', 4, []]);
  const { total } = await runtime.usage({});
  assert.equal([total.runs, total.output_tokens, total.without_price], [4, 2000, []]);
});

test('a change of the prices changes no past figure, neither at once nor after a restart', async () => {
  const { ask, runtime, config, store } = await boot({ prices: PRICES });
  await ask('far/m');
  const figures = async (of = runtime) => {
    const { total, budget } = await of.usage({});
    return [total.cost, total.cost_at_present_prices, budget.spent, total.without_price];
  };
  const kept = [0.004, 0, 0.004, []];
  assert.equal(await figures(), kept);
  config.prices = { 'far/*': { input: 20, output: 40 } };
  assert.equal(await figures(), kept);
  await ask('far/m');
  assert.equal(await figures(), [0.044, 0, 0.044, []]);
  const again = await boot({}, { store, boot_id: 'boot_2' });
  assert.equal(await figures(again.runtime), [0.044, 0, 0.044, []]);
});

test('a run that had no price has the present one, which the report says', async () => {
  const { ask, runtime, config } = await boot();
  await ask('far/m');
  config.prices = PRICES;
  await ask('far/m');
  config.prices = { 'far/*': { input: 20, output: 40 } };
  const { groups, total, budget } = await runtime.usage({});
  // 0.04 by the present prices, and 0.004 that the second run has kept.
  assert.equal([total.cost, total.cost_at_present_prices, budget.spent], [0.044, 0.04, 0.044]);
  assert.equal([groups[0]?.cost, groups[0]?.cost_at_present_prices], [0.044, 0.04]);
  config.prices = {};
  const without = (await runtime.usage({})).total;
  assert.equal([without.cost, without.without_price], [0.004, ['far/m']]);
});

test('a run in progress keeps the price of its acceptance, and the next target has its own', async () => {
  const free = gate();
  const far = new ScriptedProvider('far', [new SvcError('provider_failed')]);
  const other = new ScriptedProvider('other', [() => free.opened, output('x'), used(1000, 500)]);
  const { start, runtime, kernel, config } = await boot(
    { prices: { ...PRICES, 'other/*': { input: 200, output: 400 } }, budget_per_day: 100 },
    { far, other },
  );
  const id = await start(['far/dear', 'other/m'], { max_tokens: 1000 });
  await waitFor('it is asked', () => other.open === 1);
  config.prices = {};
  const { spent } = (await runtime.usage({})).budget;
  // What is reserved for its answer, and a prompt of a few tokens.
  assert.ok(spent > 0.4 && spent < 0.41, `${spent}`);
  free.open();
  await waitFor('it has ended', () => !kernel.instances.has(id));
  const { total, budget } = await runtime.usage({});
  assert.equal([total.cost, total.without_price, budget.spent], [0.4, [], 0.4]);
});

test('a run of a cloud is priced apart from those that an older version counted', () => {
  const sum = {
    key: null,
    provider: 'far',
    model: 'm',
    cloud: true,
    runs: 3,
    embeddings: 0,
    input_tokens: 30,
    output_tokens: 9,
    cached_tokens: 8,
    cache_write_tokens: 2,
    estimated: 0,
    estimated_embeddings: 0,
    cost: 77,
    priced_input_tokens: 20,
    priced_output_tokens: 6,
    priced_cached_tokens: 5,
    priced_cache_write_tokens: 2,
  };
  const prices = { 'far/m': { input: 2, output: 4, cached_input: 1, cache_write: 9 } };
  // 7 of input, 3 of the cache, 3 of output.
  assert.equal(costOfSum(sum, prices), { kept: 77, present: 14_000 + 3000 + 12_000 });
  assert.equal(costOfSum(sum, {}), { kept: 77, present: null });
  const orders = { ...sum, embeddings: 1, input_tokens: 0, output_tokens: 0, cost: 0 };
  const none = { priced_input_tokens: 0, priced_output_tokens: 0, priced_cached_tokens: 8 };
  const images = { ...orders, ...none, priced_cache_write_tokens: 2 };
  assert.equal(costOfSum(images, {}), { kept: 0, present: null }, 'images have no tokens');
  assert.equal(costOfSum({ ...images, embeddings: 0 }, {}), { kept: 0, present: 0 });
});

test('a model at a cloud without a price is named, and counts no cost', async () => {
  const { ask, runtime } = await boot();
  await ask('far/m');
  await ask('near/n');
  const { total } = await runtime.usage({ by: 'provider' });
  assert.equal([total.cost, total.without_price, total.runs], [0, ['far/m'], 2]);
});

test('an answer that was cut is estimated, and a failure without output counts nothing', async () => {
  const cut = new ScriptedProvider('far', (_, signal) => [
    output('x'.repeat(400)),
    untilAborted(signal),
  ]);
  const { start, ask, runtime, near, kernel } = await boot({ prices: PRICES }, { far: cut });
  near.script = [new SvcError('provider_rejected')];
  const id = await start('far/m');
  await waitFor('it has output', async () => (await runtime.runs.get(id)).output !== '');
  await runtime.runs.cancel(id, 'test');
  await waitFor('it has ended', () => !kernel.instances.has(id));
  await ask('near/n');
  const { groups, total } = await runtime.usage({});
  const [far, ...others] = groups;
  assert.equal([far?.estimated_runs, far?.output_tokens], [1, 100]);
  assert.ok((far?.input_tokens ?? 0) > 0);
  assert.equal([others, total.runs, total.output_tokens], [[], 2, 100]);
  const near_group = (await runtime.usage({ by: 'provider' })).groups.find(
    ({ name }) => name === 'near',
  );
  assert.equal([near_group?.runs, near_group?.input_tokens], [1, 0]);
});

test('input of a cache has its price in the report and in the budget', async () => {
  const far = new ScriptedProvider('far', () => [
    output('it'),
    {
      type: 'finish',
      finish_reason: 'stop',
      usage: { input_tokens: 1000, output_tokens: 10, cached_tokens: 900, cache_write_tokens: 60 },
    },
  ]);
  const price = { input: 100, output: 1000, cached_input: 10, cache_write: 125 };
  const { ask, runtime } = await boot({ prices: { 'far/*': price } }, { far });
  await ask('far/m');
  const { groups, total, budget } = await runtime.usage({});
  assert.equal([total.cached_tokens, total.cache_write_tokens], [900, 60]);
  // 40 at 100, 900 at 10, 60 at 125, 10 at 1000.
  const cost = (4000 + 9000 + 7500 + 10_000) / 1e6;
  assert.equal([groups[0]?.cost, total.cost, budget.spent], [cost, cost, cost]);
});

test('a number of tokens that no model reaches is ignored, so the sums fit', async () => {
  for (const [count, seen] of [
    [1e12, 1e12],
    [1e12 + 1, null],
    [Number.MAX_SAFE_INTEGER, null],
  ] as const) {
    const usage = { input_tokens: count, output_tokens: count, cached_tokens: count };
    const finish = { type: 'finish', finish_reason: 'stop', usage } as const;
    const far = new ScriptedProvider('far', [output('x'), finish]);
    const { ask, runtime } = await boot({}, { far });
    const run = await ask('far/m');
    assert.equal([run.usage.input_tokens, run.usage.output_tokens], [seen, seen]);
    assert.is(run.usage.cached_tokens, seen ?? undefined);
    const { total } = await runtime.usage({});
    assert.is(total.estimated_runs, seen === null ? 1 : 0);
    assert.ok(total.input_tokens === seen || (seen === null && total.input_tokens < 100));
  }
});

test('without rates of its cache, its input costs as any other', () => {
  const tokens = { input_tokens: 100, output_tokens: 3, cached_tokens: 60, cache_write_tokens: 40 };
  assert.is(costOf({ input: 2, output: 4 }, tokens), 212_000);
});

test('models that are counted together have the dearest price of their provider', () => {
  const prices = {
    'far/*': { input: 0, output: 4, cached_input: 1 },
    'far/dear': { input: 8, output: 2 },
    'other/m': { input: 99, output: 99 },
  };
  const others = { provider: 'far', model: OTHER_MODELS };
  assert.equal(priceOf(others, prices), { input: 8, output: 4, cached_input: 8, cache_write: 8 });
  assert.is(priceOf({ ...others, provider: 'far2' }, prices), null);
});

test('runs that are removed stay counted, and since names whole hours', async () => {
  const { ask, runtime, store } = await boot();
  const { id, ended_at } = await ask('near/n');
  await ask('near/n');
  assert.is((await store.removeRun(id)).runs, 1);
  assert.is((await runtime.usage({})).total.runs, 2);
  const hour = `${ended_at?.slice(0, 13)}:00:00.000Z`;
  assert.is((await runtime.usage({})).covers_since, hour);
  assert.is((await runtime.usage({ since: hour })).total.runs, 2);
  assert.is((await runtime.usage({ since: '2999-01-01T00:00:00Z' })).total.runs, 0);
});

test('beyond the budget a run for a cloud is refused, also after a restart, until the next day', async () => {
  for (const settings of [
    { prices: PRICES, budget_per_day: 0.004 },
    { budget_tokens_per_day: 1500 },
  ]) {
    const { ask, runtime, far, store } = await boot(settings);
    await ask('far/m');
    const error = await runtime.runs
      .start({ prompt: 'hi', model: 'far/m' }, 'test')
      .catch((thrown: unknown) => thrown as SvcError);
    assert.instance(error, SvcError);
    assert.is((error as SvcError).code, 'budget_spent');
    assert.match((error as SvcError).message, 'next day begins at');
    assert.is((await ask('near/n')).state, 'completed');
    const again = await boot(settings, { store, boot_id: 'boot_2' });
    assert.is(
      await codeOf(again.runtime.runs.start({ prompt: 'hi', model: 'far/m' }, 'test')),
      'budget_spent',
    );
    again.clock.advance(25 * 3_600_000);
    assert.is((await again.ask('far/m')).state, 'completed');
    assert.equal([far.asked.length, again.far.asked.length], [1, 1]);
  }
});

test('the budget reads the hours that are over once, and not again for each run', async () => {
  const { ask, store, clock } = await boot({ budget_tokens_per_day: 1e6 });
  toMidnight(clock);
  for (let run = 0; run < 5; run += 1) await ask('far/m');
  clock.advance(3 * HOUR_MS);
  await ask('far/m');
  let read = 0;
  const usage = store.usage.bind(store);
  store.usage = async (query) => {
    const found = await usage(query);
    for (const { runs } of found.sums) read += runs;
    return found;
  };
  await ask('far/m');
  assert.ok(read > 0 && read < 5, `${read} runs were read again`);
});

test('hours that are over count for the budget of their day', async () => {
  const { ask, runtime, clock } = await boot({ budget_tokens_per_day: 4000 });
  toMidnight(clock);
  const spent = async () => (await runtime.usage({ by: 'model' })).budget.spent_tokens;
  for (const tokens of [1500, 3000, 4500]) {
    await ask('far/m');
    assert.is(await spent(), tokens);
    clock.advance(3 * HOUR_MS);
    assert.is(await spent(), tokens);
  }
  assert.is(
    await codeOf(runtime.runs.start({ prompt: 'hi', model: 'far/m' }, 'test')),
    'budget_spent',
  );
  clock.advance(24 * HOUR_MS);
  assert.is(await spent(), 0);
});

test('a run whose cloud target is over the budget goes on at one of this machine', async () => {
  const { ask, far } = await boot({ budget_tokens_per_day: 0 });
  const run = await ask(['far/m', 'near/n']);
  assert.equal([run.provider, run.failed_attempts?.[0]?.code], ['near', 'budget_spent']);
  assert.equal([run.sent_to_cloud, far.asked.length], [undefined, 0]);
});

test('attempts in progress count for the budget', async () => {
  const free = gate();
  const far = new ScriptedProvider('far', () => [() => free.opened, output('x'), used(1, 1)]);
  const { start, runtime, kernel } = await boot({ budget_tokens_per_day: 1000 }, { far });
  const id = await start('far/m', { max_tokens: 1000 });
  await waitFor('it is asked', () => far.open === 1);
  assert.is(
    await codeOf(runtime.runs.start({ prompt: 'hi', model: 'far/m' }, 'test')),
    'budget_spent',
  );
  free.open();
  await waitFor('it has ended', () => !kernel.instances.has(id));
  await runtime.runs.start({ prompt: 'hi', model: 'far/m' }, 'test');
});

test('a budget of money refuses a model whose cost cannot be counted', async () => {
  const { runtime } = await boot({ budget_per_day: 5 });
  assert.is(
    await codeOf(runtime.runs.start({ prompt: 'hi', model: 'far/m' }, 'test')),
    'price_unknown',
  );
});

test('the list has the runs that went to a cloud, also one that was answered here', async () => {
  const far = new ScriptedProvider('far', [new SvcError('provider_failed')]);
  const { ask, runtime } = await boot({}, { far });
  const crossed = await ask(['far/m', 'near/n']);
  await ask('near/n');
  const { runs } = await runtime.runs.list({ cloud: true });
  assert.equal(
    runs.map(({ id, provider }) => [id, provider]),
    [[crossed.id, 'near']],
  );
});

test('the usage of a conversation is the sum of its ended runs', async () => {
  const { runtime, ask } = await boot();
  const { id: first } = await ask('near/m');
  await ask('near/m', { conversation: first });
  assert.equal(await runtime.runs.usageOf(first), {
    conversation: first,
    runs: 2,
    input_tokens: 2000,
    output_tokens: 1000,
    cached_tokens: 0,
    unknown: 0,
  });
});

test.run();
