import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { EventPages } from '../../src/kernel/event-pages.ts';
import type { StoredEvent } from '../../src/kernel/store/port.ts';
import { eventJson } from '../../src/transport/stream/event-forms.ts';

const event = (seq: number, text = 'é'): StoredEvent => ({
  seq,
  stream: 'run_1',
  version: seq,
  type: 'run.output_appended',
  schema: 1,
  at: 1_000,
  boot_id: 'boot_1',
  data: { text },
});

test('followers at the same position share one page, read once and written once', async () => {
  const pages = new EventPages(1e6);
  const leave = [pages.enter('run_1'), pages.enter('run_1')];
  let reads = 0;
  const read = async () => {
    reads += 1;
    return [event(1)];
  };
  const got = await Promise.all(
    Array.from({ length: 20 }, () => pages.read('run_1', '1', eventJson, read)),
  );
  assert.ok(got.every((page) => page === got[0] && page !== null));
  assert.is(await pages.read('run_1', '1', eventJson, read), got[0]);
  const made = pages.make('run_1', 'live 2', eventJson, () => [event(2)]);
  const refuse = () => {
    throw new Error('it is there already');
  };
  assert.is(pages.make('run_1', 'live 2', eventJson, refuse), made);
  assert.is(reads, 1);
  for (const each of leave) each();
});

test('a page is kept for other followers of its stream, and goes with the last of them', () => {
  const pages = new EventPages(1e6);
  const make = (stream: string) => pages.make(stream, 'live 1', eventJson, () => [event(1)]);
  const alone = pages.enter('run_1');
  const others = [pages.enter('run_2'), pages.enter('run_2')];
  assert.is.not(make('run_1'), make('run_1'), 'its only follower has read it');
  const shared = make('run_2');
  assert.is(make('run_2'), shared);
  alone();
  others[0]?.();
  others[1]?.();
  const later = [pages.enter('run_2'), pages.enter('run_2')];
  assert.is.not(make('run_2'), shared);
  for (const leave of later) leave();
  assert.is(pages.followers, 0);
});

test('the number of pages read at the same time has a bound', async () => {
  const pages = new EventPages(1e6);
  let [now, most] = [0, 0];
  const read = async () => {
    now += 1;
    most = Math.max(most, now);
    await new Promise((resolve) => setImmediate(resolve));
    now -= 1;
    return [event(1)];
  };
  await Promise.all(
    Array.from({ length: 50 }, (_, index) => pages.read(`run_${index}`, '1', eventJson, read)),
  );
  assert.is(most, 4);
});

test('the cache is bounded: the least recently used page leaves first, and all leave with the last follower', async () => {
  const pages = new EventPages(25_000);
  const enter = () => [pages.enter('log'), pages.enter('log')];
  const leave = enter();
  let reads = 0;
  const ask = (name: string) =>
    pages.read('log', name, eventJson, async () => {
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
  for (const each of leave) each();
  enter();
  await ask('b');
  assert.is(reads, 5);
});

test('all followers of a failed read get its error, and the next read tries again', async () => {
  const pages = new EventPages(1e6);
  const failing = () => Promise.reject(new Error('the disk'));
  const asked = [
    pages.read('run_1', 'a', eventJson, failing),
    pages.read('run_1', 'a', eventJson, failing),
  ];
  for (const outcome of await Promise.allSettled(asked)) assert.is(outcome.status, 'rejected');
  assert.is((await pages.read('run_1', 'a', eventJson, async () => [event(1)]))?.events.length, 1);
  assert.is(await pages.read('run_1', 'b', eventJson, async () => []), null);
});

test.run();
