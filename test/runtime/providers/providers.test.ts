import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { providerConfig } from '../../helpers/provider-config.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import {
  finish,
  gate,
  output,
  ScriptedProvider,
  untilAborted,
} from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';

const codeOf = (work: Promise<unknown>) =>
  work.then(() => null).catch((error: SvcError) => error.code);
const boot = () => bootRuntime({ local: new ScriptedProvider('local', []) });

test('of two requests that add the same provider at once one is refused, and the file matches the daemon', async () => {
  const { runtime, saved } = await boot();
  const codes = await Promise.all(
    ['http://127.0.0.1:1/v1', 'http://127.0.0.1:2/v1'].map((base_url) =>
      codeOf(runtime.providers.add({ id: 'twice', base_url, kind: 'cloud' })),
    ),
  );
  assert.equal(codes, [null, 'provider_exists']);
  assert.is(saved.length, 1);
  const known = runtime.providers.list().find(({ id }) => id === 'twice');
  assert.match(JSON.stringify(saved[0]), `"base_url":"${known?.base_url}"`);
});

test('a provider removed while it is added is gone from the daemon and the file, and can be added again', async () => {
  const { runtime, saved } = await boot();
  const settings = { id: 'brief', base_url: 'http://127.0.0.1:1/v1' };
  await Promise.all([runtime.providers.add(settings), runtime.providers.remove('brief')]);
  assert.is(saved.at(-1)?.[1], null);
  assert.not.ok(runtime.providers.list().some(({ id }) => id === 'brief'));
  assert.is((await runtime.providers.add(settings)).state, 'available');
  assert.is(await codeOf(runtime.providers.remove('nobody')), 'provider_unknown');
});

test('the record says where the key is: in the configuration, or stored on this machine', async () => {
  let place: 'file' | null = null;
  const { runtime } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    remote: { lab: { port: new ScriptedProvider('lab', []), kind: 'cloud', key: 'env:LAB_KEY' } },
    keysOf: () => ({ read: async () => 'key', stored: () => place, forget: async () => {} }),
  });
  const credentials = () => runtime.providers.list().map(({ id, credential }) => [id, credential]);
  assert.equal(credentials(), [
    ['local', 'none'],
    ['lab', 'env:LAB_KEY (not set)'],
  ]);
  place = 'file';
  assert.equal(credentials(), [
    ['local', 'none'],
    ['lab', 'stored (file)'],
  ]);
});

for (const outcome of ['success', 'failure'] as const)
  test(`the ${outcome} of a probe that ends after the removal is ignored`, async () => {
    const { runtime, providers } = await boot();
    let answer = (_: { models: string[] }) => {};
    const port = new ScriptedProvider('late', []);
    port.probe = () =>
      new Promise((resolve, reject) => {
        answer =
          outcome === 'success'
            ? resolve
            : () => reject(new SvcError('provider_unreachable', 'It is gone.'));
      });
    const adding = providers.add('late', providerConfig({ kind: 'cloud', model: null }));
    await adding;
    const entry = providers.portFor({ provider: 'late', cloud: true }) as ScriptedProvider;
    entry.probe = port.probe;
    const testing = codeOf(runtime.providers.test('late'));
    await turns();
    await runtime.providers.remove('late');
    answer({ models: ['m'] });
    assert.is(await testing, 'provider_unknown');
    await turns();
    assert.not.ok(runtime.providers.list().some(({ id }) => id === 'late'));
  });

test('a provider that is down or unknown is not usable, and says why', async () => {
  const port = new ScriptedProvider('local', []);
  const { runtime, providers } = await bootRuntime({ local: port });
  assert.equal(providers.usable('local'), { ok: true });
  for (const [code, times, why] of [
    ['provider_unreachable', 3, /^It says no\.$/],
    ['provider_unauthorised', 1, /^local was not asked: .* It says no\. It is asked again when/],
  ] as const) {
    port.probe = () => Promise.reject(new SvcError(code, 'It says no.'));
    for (let time = 0; time < times; time += 1) await runtime.providers.test('local');
    const usable = providers.usable('local');
    assert.ok(!usable.ok);
    assert.equal([usable.code, usable.until], [code, null]);
    assert.match(usable.reason, why);
  }
  assert.match(JSON.stringify(providers.usable('nope')), 'provider_unknown');
});

test('an unchanged list of models is not recorded again, and a changed one is', async () => {
  const port = new ScriptedProvider('local', []);
  let models = ['a', 'b'];
  port.probe = async () => ({ models });
  const { runtime, store } = await bootRuntime({ local: port });
  for (const next of [['a', 'b'], ['b'], ['b']]) {
    models = next;
    await runtime.providers.test('local');
  }
  const recorded = (await store.readAll(1, 1000))
    .filter(({ type }) => type === 'provider.probe_succeeded')
    .map(({ data }) => data.models);
  assert.equal(recorded, [['a', 'b'], null, ['b'], null]);
  assert.is(runtime.providers.list().find(({ id }) => id === 'local')?.models, 1);
});

test('a provider is probed again and again, and only changes are recorded', async () => {
  const port = new ScriptedProvider('near', []);
  let looks = 0;
  let answer: { models: string[] } | SvcError = { models: ['a'] };
  port.probe = async () => {
    looks += 1;
    if (answer instanceof SvcError) throw answer;
    return answer;
  };
  const { runtime, store, clock } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    remote: { near: { port, kind: 'local' } },
    limits: { probe_every_ms: 1000, probe_idle_ms: 1000 },
  });
  const recorded = async () =>
    (await store.readAll(1, 1000)).flatMap(({ stream, type }) =>
      stream.startsWith('provider:') ? [type] : [],
    ).length;
  /** Lets some probes pass. Returns the state of the provider and the number of new events. */
  const after = async (
    next: typeof answer,
  ): Promise<[state: string, events: number, since: number]> => {
    answer = next;
    const [events, from] = [await recorded(), looks];
    await waitFor('some polls', async () => {
      clock.advance(1000);
      await turns();
      return looks >= from + 12;
    });
    const record = runtime.providers.list().find(({ id }) => id === 'near');
    return [record?.state ?? '', (await recorded()) - events, Date.parse(record?.since ?? '')];
  };
  const [state, , since] = await after({ models: ['a'] });
  assert.is(state, 'available');
  assert.equal(await after({ models: ['a'] }), ['available', 0, since], 'nothing is new');
  assert.equal(
    await after({ models: ['a', 'b'] }),
    ['available', 2, since],
    'another list is one probe',
  );
  const refused = (message: string) =>
    new SvcError('provider_unreachable', message, { retryable: true });
  const [down, events, since_down] = await after(refused('gone'));
  assert.equal([down, events], ['unavailable', 6], 'as many probes as it takes');
  assert.ok(since_down > since);
  assert.equal(await after(refused('gone')), ['unavailable', 0, since_down]);
  assert.equal(await after(refused('elsewhere')), ['unavailable', 2, since_down]);
  const [up, back] = await after({ models: ['a', 'b'] });
  assert.equal([up, back], ['available', 2]);
});

test('a cloud provider is not probed, and a removed one no longer', async () => {
  const port = new ScriptedProvider('other', []);
  let looks = 0;
  port.probe = async () => {
    looks += 1;
    return { models: [] };
  };
  const { runtime, clock } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    remote: { cloud: { port, kind: 'cloud' }, near: { port, kind: 'local' } },
    limits: { probe_every_ms: 1000, probe_idle_ms: 1000 },
  });
  const pass = async () => {
    for (let time = 0; time < 10; time += 1) {
      clock.advance(1000);
      await turns();
    }
    return looks;
  };
  assert.ok((await pass()) > 5);
  await runtime.providers.remove('near');
  const before = looks;
  assert.is(await pass(), before);
});

test('a run that must stay on this machine is not sent to a provider that became a cloud one', async () => {
  const store = createMemoryStore();
  const before = await bootRuntime({
    local: new ScriptedProvider('local', []),
    store,
    limits: { provider_runs: 1 },
    remote: {
      other: {
        port: new ScriptedProvider('other', (_, signal) => [untilAborted(signal)]),
        kind: 'local',
      },
    },
  });
  await before.runtime.runs.start({ prompt: '1', provider: 'other' }, 'test');
  const { id } = await before.runtime.runs.start({ prompt: 'mine', provider: 'other' }, 'test');
  before.kernel.close();
  const cloud = new ScriptedProvider('other', [finish()]);
  const after = await bootRuntime({
    local: new ScriptedProvider('local', []),
    store,
    boot_id: 'boot_2',
    remote: { other: { port: cloud, kind: 'cloud' } },
  });
  await waitFor('it has ended', () => !after.kernel.instances.has(id));
  assert.equal(cloud.asked, []);
  assert.is((await after.runtime.runs.get(id)).error?.code, 'provider_unknown');
});

test('a provider that is changed while it streams lets its run end, and the next run is as changed', async () => {
  const free = gate();
  const near = new ScriptedProvider('near', () => [() => free.opened, output('hi'), finish()]);
  const { runtime, kernel, saved, providers } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    remote: { near: { port: near, kind: 'cloud' } },
  });
  const first = await runtime.runs.start({ prompt: 'x', provider: 'near' }, 'test');
  await waitFor('it is asked', () => near.open === 1);
  const changed = await runtime.providers.set({ id: 'near', model: 'm2', max_runs: 3 });
  assert.is(changed.state, 'unknown', 'a cloud is not asked for it');
  assert.equal(providers.ids(), ['local', 'near']);
  assert.match(JSON.stringify(saved.at(-1)), '"model":"m2"');
  free.open();
  const ended = async (id: string) => {
    await waitFor('it has ended', () => !kernel.instances.has(id));
    return runtime.runs.get(id);
  };
  assert.equal([(await ended(first.id)).output, (await ended(first.id)).model], ['hi', 'm']);
  const second = await runtime.runs.start({ prompt: 'x', provider: 'near' }, 'test');
  assert.is((await ended(second.id)).model, 'm2');
  assert.is(await codeOf(runtime.providers.set({ id: 'local', model: 'm' })), 'invalid_request');
  assert.is(await codeOf(runtime.providers.set({ id: 'gone', model: 'm' })), 'provider_unknown');
});

test('a provider removed while it streams lets its run end', async () => {
  const { runtime, kernel } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    remote: {
      other: {
        port: new ScriptedProvider('other', (_, signal) => [untilAborted(signal)]),
        kind: 'local',
      },
    },
  });
  const { id } = await runtime.runs.start({ prompt: 'hi', provider: 'other' }, 'test');
  await turns();
  await runtime.providers.remove('other');
  assert.is((await runtime.runs.cancel(id, 'test')).state, 'cancelled');
  assert.not(kernel.instances.has(id));
});

test.run();
