import * as assert from 'uvu/assert';
import type { EventStore, StoredEvent } from '../../src/store/port.ts';
import type { RunUsage } from '../../src/store/usage.ts';
import { HOUR_MS, HOUR_ROWS_MAX, type UsageQuery } from '../../src/store/usage-sums.ts';
import type { Subject } from './conformance.ts';
import { event, run } from './samples.ts';

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
        ...[sum.key, sum.model, sum.cloud, sum.runs, sum.embeddings],
        ...[sum.input_tokens, sum.output_tokens, sum.estimated, sum.estimated_embeddings],
      ]);
    const ofRuns = (key: unknown) => [key, 'm', true, 1, 0, 7, 8, 1, 0];
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
    assert.equal(await rows(store, { from_hour: HOUR + 24 }), [
      [null, 'e', true, 0, 1, 5, 0, 0, 1],
    ]);
    assert.is((await store.usage({ from_hour: 0, key: null })).since_hour, HOUR);
    await store.close();
    const again = subject.again();
    await again.open();
    assert.equal(await rows(again), all);
    await again.close();
  });

  opened('clients beyond the bound of an hour are counted together', async (store) => {
    const events = Array.from({ length: HOUR_ROWS_MAX + 2 }, (_, index) =>
      sent(index + 1, { client: `client ${index}` }),
    ).flat();
    await store.append({ events, runs: [] });
    const { sums } = await store.usage({ from_hour: 0, key: null });
    assert.is(sums[0]?.embeddings, HOUR_ROWS_MAX + 2);
    const clients = (await store.usage({ from_hour: 0, key: 'client' })).sums;
    assert.ok(clients.length <= HOUR_ROWS_MAX + 2, `${clients.length}`);
  });
}

const USED: RunUsage = {
  ...{ hour: HOUR, provider: 'far', model: 'm', client: 'mine', cloud: true },
  ...{ input_tokens: 7, output_tokens: 8, estimated: true },
};

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
function counted(seq: number): StoredEvent {
  const data = { ...asked, request: 'r2', estimated_tokens: 10, sent_at: AT, input_tokens: 25 };
  return event(seq, `${STREAM}:2`, 2, {
    ...{ at: AT + 24 * HOUR_MS, type: 'provider.embedding_counted', data },
  });
}
