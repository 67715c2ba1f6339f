import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { EventPage, EventPages, toRecord } from '../../src/kernel/event-pages.ts';
import type { StoredEvent } from '../../src/store/port.ts';

const event = (seq: number, text = 'é'): StoredEvent => ({
  ...{ seq, stream: 'run_1', version: seq, type: 'run.output_appended', schema: 1 },
  ...{ at: 1_000, boot_id: 'boot_1', data: { text } },
});

test('a page holds each event as JSON and as a server-sent event, in one buffer', () => {
  const stored = [event(1), event(2, 'line\nline\u2028😀'), event(3)];
  const page = new EventPage(stored);
  assert.equal(
    page.events.map((item) => JSON.parse(page.json(item).toString())),
    stored.map(toRecord),
  );
  assert.is(
    page.frames(page.events.slice(1, 2)).toString(),
    `id: 2\nevent: run.output_appended\ndata: ${JSON.stringify(toRecord(stored[1] as StoredEvent))}\n\n`,
  );
  assert.is(page.frames(page.events).length, page.size);
  assert.ok(
    page.frames(page.events).buffer === page.bytes.buffer &&
      page.json(page.events[0] as never).buffer === page.bytes.buffer,
    'without a copy',
  );
});

test('a page has the data of its events, before and after its bytes are written', () => {
  const page = new EventPage([event(1), event(2, '😀')]);
  const told = () => page.events.map((each) => page.told(each)).map(({ at, data }) => [at, data]);
  const before = told();
  assert.equal(before, [
    [1_000, { text: 'é' }],
    [1_000, { text: '😀' }],
  ]);
  let more = 0;
  page.onWritten = (change) => {
    more += change;
  };
  const { cost } = page;
  assert.is(page.json(page.events[0] as never).length > 0, true);
  assert.is(page.cost, cost + more);
  assert.is(page.cost, page.size);
  assert.equal(told(), before);
});

test('followers at the same position share one page, read once and written once', async () => {
  const pages = new EventPages(1e6);
  const leave = pages.enter();
  let reads = 0;
  const read = async () => {
    reads += 1;
    return [event(1)];
  };
  const got = await Promise.all(Array.from({ length: 20 }, () => pages.read('run_1 1', read)));
  assert.ok(got.every((page) => page === got[0] && page !== null));
  assert.is(await pages.read('run_1 1', read), got[0]);
  const made = pages.make('live run_1 2', () => [event(2)]);
  const refuse = () => {
    throw new Error('it is there already');
  };
  assert.is(pages.make('live run_1 2', refuse), made);
  assert.is(reads, 1);
  leave();
});

test('the number of pages read at the same time has a bound', async () => {
  const pages = new EventPages(1e6);
  pages.enter();
  let [now, most] = [0, 0];
  const read = async () => {
    now += 1;
    most = Math.max(most, now);
    await new Promise((resolve) => setImmediate(resolve));
    now -= 1;
    return [event(1)];
  };
  await Promise.all(Array.from({ length: 50 }, (_, index) => pages.read(`run_${index} 1`, read)));
  assert.is(most, 4);
});

test('the cache is bounded: the least recently used page leaves first, and all leave with the last follower', async () => {
  const pages = new EventPages(25_000);
  const leave = pages.enter();
  let reads = 0;
  const ask = (name: string) =>
    pages.read(name, async () => {
      reads += 1;
      return [event(1, 'x'.repeat(10_000))];
    });
  await ask('a');
  await ask('b');
  await ask('a');
  await ask('c');
  assert.is(reads, 3);
  await ask('a');
  assert.is(reads, 3, 'it was asked for since');
  await ask('b');
  assert.is(reads, 4, 'it had to go');
  leave();
  const again = pages.enter();
  await ask('b');
  assert.is(reads, 5);
  again();
});

test('all followers of a failed read get its error, and the next read tries again', async () => {
  const pages = new EventPages(1e6);
  pages.enter();
  const failing = () => Promise.reject(new Error('the disk'));
  const asked = [pages.read('a', failing), pages.read('a', failing)];
  for (const outcome of await Promise.allSettled(asked)) assert.is(outcome.status, 'rejected');
  assert.is((await pages.read('a', async () => [event(1)]))?.events.length, 1);
  assert.is(await pages.read('b', async () => []), null);
});

test.run();
