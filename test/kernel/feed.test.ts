import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EventRecord } from '../../src/contract/contract.ts';
import { NobodyElse } from '../../src/kernel/elsewhere.ts';
import { EventPages } from '../../src/kernel/event-pages.ts';
import { type FollowOptions, followStream } from '../../src/kernel/feed.ts';
import { RECENT_BYTES_MAX, RECENT_MAX } from '../../src/kernel/instance.ts';
import type { RunKey } from '../../src/kernel/stream.ts';
import { type EventData, eventData } from '../../src/transport/stream/event-forms.ts';
import { eventsOf } from '../helpers/events.ts';
import { accepted, bootKernel, request } from '../helpers/kernel.ts';
import { turns } from '../helpers/turns.ts';

const RUN = 'run_1';
const isLast = (event: { type: string }) => event.type === 'run.completed';

async function streaming(prompt = 'p') {
  const harness = await bootKernel();
  const { kernel, store, clock } = harness;
  await kernel.append([
    accepted(RUN, clock.now(), { request: request({ prompt }), idle_ms: 1e9, deadline_at: 1e12 }),
  ]);
  await kernel.tryAppend(RUN, { type: 'run.started', attempt: 1 });
  const say = (text: string) =>
    kernel.tryAppend(RUN, { type: 'run.output_appended', attempt: 1, text, token_ids: [] });
  const complete = () =>
    kernel.tryAppend(RUN, {
      type: 'run.completed',
      attempt: 1,
      finish_reason: 'stop',
      usage: { input_tokens: null, output_tokens: null },
    });
  const pages = new EventPages(1e6);
  const follow = (stream: RunKey, options: Omit<FollowOptions<EventData>, 'form'>) =>
    eventsOf(
      followStream({ kernel, store, pages, elsewhere: new NobodyElse(kernel) }, stream, {
        ...options,
        form: eventData,
      }),
    );
  return { ...harness, pages, follow, say, complete };
}

function collect(events: AsyncIterable<EventRecord>) {
  const versions: number[] = [];
  const done = (async () => {
    for await (const event of events) versions.push(event.version);
  })();
  return { versions, done };
}

test('a follower gets every event once: replayed, then live, to the last one', async () => {
  const { follow, say, complete } = await streaming();
  await say('a');
  const following = collect(follow(RUN, { signal: new AbortController().signal, isLast }));
  await turns();
  await say('b');
  await Promise.all([say('c'), say('d')]);
  await complete();
  await following.done;
  assert.equal(following.versions, [1, 2, 3, 4, 5, 6, 7]);
});

test('a follower that is waiting reads nothing from the log, even if the run leaves memory at once', async () => {
  const { kernel, store, pages, say, complete } = await streaming();
  let reads = 0;
  const counted = {
    readStream: (...asked: Parameters<typeof store.readStream>) => {
      reads += 1;
      return store.readStream(...asked);
    },
  };
  kernel.subscribe({ stream: RUN }, ({ type }) => {
    if (type === 'run.completed') kernel.forget(RUN);
  });
  const options = { form: eventData, signal: new AbortController().signal, isLast };
  const following = collect(
    eventsOf(
      followStream(
        { kernel, store: counted, pages, elsewhere: new NobodyElse(kernel) },
        RUN,
        options,
      ),
    ),
  );
  await turns();
  await say('a');
  await complete();
  await following.done;
  assert.equal(following.versions, [1, 2, 3, 4]);
  assert.is(reads, 0);
});

test('events that come while a follower waits for its turn share its page, even the last one', async () => {
  const { kernel, store, pages, say, complete } = await streaming();
  const turn = Promise.withResolvers<void>();
  const read: number[][] = [];
  const done = (async () => {
    const signal = new AbortController().signal;
    const options = { form: eventData, signal, isLast, ready: () => turn.promise };
    for await (const { events } of followStream(
      { kernel, store, pages, elsewhere: new NobodyElse(kernel) },
      RUN,
      options,
    ))
      read.push(events.map(({ version }) => version));
  })();
  await turns();
  await say('a');
  await complete();
  turn.resolve();
  await done;
  assert.equal(read, [[1, 2, 3, 4]]);
});

test('a follower that falls behind memory reads the log and misses nothing', async () => {
  const { kernel, follow, say, complete } = await streaming();
  const events = follow(RUN, { signal: new AbortController().signal, isLast })[
    Symbol.asyncIterator
  ]();
  await events.next();
  for (let index = 0; index < RECENT_MAX * 2; index += 1) await say('x');
  await complete();
  kernel.forget(RUN);
  let version = 1;
  for (let next = await events.next(); next.done !== true; next = await events.next()) {
    assert.is(next.value.version, version + 1);
    version = next.value.version;
  }
  assert.is(version, RECENT_MAX * 2 + 3);
});

test('a follower from a position gets nothing before it', async () => {
  const { kernel, follow, say, complete } = await streaming();
  await say('a');
  await say('b');
  const from_seq = kernel.durableSeq;
  await complete();
  const following = collect(
    follow(RUN, { from_seq, signal: new AbortController().signal, isLast }),
  );
  await following.done;
  assert.equal(following.versions, [4, 5]);
});

test('a follower leaves when its signal aborts and when the kernel closes', async () => {
  const { kernel, follow } = await streaming();
  const abort = new AbortController();
  const followed = collect(follow(RUN, { signal: abort.signal, isLast }));
  const closed = collect(follow(RUN, { signal: new AbortController().signal, isLast }));
  await turns();
  abort.abort();
  await followed.done;
  kernel.close();
  await closed.done;
  assert.equal(followed.versions, [1, 2]);
  assert.equal(closed.versions, [1, 2]);
});

test('large events leave memory sooner, and their followers read them from the log', async () => {
  const { kernel, follow, say, complete } = await streaming();
  const text = 'x'.repeat(RECENT_BYTES_MAX / 4);
  for (let index = 0; index < 20; index += 1) await say(text);
  const kept = kernel.instance(RUN)?.recent ?? [];
  assert.ok(kept.length > 0 && kept.length <= 4, `${kept.length} of them are in memory`);
  await say('x'.repeat(2 * RECENT_BYTES_MAX));
  assert.is(kernel.instance(RUN)?.recent.length, 1, 'the last one is always there');
  await complete();
  const following = collect(follow(RUN, { signal: new AbortController().signal, isLast }));
  await following.done;
  assert.equal(
    following.versions,
    Array.from({ length: 24 }, (_, index) => index + 1),
  );
});

test('a follower of a run with a long conversation reads none of it from the log', async () => {
  const { kernel, store, pages } = await streaming('x'.repeat(2 * RECENT_BYTES_MAX));
  assert.is(kernel.instance(RUN)?.recent[0]?.version, 1);
  let reads = 0;
  const counted = {
    readStream: (...asked: Parameters<typeof store.readStream>) => {
      reads += 1;
      return store.readStream(...asked);
    },
  };
  const abort = new AbortController();
  const sources = { kernel, store: counted, pages, elsewhere: new NobodyElse(kernel) };
  const options = { form: eventData, signal: abort.signal, isLast };
  for await (const { events } of followStream(sources, RUN, options)) {
    assert.equal(
      events.map(({ version }) => version),
      [1, 2],
    );
    abort.abort();
  }
  assert.is(reads, 0);
});

test('the stream of an unknown run is empty', async () => {
  const { follow } = await streaming();
  const following = collect(follow('run_none', { signal: new AbortController().signal, isLast }));
  await following.done;
  assert.equal(following.versions, []);
});

test.run();
