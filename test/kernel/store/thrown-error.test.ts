import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { conflict } from '../../../src/kernel/store/row.ts';
import { packError, unpackError } from '../../../src/kernel/store/sqlite/thrown-error.ts';

const crossed = (thrown: unknown) => unpackError(structuredClone(packError(thrown)));

test('an error of svc is the same in the other thread, with its cause as a text', () => {
  const cause = Object.assign(new Error('the disk is full'), { code: 'SQLITE_FULL' });
  const thrown = new SvcError('busy', 'No room.', {
    hint: 'Make some.',
    param: 'file',
    details: { bytes: 1 },
    cause,
  });
  const { code, message, hint, param, details, cause: why } = crossed(thrown) as SvcError;
  assert.equal(
    [code, message, hint, param, details],
    ['busy', 'No room.', 'Make some.', 'file', { bytes: 1 }],
  );
  assert.is((why as Error).message, 'SQLITE_FULL: the disk is full');
  assert.is(crossed(new SvcError('busy')).cause, undefined);
});

test('any other error is one of the store, and its words are the cause', () => {
  for (const [thrown, cause] of [
    [new TypeError('x is null'), 'x is null'],
    [Object.assign(new Error('locked'), { code: 'SQLITE_BUSY' }), 'SQLITE_BUSY: locked'],
    ['text', 'text'],
  ] as const) {
    const error = crossed(thrown) as SvcError;
    assert.is(error.code, 'store_failed');
    assert.is((error.cause as Error).message, cause);
  }
});

test('a conflict stays one', () => {
  const thrown = conflict('version 3 is there') as Error & { code?: string };
  const error = crossed(thrown) as Error & { code?: string };
  assert.equal([error.code, error.message], [thrown.code, thrown.message]);
});

test.run();
