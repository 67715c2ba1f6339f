import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { refuseConfigured } from '../../src/config/refuse-configured.ts';
import type { SvcError } from '../../src/errors.ts';

/** Why a key that has its value from there is not changed, and what to do. Null: it is changed. */
function refusal(key: string, source?: string): [message: string, hint: string] | null {
  const sources = source === undefined ? {} : { [key]: source };
  try {
    refuseConfigured({ sources, file: '/c.json' } as never, key, 'It');
    return null;
  } catch (error) {
    const { code, param, message, hint } = error as SvcError;
    assert.equal([code, param], ['invalid_request', key]);
    return [message, hint];
  }
}

test('what svc has not written is not changed, and the hint is one that works there', () => {
  for (const own of [undefined, 'default', 'models.json', 'providers.json'])
    assert.is(refusal('model', own), null);
  const inFile = 'It is set in /c.json, which svc does not change.';
  assert.equal(refusal('model', 'file'), [
    inFile,
    'Change it with: svc config set model <value>, or remove it: svc config set model --remove',
  ]);
  // A provider is an object: the command sets none.
  const there = 'Change or remove `providers.lab` there, then run: svc restart';
  assert.equal(refusal('providers.lab', 'file'), [inFile, there]);
  assert.equal(refusal('model', 'environment'), [
    'It is set by the environment, which svc does not change.',
    'Change or remove `model` there, then run: svc restart',
  ]);
});

test.run();
