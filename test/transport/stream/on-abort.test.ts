import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { onAbort } from '../../../src/transport/stream/on-abort.ts';

test('all that wait for a signal are called once, in their order', () => {
  const ending = new AbortController();
  const called: number[] = [];
  for (const name of [1, 2, 3]) onAbort(ending.signal, () => called.push(name));
  ending.abort();
  ending.abort();
  assert.equal(called, [1, 2, 3]);
});

test('a wait that has ended is not called, also when it ends during the abort', () => {
  const ending = new AbortController();
  const called: number[] = [];
  const end = onAbort(ending.signal, () => called.push(1));
  onAbort(ending.signal, () => {
    called.push(2);
    endLast();
  });
  const endLast = onAbort(ending.signal, () => called.push(3));
  end();
  ending.abort();
  assert.equal(called, [2]);
});

test('the same function waits as often as it is given', () => {
  const ending = new AbortController();
  let calls = 0;
  const call = () => {
    calls += 1;
  };
  const end = onAbort(ending.signal, call);
  onAbort(ending.signal, call);
  end();
  ending.abort();
  assert.is(calls, 1);
});

test('a signal has one listener, however many wait for it', () => {
  const { signal } = new AbortController();
  let listeners = 0;
  const add = signal.addEventListener.bind(signal);
  signal.addEventListener = (...args: Parameters<typeof add>) => {
    listeners += 1;
    add(...args);
  };
  for (let count = 0; count < 1000; count += 1) onAbort(signal, () => {});
  assert.is(listeners, 1);
});

test.run();
