import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { toUnexpectedError } from '../../src/cli/terminal/execute.ts';

/** Errors of a command line that no code foresaw. */

test('an unexpected error of a command has its own words, and names no log', () => {
  const { code, message, hint } = toUnexpectedError(new TypeError('x is\nnot a function\u202e'));
  assert.is(code, 'internal');
  assert.is(message, 'An unexpected error occurred in this command: x is not a function\ufffd');
  assert.is(hint, 'To see where, run it again with SVC_DEBUG=1, and report it.');
  assert.is(
    toUnexpectedError('thrown').message,
    'An unexpected error occurred in this command: thrown',
  );
});

test('a part of the program that is missing is still said as such', () => {
  const missing = Object.assign(new Error('gone'), { code: 'ERR_MODULE_NOT_FOUND' });
  assert.is(toUnexpectedError(missing).code, 'program_replaced');
});

test.run();
