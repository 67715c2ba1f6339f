import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { options as table } from '../../../src/contract/options.ts';
import { SvcError } from '../../../src/errors.ts';
import { inputOf, keepAliveMs } from '../../../src/transport/ollama/parameters.ts';

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

test('a context that svc cannot make is the nearest one, and only a local model has one', () => {
  const { min, max } = table.context_tokens;
  for (const [num_ctx, tokens] of [
    [null, undefined],
    [min - 1, undefined],
    [min, min],
    [max, max],
    [max + 1, max],
  ] as const) {
    const sent = { model: 'm', options: { num_ctx } } as unknown as Parameters<typeof inputOf>[0];
    assert.is(inputOf(sent, true).context_tokens, tokens, String(num_ctx));
    assert.is(inputOf(sent, false).context_tokens, undefined);
  }
});

test('a number of tokens below one is the largest, and a seed is in its range', () => {
  const of = (options: object) =>
    inputOf({ model: 'm', options } as unknown as Parameters<typeof inputOf>[0], true);
  for (const [num_predict, most] of [
    [-1, table.max_tokens.max],
    [0, table.max_tokens.max],
    [1, 1],
  ] as const)
    assert.is(of({ num_predict }).max_tokens, most, String(num_predict));
  for (const [seed, kept] of [
    [-1, undefined],
    [0, 0],
    [table.seed.max, table.seed.max],
    [table.seed.max + 1, 0],
    [table.seed.max + 8, 7],
  ] as const)
    assert.is(of({ seed }).seed, kept, String(seed));
});

test.run();
