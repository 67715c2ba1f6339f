import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';

/** The failure of the work. */
export async function failure(work: Promise<unknown>): Promise<SvcError> {
  const thrown = await work.then(
    (value) => `no failure: ${JSON.stringify(value)}`,
    (error: unknown) => error,
  );
  assert.instance(thrown, SvcError, String(thrown));
  return thrown as SvcError;
}
