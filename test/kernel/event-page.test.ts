import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { EventPage, type Frames, toRecord } from '../../src/kernel/event-page.ts';
import type { StoredEvent } from '../../src/store/port.ts';

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

test('a page holds each event as JSON and as a server-sent event, in one buffer', () => {
  const stored = [event(1), event(2, 'line\nline\u2028😀'), event(3)];
  const { events, frames } = new EventPage(stored);
  assert.equal(
    events.map((item) => JSON.parse(frames.json(item).toString())),
    stored.map(toRecord),
  );
  assert.is(
    frames.of(events.slice(1, 2)).toString(),
    `id: 2\nevent: run.output_appended\ndata: ${JSON.stringify(toRecord(stored[1] as StoredEvent))}\n\n`,
  );
  assert.is(frames.of(events).length, frames.size);
  assert.ok(
    frames.of(events).buffer === frames.bytes.buffer &&
      frames.json(events[0] as never).buffer === frames.bytes.buffer,
    'without a copy',
  );
});

test('a page has the messages of a WebSocket, of each length that its frames can have', () => {
  // The length of a frame has one, two or eight bytes.
  const stored = [event(1, ''), event(2, 'x'.repeat(200)), event(3, 'y'.repeat(70_000)), event(4)];
  for (const item of stored.slice(0, 1)) item.boot_id = '';
  const { events, messages } = new EventPage(stored);
  assert.equal(received([messages.bytes]), stored.map(toRecord));
  assert.equal(
    events.map((item) => JSON.parse(messages.json(item).toString())),
    stored.map(toRecord),
  );
});

test('parts have whole frames, and leave out the events that are not wanted', () => {
  const stored = Array.from({ length: 20 }, (_, index) => event(index + 1, 'x'.repeat(100)));
  const { events, messages } = new EventPage(stored);
  const one = messages.of(events.slice(0, 1)).length;
  const wanted = events.filter(({ seq }) => seq !== 3 && seq !== 18);
  const parts = [...messages.parts(wanted, 6 * one)];
  assert.equal(
    parts.map((part) => part.length),
    [2, 1, 2],
    'events that follow each other are one piece',
  );
  assert.equal(
    received(parts.flat()),
    stored.filter(({ seq }) => seq !== 3 && seq !== 18).map(toRecord),
  );
  assert.equal(
    [...messages.parts(events.slice(0, 2), 1)].map((part) => part.length),
    [1, 1],
  );
  assert.equal([...messages.parts([], 1)], []);
});

test('a page has the data of its events, before and after its forms are written', () => {
  const page = new EventPage([event(1), event(2, '😀')]);
  const told = () => page.events.map((each) => page.told(each)).map(({ at, data }) => [at, data]);
  const before = told();
  assert.equal(before, [
    [1_000, { text: 'é' }],
    [1_000, { text: '😀' }],
  ]);
  let { cost } = page;
  page.onWritten = (more) => {
    cost += more;
  };
  const size = ({ size }: Frames) => size;
  assert.is(size(page.messages), page.cost);
  assert.equal(told(), before);
  assert.is(size(page.frames) + size(page.messages), page.cost);
  assert.is(page.cost, cost);
  assert.equal(told(), before);
  const again = new EventPage([event(1), event(2, '😀')]);
  assert.equal(
    [again.frames.bytes, again.messages.bytes],
    [page.frames.bytes, page.messages.bytes],
  );
});

/** What a client receives in these bytes: RFC 6455, 5.2. */
function received(pieces: readonly Buffer[]): unknown[] {
  const messages: unknown[] = [];
  for (let rest = Buffer.concat(pieces); rest.length > 0; ) {
    const [first = 0, short = 0] = rest;
    assert.is(first, 0x81, 'a whole text');
    assert.ok(short < 128, 'nothing is masked');
    const begin = short === 127 ? 10 : short === 126 ? 4 : 2;
    const length =
      begin === 10 ? Number(rest.readBigUInt64BE(2)) : begin === 4 ? rest.readUInt16BE(2) : short;
    messages.push(JSON.parse(rest.subarray(begin, begin + length).toString()));
    rest = rest.subarray(begin + length);
  }
  return messages;
}

test.run();
