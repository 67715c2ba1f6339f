import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Use } from '../../../src/providers/local/engine/measured/idle.ts';
import { ThreadsNow } from '../../../src/providers/local/engine/measured/threads.ts';

/** Two cores. Each second has the idle part of both, and the CPU time of this process. */
function open(best: number, available = 2) {
  const reports: string[] = [];
  const use: Use = { cores: [core(0, 0), core(0, 0)], own: 0, at: 0 };
  let [idle, own, at] = [0, 0, 0];
  const now = new ThreadsNow({ best, available, report: (text) => reports.push(text) }, use);
  return {
    now,
    reports,
    second: (idleCores: number, ownCores: number) => {
      idle += (idleCores / 2) * 1000;
      own += ownCores * 1000;
      at += 1000;
      now.note({ cores: [core(idle, at), core(idle, at)], own, at });
      return now.present;
    },
  };
}

function core(idle: number, total: number) {
  return { idle, total };
}

test('other work takes threads away, and its end returns them', () => {
  const { second, reports } = open(2);
  assert.is(second(2, 0), 2);
  assert.is(second(0, 1), 1, 'two busy processes, and two threads that share with them');
  assert.is(second(0, 0.7), 1, 'the same with one thread');
  assert.is(second(1, 1), 2, 'one thread is alone');
  assert.equal(reports, [
    'threads 1: other work leaves 1.0 of 2 cores',
    'threads 2: other work leaves 2.0 of 2 cores',
  ]);
});

test('the own threads are no other work', () => {
  const { second, reports } = open(2);
  assert.is(second(0, 2), 2);
  assert.equal(reports, []);
});

test('more idle cores than the best number change nothing', () => {
  const { second } = open(1);
  assert.is(second(2, 0), 1);
  assert.is(second(0, 0), 1);
});

test('a system that does not say what its cores do changes nothing', () => {
  const { now } = open(2);
  now.note({ cores: [], own: 0, at: 1000 });
  now.note({ cores: [], own: 0, at: 2000 });
  assert.is(now.present, 2);
});

test.run();
