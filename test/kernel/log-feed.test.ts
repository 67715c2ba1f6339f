import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../src/errors.ts';
import { NobodyElse } from '../../src/kernel/elsewhere.ts';
import { EventPages } from '../../src/kernel/event-pages.ts';
import { type FollowLogOptions, followLog } from '../../src/kernel/log-feed.ts';
import { LogTail } from '../../src/kernel/log-tail.ts';
import type { StoredEvent } from '../../src/kernel/store/port.ts';
import { type EventData, eventData } from '../../src/transport/stream/event-forms.ts';
import { eventsOf } from '../helpers/events.ts';
import { accepted, bootKernel, request } from '../helpers/kernel.ts';
import { createMemoryStore } from '../helpers/store/memory.ts';
import { turns } from '../helpers/turns.ts';

const LIMITS = { feed_events: 16, feed_bytes: 1e6, event_followers: 2, store_page_bytes: 1e6 };

async function open(limits: Partial<typeof LIMITS> = {}) {
  const inner = createMemoryStore();
  const reads: number[] = [];
  const removed = { to_seq: 0 };
  const store = {
    ...inner,
    readAll: async (from_seq: number, limit: number) => {
      reads.push(from_seq);
      if (reads.length > 1000) throw new Error('it reads the same again and again');
      return (await inner.readAll(from_seq, limit)).filter(({ seq }) => seq > removed.to_seq);
    },
  };
  const harness = await bootKernel({ store });
  const tail = new LogTail(harness.kernel, { ...LIMITS, ...limits });
  const pages = new EventPages(1e6);
  const elsewhere = new NobodyElse(harness.kernel);
  let made = 0;
  /** Accepts this many runs, one event each. */
  const write = async (count: number, prompt = 'hello') => {
    for (let index = 0; index < count; index += 1) {
      made += 1;
      const changes = { request: request({ prompt }) };
      await harness.kernel.append([accepted(`run_${made}`, harness.clock.now(), changes)]);
    }
  };
  const slices = (options: Partial<FollowLogOptions<EventData>> = {}) =>
    followLog(
      { kernel: harness.kernel, store, tail, pages, elsewhere },
      {
        form: eventData,
        follow: true,
        signal: new AbortController().signal,
        wants: () => true,
        ...options,
      },
    );
  const follow = (options: Partial<FollowLogOptions<EventData>> = {}) => eventsOf(slices(options));
  return { ...harness, reads, removed, tail, write, slices, follow };
}

async function all(events: AsyncIterable<{ seq: number }>): Promise<number[]> {
  const seqs: number[] = [];
  for await (const { seq } of events) seqs.push(seq);
  return seqs;
}

const upTo = (last: number, first = 1) =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index);

test('a read without follow returns the events from a position on, and ends', async () => {
  const { write, follow } = await open();
  await write(100);
  assert.equal(await all(follow({ follow: false, from_seq: 1 })), upTo(100));
  assert.equal(await all(follow({ follow: false, from_seq: 98 })), [98, 99, 100]);
  assert.equal(await all(follow({ follow: false, from_seq: 101 })), []);
  assert.equal(await all(follow({ follow: false })), []);
});

test('events written during and after a replay arrive once and in order', async () => {
  const { write, follow } = await open();
  await write(50);
  const stop = new AbortController();
  const seqs: number[] = [];
  const reading = (async () => {
    for await (const { seq } of follow({ from_seq: 1, signal: stop.signal })) {
      seqs.push(seq);
      if (seq === 120) stop.abort();
    }
  })();
  await write(70);
  await reading;
  assert.equal(seqs, upTo(120));
});

test('a fast follower reads from memory', async () => {
  const { write, follow, reads } = await open();
  await write(10);
  const stop = new AbortController();
  const reading = all(follow({ signal: stop.signal }));
  await turns();
  await write(40);
  await turns();
  stop.abort();
  assert.equal(await reading, upTo(50, 11));
  assert.equal(reads, []);
});

test('events that come while a follower waits for its turn share its page', async () => {
  const { write, slices } = await open();
  const turn = Promise.withResolvers<void>();
  let asked = 0;
  const stop = new AbortController();
  const ready = () => {
    asked += 1;
    return asked === 1 ? turn.promise : undefined;
  };
  const pages: number[][] = [];
  const reading = (async () => {
    const follow = slices({
      signal: stop.signal,
      ready,
      wants: ({ stream }) => stream !== 'run_1',
    });
    for await (const { events } of follow) pages.push(events.map(({ seq }) => seq));
  })();
  await turns();
  await write(1);
  await turns();
  assert.is(asked, 0, 'events that it does not want take no turn');
  await write(2);
  await turns();
  assert.is(asked, 1);
  await write(3);
  turn.resolve();
  await turns();
  await write(1);
  await turns();
  stop.abort();
  await reading;
  assert.equal(pages.flat(), upTo(7, 2));
  assert.equal([pages.length, asked], [2, 2]);
});

test('a slow follower reads from the log: it misses nothing and buffers nothing', async () => {
  const { write, follow, reads } = await open();
  const events = follow({ from_seq: 1 })[Symbol.asyncIterator]();
  await write(1);
  assert.is((await events.next()).value?.seq, 1);
  await write(200);
  for (const seq of upTo(201, 2)) assert.is((await events.next()).value?.seq, seq);
  assert.ok(reads.length > 0);
  await events.return?.(undefined);
});

test('large texts push older events out of memory', async () => {
  const { write, follow, tail } = await open({ feed_events: 1000, feed_bytes: 10_000 });
  const events = follow({ from_seq: 1 })[Symbol.asyncIterator]();
  await write(1);
  await events.next();
  await write(20, 'x'.repeat(1500));
  assert.is(tail.read(2, 1), null);
  assert.is(tail.read(21, 1)?.[0]?.seq, 21);
  for (const seq of upTo(21, 2)) assert.is((await events.next()).value?.seq, seq);
  await events.return?.(undefined);
  assert.is(tail.read(21, 1), null, 'nothing is kept when nobody follows');
});

test('a filter selects the events', async () => {
  const { write, follow } = await open();
  await write(30);
  assert.equal(
    await all(follow({ follow: false, from_seq: 1, wants: ({ stream }) => stream.endsWith('7') })),
    [7, 17, 27],
  );
});

/** What is in memory of a log, and its events one by one. */
function tailOf(limits: Partial<typeof LIMITS> = {}) {
  let hear = (_: StoredEvent) => {};
  const kernel = {
    isOpen: true,
    subscribe: (_: string, listener: typeof hear) => {
      hear = listener;
    },
  };
  const tail = new LogTail(kernel as never, { ...LIMITS, ...limits });
  tail.enter();
  return { tail, hear };
}

test('a page has as many events as fit, and at least one', () => {
  const { tail, hear } = tailOf({ store_page_bytes: 2500 });
  for (const [index, size] of [1000, 1000, 1000, 4000, 1000].entries())
    hear({ seq: index + 1, type: 'run.started', data: { text: 'x'.repeat(size) } } as never);
  const read = (from: number, limit = 10) => tail.read(from, limit)?.map(({ seq }) => seq);
  assert.equal(read(1), [1, 2]);
  assert.equal(read(1, 1), [1]);
  assert.equal(read(3), [3]);
  assert.equal(read(4), [4]);
  assert.equal(read(5), [5]);
  assert.equal(read(6), []);
});

test('a read of events that were all removed ends, and a follower gets the next one', async () => {
  const { write, follow, removed, reads } = await open();
  await write(100);
  removed.to_seq = 100;
  assert.equal(await all(follow({ follow: false, from_seq: 1 })), []);
  assert.equal(reads, [1]);
  const events = follow({ from_seq: 1 });
  const first = events[Symbol.asyncIterator]().next();
  await turns(20);
  await write(1);
  assert.is((await first).value?.seq, 101);
});

test('the end of the log in memory has no gap where another kernel wrote', () => {
  const { tail, hear } = tailOf();
  for (const seq of [1, 2, 5, 6]) hear({ seq, type: 'run.started', data: {} } as never);
  const read = (from: number) => tail.read(from, 10)?.map(({ seq }) => seq) ?? null;
  assert.equal([read(1), read(3), read(5), read(6)], [null, null, [5, 6], [6]]);
});

test('the number of followers is bounded, and one that leaves makes room', async () => {
  const { write, follow } = await open();
  await write(1);
  const open2 = [follow({ from_seq: 1 }), follow({ from_seq: 1 })].map((events) =>
    events[Symbol.asyncIterator](),
  );
  for (const events of open2) await events.next();
  assert.is(await codeOf(all(follow({ follow: false, from_seq: 1 }))), 'busy');
  await open2[0]?.return?.(undefined);
  assert.equal(await all(follow({ follow: false, from_seq: 1 })), [1]);
  await open2[1]?.return?.(undefined);
});

test('a log that is not open refuses followers; a kernel that closes ends each of them', async () => {
  const { kernel } = await bootKernel({ open: false });
  const sources = {
    kernel,
    store: createMemoryStore(),
    tail: new LogTail(kernel, LIMITS),
    pages: new EventPages(1e6),
    elsewhere: new NobodyElse(kernel),
  };
  const early = eventsOf(
    followLog(sources, {
      form: eventData,
      follow: true,
      signal: new AbortController().signal,
      wants: () => true,
    }),
  );
  assert.is(await codeOf(all(early)), 'not_ready');

  const { kernel: other, write, follow } = await open();
  await write(3);
  other.close();
  assert.is(await codeOf(all(follow({ from_seq: 1 }))), 'daemon_stopping');
});

function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'none',
    (error: SvcError) => error.code,
  );
}

test.run();
