import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunContext } from '../../../machines/run/context.ts';
import { speedOf } from '../../../src/runtime/runs/speed.ts';

const answer = {
  first_output_at: 1000,
  ended_at: 3000,
  outputs: 2,
  turns: [],
  attempt: 1,
  failed_attempts: [],
  completion: { usage: { input_tokens: 7, output_tokens: 54 } },
  output_tokens: 0,
} as unknown as RunContext;

const speed = (change: object) => speedOf({ ...answer, ...change } as RunContext);

test('a speed is of the tokens after the first one, to a tenth', () => {
  assert.is(speed({}), 26.5);
  assert.is(speed({ ended_at: 1000 + 2900 }), 18.3);
  // Without the number of the provider, those that were recorded count.
  assert.is(speed({ completion: null, output_tokens: 11 }), 5);
});

test('pieces that were sent together have no speed: 53 tokens in 2 ms are no 26,000 a second', () => {
  assert.is(speed({ ended_at: 1002 }), null);
  assert.is(speed({ ended_at: 1049 }), null);
  assert.is(speed({ ended_at: 1050 }), 1060);
  assert.is(speed({ outputs: 1 }), null);
});

test('what the engine says counts, whatever the pieces did', () => {
  const said = (tokens_per_second: unknown) => ({
    completion: { usage: { input_tokens: 7, output_tokens: 54 }, tokens_per_second },
  });
  assert.is(speed({ ...said(41.26), ended_at: 1002 }), 41.3);
  assert.is(speed({ ...said(41.26), turns: [{}], attempt: 3 }), 41.3);
  assert.is(speed(said('fast')), 26.5, 'a file of a run may have anything');
  assert.is(speed(said(Number.NaN)), 26.5);
});

test('an unknown time, or one that is not of the model alone, has no speed', () => {
  assert.is(speed({ first_output_at: null }), null);
  assert.is(speed({ ended_at: null }), null);
  assert.is(speed({ turns: [{}] }), null);
  assert.is(speed({ attempt: 2 }), null, 'it was lost, and went on');
  assert.is(speed({ attempt: 2, failed_attempts: [{}] }), 26.5, 'the first one had no output');
  assert.is(speed({ completion: { usage: { input_tokens: 1, output_tokens: 1 } } }), null);
});

test.run();
