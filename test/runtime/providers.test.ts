import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../src/errors.ts';
import { bootRuntime } from '../helpers/runtime.ts';
import { ScriptedProvider, untilAborted } from '../helpers/scripted-provider.ts';
import { turns } from '../helpers/turns.ts';

const codeOf = (work: Promise<unknown>) => work.then(() => null).catch((error: SvcError) => error.code);
const boot = () => bootRuntime({ local: new ScriptedProvider('local', []) });

test('of two that add the same provider at once one is refused, and the file keeps what the daemon has', async () => {
  const { runtime, saved } = await boot();
  const codes = await Promise.all(
    ['http://127.0.0.1:1/v1', 'http://127.0.0.1:2/v1'].map((base_url) => codeOf(runtime.addProvider({ id: 'twice', base_url, kind: 'cloud' }))),
  );
  assert.equal(codes, [null, 'provider_exists']);
  assert.is(saved.length, 1);
  assert.is((saved[0]?.[1] as { base_url: string }).base_url, runtime.listProviders().find(({ id }) => id === 'twice')?.base_url);
});

test('a provider that is removed while it is added is gone from both, and can be added again', async () => {
  const { runtime, saved } = await boot();
  const settings = { id: 'brief', base_url: 'http://127.0.0.1:1/v1' };
  await Promise.all([runtime.addProvider(settings), runtime.removeProvider('brief')]);
  assert.is(saved.at(-1)?.[1], null);
  assert.not.ok(runtime.listProviders().some(({ id }) => id === 'brief'));
  assert.is((await runtime.addProvider(settings)).state, 'available');
  assert.is(await codeOf(runtime.removeProvider('nobody')), 'provider_unknown');
});

test('the outcome of a probe that comes after the removal is left', async () => {
  const { runtime, providers, kernel } = await boot();
  let answer = (_: { models: string[] }) => {};
  const port = new ScriptedProvider('late', []);
  port.probe = () =>
    new Promise((resolve) => {
      answer = resolve;
    });
  const adding = providers.add('late', { adapter: 'openai-compatible', kind: 'cloud', base_url: 'http://x', model: null, key_env: null });
  await adding;
  const entry = providers.port('late') as ScriptedProvider;
  entry.probe = port.probe;
  const testing = codeOf(runtime.testProvider('late'));
  await turns();
  await runtime.removeProvider('late');
  answer({ models: ['m'] });
  assert.is(await testing, 'provider_unknown');
  await kernel.settled();
  assert.not.ok(runtime.listProviders().some(({ id }) => id === 'late'));
});

test('a provider that is removed while it streams lets its run end', async () => {
  const { runtime, kernel } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    remote: { other: { port: new ScriptedProvider('other', (_, signal) => [untilAborted(signal)]), kind: 'local' } },
  });
  const { id } = await runtime.startRun({ prompt: 'hi', provider: 'other' }, 'test');
  await turns();
  await runtime.removeProvider('other');
  assert.is((await runtime.cancelRun(id, 'test')).state, 'cancelled');
  assert.is(kernel.cell(id), undefined);
});

test.run();
