import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../../src/limits.ts';
import { MINI } from '../../../src/providers/local/load-check.ts';
import { LoadGuard, shapeIn } from '../../../src/providers/local/load-guard.ts';
import type { ModelFile } from '../../../src/providers/local/model-files.ts';
import { failure } from '../../helpers/failure.ts';

/** Which versions of files may be loaded, exactly: no file is read. */

const limits = { ...defaultLimits, engine_quarantine_ms: 1000, local_models: 2 };
const valid = { problem: null, shape: { ...MINI, weights: 1 } };
const model: ModelFile = { id: 'local/m', name: 'm', path: '/m' };
const crashed = { code: 'engine_crashed', retryable: true };
const hung = { code: 'engine_timed_out', retryable: false };

function makeGuard(refused: string | null = null) {
  let now = 0;
  const guard = new LoadGuard({ limits, now: () => now, refused });
  const refusal = (version = '1', file = model) =>
    failure((async () => guard.refuse(file, version))()).catch(() => null);
  return {
    guard,
    refusal,
    pass: (ms: number) => {
      now += ms;
    },
  };
}

test('a death may be chance: the second in a row is not, and a load between them ends the row', () => {
  const { guard } = makeGuard();
  guard.learn('/m', '1', valid);
  assert.not(guard.noteFailure(model, crashed));
  guard.noteLoaded(model);
  assert.not(guard.noteFailure(model, crashed));
  assert.ok(guard.noteFailure(model, crashed));
  assert.ok(guard.hasRefused(model));
});

test('a failure that will happen again refuses at once; a file that was never checked is not judged', () => {
  const { guard } = makeGuard();
  assert.not(guard.noteFailure(model, hung));
  guard.learn('/m', '1', valid);
  assert.not(guard.noteFailure(model, { code: 'engine_killed', retryable: true }));
  assert.ok(guard.noteFailure(model, hung));
});

test('the refusal is for one version and for its time', async () => {
  const { guard, refusal, pass } = makeGuard();
  guard.learn('/m', '1', valid);
  guard.noteFailure(model, hung);
  pass(999);
  const refused = await refusal();
  assert.equal(
    [refused?.code, refused?.message],
    [
      'model_quarantined',
      'The model m hung the engine, so this version of its file is refused until ' +
        '1970-01-01T00:00:01.000Z.',
    ],
  );
  assert.is(await refusal('2'), null);
  pass(1);
  assert.is(await refusal(), null);
});

test('the next boot refuses the same version, and a damaged file refuses none', async () => {
  const { guard } = makeGuard();
  guard.learn('/m', '1', valid);
  guard.noteFailure(model, { ...crashed, retryable: false });
  const refused = { version: '1', reason: 'killed the engine', until: 1000 };
  assert.is(guard.text, `${JSON.stringify({ held: { '/m': refused } }, null, 2)}\n`);
  const next = makeGuard(guard.text);
  assert.match((await next.refusal())?.message ?? '', /^The model m killed the engine/);
  for (const text of ['{', '{"held":{"/m":{"version":1}}}', '{}', '[]']) {
    const damaged = makeGuard(text);
    assert.is(await damaged.refusal(), null);
    assert.not(damaged.guard.hasRefused(model));
  }
});

test('a server is refused with what it printed, and a pardon ends that', async () => {
  const { guard, refusal } = makeGuard();
  const server = { id: 'vl', command: ['x'], memory_bytes: null, at: () => ({}) as never };
  const file = { ...model, server };
  guard.learn('/m', '1', valid);
  guard.noteFailure(file, { ...hung, message: 'It printed last: x' });
  assert.is(
    (await refusal('1', file))?.message,
    'The server of vl is not started again until 1970-01-01T00:00:01.000Z: it failed twice in a ' +
      'row, or hung. To start it now: svc model load vl. It printed last: x',
  );
  assert.ok(guard.pardon(file));
  assert.is(await refusal('1', file), null);
  assert.not(guard.pardon(file));
});

test('what llama.cpp said of a version is known until it loads, and not of another version', () => {
  const { guard } = makeGuard();
  assert.is(guard.find('/m', '1'), null);
  guard.learn('/m', '1', valid);
  guard.noteFailure(model, { code: 'model_invalid', retryable: false, message: 'no tensor' });
  assert.is(guard.find('/m', '1')?.reason, 'no tensor');
  assert.is(guard.find('/m', '2'), null);
  guard.noteLoaded(model);
  assert.equal([guard.find('/m', '1')?.reason, guard.find('/m', '1')?.loaded], [null, true]);
});

test('a bounded number of files and of refusals is kept, and those whose time is over are dropped', () => {
  const { guard, pass } = makeGuard();
  const refuse = (path: string) => {
    guard.learn(path, '1', valid);
    guard.noteFailure({ path }, hung);
  };
  for (let at = 0; at <= 64; at += 1) refuse(`/${at}`);
  assert.equal([guard.hasRefused({ path: '/0' }), guard.hasRefused({ path: '/1' })], [false, true]);
  assert.is(guard.find('/62', '1'), null);
  assert.ok(guard.find('/63', '1') !== null);
  pass(1000);
  refuse('/last');
  assert.equal(Object.keys(JSON.parse(guard.text).held), ['/last']);
});

test('a file with a problem is refused by its name', async () => {
  assert.is(shapeIn(valid, model), valid.shape);
  const bad = { problem: 'it is short', shape: null };
  const refused = await failure((async () => shapeIn(bad, model))());
  assert.equal([refused.code, refused.message], ['model_invalid', 'm: it is short']);
});

test.run();
