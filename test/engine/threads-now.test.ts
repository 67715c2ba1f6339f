import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Use } from '../../src/engine/measured/idle.ts';
import { ThreadsNow } from '../../src/engine/measured/threads-now.ts';

const CORES = 4;

/** A machine with four cores, and an engine that computes best with all of them. */
function machine(best = CORES) {
  const times = { idle: 0, total: 0, at: 0 };
  const read = (): Use => ({
    cores: Array.from({ length: CORES }, () => ({ idle: times.idle, total: times.total })),
    own: 0,
    at: times.at,
  });
  const now = new ThreadsNow(best, CORES, read);
  /** So many seconds pass in which others leave so many cores idle. */
  const pass = (seconds: number, idle: number) => {
    times.at += seconds * 1000;
    times.total += seconds * 1000;
    times.idle += (seconds * 1000 * idle) / CORES;
    now.look();
  };
  return { now, pass };
}

test('on idle cores it is the best number, however long a token takes', () => {
  const { now, pass } = machine();
  assert.is(now.present, 4);
  now.note(4, 80);
  now.note(2, 10);
  pass(1, 3.7);
  assert.is(now.present, 4);
});

test('beside other work both numbers are tried, and the faster one stays', () => {
  const { now, pass } = machine();
  pass(1, 1.8);
  assert.is(now.present, 4, 'the best number first');
  now.note(4, 80);
  assert.is(now.present, 2, 'as many as there are idle cores');
  now.note(2, 30);
  assert.is(now.present, 2);
  pass(61, 1.8);
  assert.is(now.present, 4, 'the other work may be another one after a minute');
  now.note(4, 20);
  assert.is(now.present, 2, 'what was measured a minute ago is tried again too');
  now.note(2, 30);
  assert.is(now.present, 4);
});

test('the newest tokens count most', () => {
  const { now, pass } = machine();
  now.note(4, 10);
  pass(1, 0.2);
  now.note(1, 25);
  assert.is(now.present, 4, 'a token took 10 ms before the other work began');
  for (let token = 0; token < 4; token += 1) now.note(4, 60);
  assert.is(now.present, 1);
});

test('there is one thread at least, and no more than the best number', () => {
  const { now, pass } = machine(2);
  now.note(2, 50);
  pass(1, 3.1);
  assert.is(now.present, 2);
  pass(1, 0);
  assert.is(now.present, 1);
});

test.run();
