import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { keepAliveMs } from '../../../src/transport/ollama/parameters.ts';

test('keep_alive is a time with a unit, seconds, or below zero for ever', () => {
  for (const [sent, ms] of [
    [null, null],
    [undefined, null],
    [0, 0],
    ['0', 0],
    ['15m', 900_000],
    ['1h30m', 5_400_000],
    ['250ms', 250],
    ['1.5s', 1500],
    [90, 90_000],
    ['90', 90_000],
    [-1, 1e15],
    ['-1', 1e15],
    ['-5m', 1e15],
  ] as const)
    assert.is(keepAliveMs(sent), ms, String(sent));
  for (const sent of ['', 'm', '-', '-m', 'soon', '5 m'])
    assert.throws(
      () => keepAliveMs(sent),
      (error: unknown) => error instanceof SvcError && error.code === 'invalid_request',
      sent,
    );
});

test.run();
