import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectionError, isAbsent } from '../../src/models/failure.ts';

test('a name that no host has, and an address where nothing listens, are not asked again', () => {
  const failed = (code: string) =>
    connectionError(
      new TypeError('fetch failed', { cause: Object.assign(new Error(), { code }) }),
      'hub',
    );
  assert.equal(
    ['ENOTFOUND', 'EAI_AGAIN', 'ECONNREFUSED'].map((code) => isAbsent(failed(code))),
    [true, false, true],
  );
  assert.match(failed('ENOTFOUND').message, 'No address is known for hub');
  assert.ok(failed('ENOTFOUND').retryable, 'a download that has begun waits for the network');
});

test.run();
