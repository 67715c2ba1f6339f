import * as assert from 'uvu/assert';
import type { EventStore, StoredEvent } from '../../../src/kernel/store/port.ts';
import type { RunUsage } from '../../../src/kernel/store/usage.ts';
import {
  DAY_ROWS_MAX,
  HOUR_MS,
  HOUR_ROWS_MAX,
  HOURS_KEPT,
  NAME_CHARS_MAX,
  OTHER_CLIENTS,
  OTHER_MODELS,
  PRICED,
  SUMS_MAX,
  type UsageQuery,
  type UsageSum,
} from '../../../src/kernel/store/usage-sums.ts';
import type { Subject } from './conformance.ts';
import { event, run, used } from './samples.ts';

type Opened = (name: string, work: (store: EventStore, subject: Subject) => Promise<void>) => void;

/** An hour that begins a day. */
const HOUR = 24 * 20_000;
const AT = HOUR * HOUR_MS;

/** What every store counts of runs and of embeddings, in the commit of their events. */
export function testUsage(opened: Opened): void {
  opened('runs and embeddings are summed by model, day and client, and stay', async (...args) => {
    const [store, subject] = args;
    await store.append({
      events: [event(1, 'run_1', 1), ...sent(2, { tokens: 10 }), ...sent(3, { asked_by: 'cat' })],
      runs: [run('run_1', { finished: true, record: {}, usage: USED })],
    });
    await store.append({ events: [...sent(4, { at: AT + 24 * HOUR_MS }), counted(5)], runs: [] });
    const rows = async (of: EventStore, query: Partial<UsageQuery> = {}) =>
      (await of.usage({ from_hour: 0, key: null, ...query })).sums.map((sum) => [
        sum.key,
        sum.model,
        sum.cloud,
        sum.runs,
        sum.embeddings,
        sum.input_tokens,
        sum.output_tokens,
        sum.estimated,
        sum.estimated_embeddings,
        ...(sum.cached_tokens === 0 ? [] : [sum.cached_tokens, sum.cache_write_tokens]),
        ...(sum.cost === 0 ? [] : PRICED.map((name) => sum[name])),
      ]);
    const priced = [11, 7, 8, 3, 2];
    const ofRuns = (key: unknown) => [key, 'm', true, 1, 0, 7, 8, 1, 0, 3, 2, ...priced];
    // The provider counted 25 tokens of the first request, which were estimated as 10.
    const all = [ofRuns(null), [null, 'e', true, 0, 3, 35, 0, 0, 2]];
    assert.equal(await rows(store), all);
    assert.equal(await rows(store, { key: 'day' }), [
      ofRuns(HOUR / 24),
      [HOUR / 24, 'e', true, 0, 2, 30, 0, 0, 1],
      [HOUR / 24 + 1, 'e', true, 0, 1, 5, 0, 0, 1],
    ]);
    assert.equal(await rows(store, { key: 'client' }), [
      ofRuns('mine'),
      ['cat', 'e', true, 0, 1, 5, 0, 0, 1],
      ['mine', 'e', true, 0, 2, 30, 0, 0, 1],
    ]);
    assert.equal(await rows(store, { client: 'mine' }), [
      ofRuns(null),
      [null, 'e', true, 0, 2, 30, 0, 0, 1],
    ]);
    assert.equal(await rows(store, { client: 'cat' }), [[null, 'e', true, 0, 1, 5, 0, 0, 1]]);
    const ofLater = [[null, 'e', true, 0, 1, 5, 0, 0, 1]];
    assert.equal(await rows(store, { from_hour: HOUR + 24 }), ofLater);
    assert.equal(await rows(store, { from_hour: HOUR + 24, before_hour: HOUR + 25 }), ofLater);
    assert.equal(await rows(store, { from_hour: HOUR, before_hour: HOUR + 24 }), [
      ofRuns(null),
      [null, 'e', true, 0, 2, 30, 0, 0, 1],
    ]);
    assert.equal(await rows(store, { from_hour: HOUR, before_hour: HOUR }), []);
    assert.is((await store.usage({ from_hour: 0, key: null })).since_hour, HOUR);
    await store.close();
    const again = subject.again();
    await again.open();
    assert.equal(await rows(again), all);
    await again.close();
  });

  opened(
    'what had a price is summed apart, and a count of the provider replaces it',
    async (store) => {
      const cheap = { input: 2, output: 4 };
      const runs = [USED, { ...USED, cost: 5 }, { ...USED, cost: null }];
      await commit(store, runs);
      const [first] = (await store.usage({ from_hour: HOUR, key: null })).sums;
      assert.equal([first?.cost, first?.priced_input_tokens, first?.input_tokens], [16, 14, 21]);
      assert.equal([first?.priced_output_tokens, first?.priced_cache_write_tokens], [16, 4]);
      await store.append({
        events: [
          ...sent(4, { tokens: 10, price: cheap }),
          ...sent(5),
          counted(6, { price: cheap, stream: 4 }),
        ],
        runs: [],
      });
      const { sums } = await store.usage({ from_hour: HOUR, key: null });
      const { cost, priced_input_tokens, input_tokens } = sums.at(-1) ?? {};
      // A token of 2 in a million costs 2000 billionths: first 10 of them, then 25.
      assert.equal([cost, priced_input_tokens, input_tokens], [50_000, 25, 30]);
    },
  );

  opened(
    'clients beyond half of the rows of an hour are counted together',
    async (store, given) => {
      const events = Array.from({ length: HOUR_ROWS_MAX + 2 }, (_, index) =>
        sent(index + 1, { client: `client ${index}` }),
      ).flat();
      await store.append({ events, runs: [] });
      const { sums } = await store.usage({ from_hour: 0, key: null });
      assert.equal(
        sums.map(({ model, embeddings }) => [model, embeddings]),
        [['e', HOUR_ROWS_MAX + 2]],
      );
      const clients = (await store.usage({ from_hour: 0, key: 'client' })).sums;
      if (given.bounded === false) return;
      assert.is(clients.length, HOUR_ROWS_MAX / 2 + 1);
      assert.is(
        clients.find(({ key }) => key === OTHER_CLIENTS)?.embeddings,
        HOUR_ROWS_MAX / 2 + 2,
      );
    },
  );

  opened(
    'models beyond the rows of an hour, without tokens and with long names have none',
    async (...args) => {
      const [store, given] = args;
      if (given.bounded === false) return;
      const hours = [HOUR, HOUR + 1];
      const usages = hours.flatMap((hour) =>
        Array.from({ length: HOUR_ROWS_MAX + 50 }, (_, index) => ({
          ...USED,
          hour,
          model: `model ${index}`,
          client: `client ${index}`,
        })),
      );
      const odd = [
        { ...USED, hour: HOUR + 2, model: 'mistyped', input_tokens: 0, output_tokens: 0 },
        { ...USED, hour: HOUR + 2, model: 'x'.repeat(NAME_CHARS_MAX + 1) },
      ];
      await commit(store, [
        ...usages,
        ...odd,
        USED,
        { ...USED, input_tokens: 0, output_tokens: 0 },
      ]);
      const { sums } = await store.usage({ from_hour: HOUR, key: 'day' });
      assert.is(sums.length, SUMS_MAX);
      assert.is(sum(sums, 'runs'), usages.length + 4);
      assert.is(sum(sums, 'input_tokens'), 7 * (usages.length + 2));
      // They have a name of the answer too.
      const others = sums.find(({ model }) => model === OTHER_MODELS);
      assert.equal([others?.provider, others?.cloud, others?.runs], ['far', true, 2 * 51 + 4]);
      assert.is(others?.cached_tokens, 3 * (2 * 51 + 4));
    },
  );

  opened('after some days the hours of a day become its largest rows', async (store, given) => {
    if (given.bounded === false) return;
    const usages = Array.from({ length: 2 * DAY_ROWS_MAX }, (_, index) =>
      [0, 5, 23].map((hour) => ({
        ...USED,
        hour: HOUR + hour,
        model: `model ${index}`,
        input_tokens: 1000 + index,
      })),
    ).flat();
    await commit(store, [...usages, { ...USED, hour: HOUR + 24, model: 'recent' }]);
    const before = await store.usage({ from_hour: HOUR, key: 'day' });
    await fold(store, HOUR + 24 + HOURS_KEPT);
    const { sums, since_hour } = await store.usage({ from_hour: HOUR, key: 'day' });
    for (const name of SUMMED) assert.is(sum(sums, name), sum(before.sums, name), name);
    assert.is(since_hour, HOUR);
    const models = sums.map(({ model }) => model);
    assert.is(models.length, DAY_ROWS_MAX + 2);
    assert.ok(models.includes(`model ${2 * DAY_ROWS_MAX - 1}`) && models.includes('recent'));
    assert.not(models.includes('model 0'));
    // Its hours are one now, and the rows of the next day are still hours.
    const later = await store.usage({ from_hour: HOUR + 1, key: null });
    assert.equal(
      later.sums.map(({ model }) => model),
      ['recent'],
    );
  });
}

/** Finished runs that used this. */
async function commit(store: EventStore, usages: readonly RunUsage[]): Promise<void> {
  const name = (index: number) => `run_${index}`;
  await store.append({
    events: usages.map((_, index) => event(index + 1, name(index), 1, { type: 'run.accepted' })),
    runs: usages.map((usage, index) =>
      run(name(index), { finished: true, seq: index + 1, record: {}, usage }),
    ),
  });
}

async function fold(store: EventStore, now_hour: number): Promise<void> {
  const now = now_hour * HOUR_MS;
  const query = { before_at: null, max_bytes: null, keep_boot: 'boot_1', limit: 50 };
  for (let more = true; more; )
    ({ more } = await store.prune({ ...query, clock: { now, even_since: 0 } }));
}

const SUMMED = ['runs', 'input_tokens', 'cached_tokens', 'cache_write_tokens', ...PRICED] as const;

function sum(sums: readonly UsageSum[], name: (typeof SUMMED)[number]) {
  return sums.reduce((total, one) => total + one[name], 0);
}

const USED = used({ hour: HOUR, estimated: true });

const STREAM = 'provider:far:boot_1';
const asked = { provider: 'far', model: 'e', client: 'mine' };

function sent(
  seq: number,
  { at = AT, tokens = 5, ...more }: { at?: number; tokens?: number; [field: string]: unknown } = {},
): StoredEvent[] {
  const data = { ...asked, request: `r${seq}`, texts: 1, bytes: 20, estimated_tokens: tokens };
  const type = 'provider.embedding_sent';
  return [event(seq, `${STREAM}:${seq}`, 1, { at, type, data: { ...data, ...more } })];
}

/** Of the first request, a day later. */
function counted(seq: number, { stream = 2, ...more }: { stream?: number; price?: object } = {}) {
  const data = { ...asked, request: 'r2', estimated_tokens: 10, sent_at: AT, input_tokens: 25 };
  return event(seq, `${STREAM}:${stream}`, 2, {
    at: AT + 24 * HOUR_MS,
    type: 'provider.embedding_counted',
    data: { ...data, ...more },
  });
}
