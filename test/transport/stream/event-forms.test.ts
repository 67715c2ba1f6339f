import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { EventPage } from '../../../src/kernel/event-pages.ts';
import type { StoredEvent } from '../../../src/kernel/store/port.ts';
import { toRecord } from '../../../src/runtime/runs/event-record.ts';
import {
  eventData,
  eventJson,
  serverSentEvents,
  socketMessages,
} from '../../../src/transport/stream/event-forms.ts';

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

test('each form has the record of each event, in one piece of bytes', () => {
  const stored = [event(1), event(2, 'line\nline\u2028😀'), event(3)];
  const { events, body: sent } = new EventPage(stored, serverSentEvents);
  assert.is(
    sent.bytesOf(events.slice(1, 2)).toString(),
    `id: 2\nevent: run.output_appended\ndata: ${JSON.stringify(toRecord(stored[1] as StoredEvent))}\n\n`,
  );
  assert.is(sent.bytesOf(events).length, sent.size);
  assert.is(sent.bytesOf(events.slice(1)).buffer, sent.bytes.buffer, 'without a copy');
  assert.is(sent.bytesOf([]).length, 0);
  const { body: json } = new EventPage(stored, eventJson);
  assert.equal(
    events.map((one) => JSON.parse(json.bytesOf([one]).toString())),
    stored.map(toRecord),
  );
  const { body: data } = new EventPage(stored, eventData);
  assert.equal(
    events.map((one) => data.storedOf(one)),
    stored,
  );
});

test('the messages of a WebSocket have each length that a frame can have', () => {
  // The length of a frame has one, two or eight bytes.
  const stored = [event(1, ''), event(2, 'x'.repeat(200)), event(3, 'y'.repeat(70_000)), event(4)];
  for (const item of stored.slice(0, 1)) item.boot_id = '';
  const { body } = new EventPage(stored, socketMessages);
  assert.equal(received([body.bytes]), stored.map(toRecord));
});

test('parts have whole frames, and leave out the events that are not wanted', () => {
  const stored = Array.from({ length: 20 }, (_, index) => event(index + 1, 'x'.repeat(100)));
  const { events, body: messages } = new EventPage(stored, socketMessages);
  const one = messages.bytesOf(events.slice(0, 1)).length;
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

test('the body of a page is made once, when it is first needed, and says its size', () => {
  let made = 0;
  const counted = {
    ...socketMessages,
    make: (...stored: Parameters<typeof socketMessages.make>) => {
      made += 1;
      return socketMessages.make(...stored);
    },
  };
  const page = new EventPage([event(1), event(2, '😀')], counted);
  let { size } = page;
  assert.is(size > 0 && made, 0);
  page.onMade = (more) => {
    size += more;
  };
  assert.is(page.body, page.body);
  assert.equal([made, page.size, size], [1, page.body.size, page.body.size]);
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
