import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { confidence, judge } from '../../src/engine/confidence.ts';

const rule = { tokens: 3, minimum: 0.5 };

test('the filter waits for all the judged tokens before it decides', () => {
  assert.is(judge(rule, [], false), 'undecided');
  assert.is(judge(rule, [0.01, 0.01], false), 'undecided');
});

test('sure tokens are accepted and unsure ones declined, at the geometric mean', () => {
  assert.is(judge(rule, [0.9, 0.9, 0.9], false), 'accepted');
  assert.is(judge(rule, [0.9, 0.9, 0.05], false), 'declined');
  assert.ok(Math.abs(confidence(rule, [0.5, 0.5, 0.5]) - 0.5) < 1e-9);
});

test('tokens after the judged ones do not count', () => {
  assert.is(judge(rule, [0.9, 0.9, 0.9, 0.0001], false), 'accepted');
});

test('an answer that ends early is judged whole, and an empty one is declined', () => {
  assert.is(judge(rule, [0.9], true), 'accepted');
  assert.is(judge(rule, [0.1], true), 'declined');
  assert.is(judge(rule, [], true), 'declined');
});

test('a probability of zero declines and is no NaN', () => {
  assert.is(judge(rule, [1, 0, 1], false), 'declined');
});

test('a rule without tokens accepts everything', () => {
  assert.is(judge({ tokens: 0, minimum: 1 }, [], false), 'accepted');
});

test.run();
