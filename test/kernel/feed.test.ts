import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { RECENT_MAX } from '../../src/kernel/cell.ts';
import { followStream } from '../../src/kernel/feed.ts';
import type { StoredEvent } from '../../src/store/store.ts';
import { accepted, bootKernel } from '../helpers/kernel.ts';
import { turns } from '../helpers/turns.ts';

const RUN = 'run_1';
const isLast = (event: StoredEvent) => event.type === 'run.completed';

async function streaming() {
  const harness = await bootKernel();
  const { kernel, clock } = harness;
  await kernel.propose([accepted(RUN, clock.now(), { idle_ms: 1e9, deadline_at: 1e12 })]);
  await kernel.submit(RUN, { type: 'run.started', attempt: 1 });
  const say = (text: string) => kernel.submit(RUN, { type: 'run.output_appended', attempt: 1, text, token_ids: [] });
  const complete = () => kernel.submit(RUN, { type: 'run.completed', attempt: 1, finish_reason: 'stop', usage: { input_tokens: null, output_tokens: null } });
  return { ...harness, say, complete };
}

function collect(events: AsyncIterable<StoredEvent>) {
  const versions: number[] = [];
  const done = (async () => {
    for await (const event of events) versions.push(event.version);
  })();
  return { versions, done };
}

test('a follower gets every event once: replayed, then live, to the last one', async () => {
  const { kernel, store, say, complete } = await streaming();
  await say('a');
  const following = collect(followStream(kernel, store, RUN, { signal: new AbortController().signal, isLast }));
  await turns();
  await say('b');
  await Promise.all([say('c'), say('d')]);
  await complete();
  await following.done;
  assert.equal(following.versions, [1, 2, 3, 4, 5, 6, 7]);
});

test('a follower that falls behind what is in memory reads the log and misses nothing', async () => {
  const { kernel, store, say, complete } = await streaming();
  const events = followStream(kernel, store, RUN, { signal: new AbortController().signal, isLast })[Symbol.asyncIterator]();
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
  const { kernel, store, say, complete } = await streaming();
  await say('a');
  await say('b');
  const from_seq = kernel.durableSeq;
  await complete();
  const following = collect(followStream(kernel, store, RUN, { from_seq, signal: new AbortController().signal, isLast }));
  await following.done;
  assert.equal(following.versions, [4, 5]);
});

test('a follower leaves when it is told to, and when the kernel closes', async () => {
  const { kernel, store } = await streaming();
  const abort = new AbortController();
  const told = collect(followStream(kernel, store, RUN, { signal: abort.signal, isLast }));
  const closed = collect(followStream(kernel, store, RUN, { signal: new AbortController().signal, isLast }));
  await turns();
  abort.abort();
  await told.done;
  kernel.close();
  await closed.done;
  assert.equal(told.versions, [1, 2]);
  assert.equal(closed.versions, [1, 2]);
});

test('the stream of a run that is not known is empty', async () => {
  const { kernel, store } = await bootKernel();
  const following = collect(followStream(kernel, store, 'run_none', { signal: new AbortController().signal, isLast }));
  await following.done;
  assert.equal(following.versions, []);
});

test.run();
