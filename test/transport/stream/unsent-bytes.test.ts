import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { type Outflow, UnsentBytes } from '../../../src/transport/stream/unsent-bytes.ts';
import { silent } from '../../helpers/kernel.ts';
import { waitFor } from '../../helpers/wait.ts';

function open(unsent_bytes: number) {
  const time = { now: 0 };
  const warned: object[] = [];
  const log = { ...silent, warn: (fields: object) => void warned.push(fields) };
  const unsent = new UnsentBytes({ unsent_bytes }, log, () => time.now);
  const cut: string[] = [];
  const enter = (name: string): Outflow => unsent.enter(() => void cut.push(name));
  const admits = () => {
    try {
      unsent.admit();
      return 'yes';
    } catch (error) {
      return (error as SvcError).code;
    }
  };
  return { time, warned, unsent, cut, enter, admits };
}

const bytes = (size: number) => ({ size, holders: 0 });

test('few answers are made at a time, and the next one is refused when too much is unsent', async () => {
  const { unsent, enter } = open(1000);
  const { promise: read, resolve: finish } = Promise.withResolvers<void>();
  let [making, most] = [0, 0];
  const ask = (name: string) =>
    unsent.makeWhole(async () => {
      making += 1;
      most = Math.max(most, making);
      await read;
      enter(name).setOwnBytes(200);
      making -= 1;
    });
  const answers = Promise.allSettled(Array.from({ length: 20 }, (_, index) => ask(String(index))));
  await waitFor('as many as may are being made', () => making === 4);
  finish();
  const refused = (await answers).filter((answer) => answer.status === 'rejected');
  assert.is(most, 4);
  assert.ok(refused.length >= 12, String(refused.length));
  assert.ok(refused.every(({ reason }) => (reason as SvcError).code === 'busy'));
});

test('shared bytes count once, until the last connection has sent them', () => {
  const { unsent, enter, cut } = open(1000);
  const page = bytes(600);
  const many = Array.from({ length: 50 }, (_, index) => enter(String(index)));
  for (const outflow of many) outflow.hold(page);
  assert.equal([unsent.bytes, page.holders, cut], [600, 50, []]);
  for (const outflow of many.slice(1)) outflow.release(page);
  assert.is(unsent.bytes, 600);
  many[0]?.leave();
  assert.equal([unsent.bytes, page.holders], [0, 0]);
});

test('above the bound the connection with the most bytes for longest is closed, and a reader is not', () => {
  const { time, unsent, enter, cut, warned } = open(1000);
  const [slow, slower, reader] = [enter('slow'), enter('slower'), enter('reader')];
  slower.hold(bytes(300));
  time.now = 5000;
  slow.hold(bytes(400));
  time.now = 9000;
  reader.hold(bytes(700));
  assert.equal(cut, ['slower', 'slow']);
  assert.is(unsent.bytes, 700);
  assert.equal(warned, [{ connections: 1, unsent_bytes: 1000 }], 'one line for both');
});

test('a connection with more bytes than the bound is itself closed', () => {
  const { unsent, enter, cut } = open(1000);
  enter('large').setOwnBytes(1001);
  assert.equal([cut, unsent.bytes], [['large'], 0]);
});

test('new answers are refused from three quarters of the bound, with a time to retry', () => {
  const { unsent, enter, admits } = open(1000);
  const outflow = enter('a');
  outflow.setOwnBytes(749);
  assert.is(admits(), 'yes');
  outflow.setOwnBytes(750);
  assert.is(admits(), 'busy');
  outflow.setOwnBytes(10);
  assert.equal([admits(), unsent.bytes], ['yes', 10]);
});

test('a late or repeated release changes nothing', () => {
  const { unsent, enter } = open(1000);
  const [a, b] = [enter('a'), enter('b')];
  const page = bytes(100);
  a.hold(page);
  a.hold(page);
  b.hold(page);
  a.release(page);
  assert.is(page.holders, 2, 'it is held once more');
  a.release(page);
  a.release(page);
  b.leave();
  b.release(page);
  b.leave();
  b.hold(page);
  b.setOwnBytes(5);
  assert.equal([unsent.bytes, page.holders], [0, 0]);
});

test.run();
