import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { anySignal } from '../../src/async/signals.ts';
import { waitFor } from '../helpers/wait.ts';

setFlagsFromString('--expose-gc');
const collect: NodeJS.GCFunction = runInNewContext('gc');
const lasting = new AbortController().signal;

async function collectAll(): Promise<void> {
  for (let round = 0; round < 5; round += 1) {
    collect();
    await turn();
  }
}

/** Aborted, and then without a reference to its controller. */
function aborted(): AbortSignal {
  const controller = new AbortController();
  const signal = anySignal([lasting, controller.signal]);
  controller.abort('why');
  return signal;
}

test('an abort is seen after its source is gone', async () => {
  const signal = aborted();
  await collectAll();
  assert.is(signal.aborted, true);
  assert.is(signal.reason, 'why');
});

test('a timeout that only the signal knows comes, also for a listener that comes later', async () => {
  const signal = anySignal([anySignal([lasting, AbortSignal.timeout(200)]), lasting]);
  const unheard = anySignal([lasting, AbortSignal.timeout(200)]);
  await collectAll();
  let heard = signal.aborted;
  signal.addEventListener('abort', () => {
    heard = true;
  });
  await collectAll();
  await waitFor('both are aborted', () => heard && unheard.aborted);
});

test('a signal that nothing uses is collected, although its source lives', async () => {
  const unused = Array.from({ length: 100 }, () => new WeakRef(anySignal([lasting])));
  await collectAll();
  assert.is(unused.filter((signal) => signal.deref() !== undefined).length, 0);
});

test.run();
