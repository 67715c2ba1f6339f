import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { manualClock } from '../../helpers/manual-clock.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';

/** A local provider whose probes fail with this code. A run has one attempt. */
async function boot(code: 'provider_timed_out' | 'provider_unreachable') {
  const near = new ScriptedProvider('near', [output('yes'), finish()]);
  const world = await bootRuntime({
    local: new ScriptedProvider('local', []),
    remote: { near: { port: near, kind: 'local' } },
    limits: { run_attempts: 1 },
  });
  let probes = 0;
  near.probe = () => {
    probes += 1;
    return Promise.reject(new SvcError(code, 'near does not answer in time.'));
  };
  // It lists no models, so its first failed probe makes it unavailable.
  await world.runtime.providers.test('near');
  const ask = async () => {
    const { id } = await world.runtime.runs.start({ prompt: 'hi', provider: 'near' }, 'test');
    await waitFor('its end', () => !world.kernel.instances.has(id));
    return world.runtime.runs.get(id);
  };
  return { ...world, near, ask, probes: () => probes };
}

test('a local provider that is too slow for its probe gets the request all the same', async () => {
  const { near, ask, providers, probes } = await boot('provider_timed_out');
  assert.is(providers.record('near').state, 'unavailable');
  assert.is(providers.record('near').retry_at, null, 'its circuit has no time');
  assert.ok(providers.usable('near').ok);
  const before = probes();
  const run = await ask();
  assert.equal([run.state, run.output], ['completed', 'yes']);
  assert.is(near.asked.length, 1);
  assert.is(probes(), before, 'the run waits for no probe');
  assert.is(providers.record('near').state, 'available');
});

test('a local provider that is not reached by its probe gets no request', async () => {
  const { near, ask, providers } = await boot('provider_unreachable');
  assert.is(providers.record('near').state, 'unavailable');
  assert.is((await ask()).error?.code, 'provider_unreachable');
  assert.equal(near.asked, []);
});

test('a local provider that answers requests too late waits for its trial', async () => {
  const { near, ask, providers } = await boot('provider_timed_out');
  near.probe = () => Promise.resolve({ models: ['m'] });
  await providers.probe('near');
  near.script = [new SvcError('provider_timed_out', 'near took too long (status 504).')];
  for (let time = 0; time < 3; time += 1) await ask();
  assert.is(near.asked.length, 3);
  const model = near.asked[0]?.request.model ?? '';
  assert.ok(!providers.usable('near', model).ok);
  assert.is((await ask()).error?.code, 'provider_unavailable');
  assert.is(near.asked.length, 3);
});

test('a request waits for the list of the local models, which may come after the first probe', async () => {
  let names: string[] | null = null;
  const local = Object.assign(new ScriptedProvider('local', [output('here'), finish()]), {
    listed: () => names,
  });
  const [asked, read] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  local.probe = async () => {
    asked.resolve();
    await read.promise;
    names = ['mine'];
    return { models: names };
  };
  const clock = manualClock();
  const booting = bootRuntime({
    local,
    clock,
    remote: { near: { port: new ScriptedProvider('near', []), kind: 'local' } },
    settings: { default_provider: 'near' },
  });
  await asked.promise;
  await turns();
  clock.advance(5000);
  await turns();
  read.resolve();
  const { runtime, kernel, providers } = await booting;
  assert.is(providers.record('local').state, 'unavailable', 'the probe came too late');
  const { id } = await runtime.runs.start({ prompt: 'hi', model: 'mine' }, 'test');
  await waitFor('its end', () => !kernel.instances.has(id));
  const run = await runtime.runs.get(id);
  assert.equal([run.provider, run.model, run.output], ['local', 'mine', 'here']);
});

test('a start waits only so long for the list of the local models', async () => {
  const local = Object.assign(new ScriptedProvider('local', []), { listed: () => null });
  const asked = Promise.withResolvers<void>();
  local.probe = () => {
    asked.resolve();
    return new Promise(() => {});
  };
  const clock = manualClock();
  const booting = bootRuntime({ local, clock });
  await asked.promise;
  let isReady = false;
  void booting.then(() => {
    isReady = true;
  });
  await waitFor('it is ready', () => {
    clock.advance(1000);
    return isReady;
  });
  assert.is((await booting).providers.listed('local'), null);
});

test.run();
