import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../src/errors.ts';
import { recoverRuns } from '../../src/runtime/recover.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { bootRuntime } from '../helpers/runtime.ts';
import { gate, ScriptedProvider, untilAborted } from '../helpers/scripted-provider.ts';
import { turns } from '../helpers/turns.ts';
import { waitFor } from '../helpers/wait.ts';

const codeOf = (work: Promise<unknown>) => work.then(() => null).catch((error: SvcError) => error.code);

async function leftQueued(count: number) {
  const store = createMemoryStore();
  const stuck = new ScriptedProvider('local', (_, signal) => [untilAborted(signal)]);
  const before = await bootRuntime({ local: stuck, store, limits: { local_runs: 1 } });
  const ids: string[] = [];
  for (let index = 0; index <= count; index += 1) ids.push((await before.runtime.startRun({ prompt: String(index) }, 'test')).id);
  await turns();
  before.kernel.close();
  return { store, ids };
}

test('a run that is not taken up yet is said to be so, not answered with nothing', async () => {
  const { store, ids } = await leftQueued(1);
  const early = await bootRuntime({ local: new ScriptedProvider('local', []), store, boot_id: 'boot_2', until: 'opened' });
  for (const id of ids) {
    assert.is(await codeOf(early.runtime.getRun(id)), 'not_ready');
    assert.is(await codeOf(early.runtime.cancelRun(id, 'test')), 'not_ready');
  }
  assert.is(await codeOf(early.runtime.listRuns({})), 'not_ready');
});

test('runs whose time in the queue passed while the daemon was down are ended, and each counts until it is', async () => {
  const { store, ids } = await leftQueued(3);
  const after = await bootRuntime({ local: new ScriptedProvider('local', []), store, boot_id: 'boot_2', until: 'opened' });
  const { kernel, clock, dispatch } = after;
  const [load, append] = [kernel.load.bind(kernel), store.append.bind(store)];
  const ends = gate();
  store.append = async (commit) => {
    if (commit.events.some(({ type }) => type === 'run.timed_out')) await ends.opened;
    return append(commit);
  };
  let loading = 0;
  kernel.load = async (stream) => {
    loading += 1;
    if (loading === ids.length) clock.advance(600_000);
    await turns();
    return load(stream);
  };
  const { queued } = await recoverRuns(kernel, store, dispatch);
  assert.is(dispatch.running, 2);
  assert.is(queued, 3);
  clock.advance(1);
  ends.open();
  await waitFor('all are ended', () => dispatch.queued + dispatch.running === 0);
});

test('a queue that is longer than the daemon takes now is worked off, and takes no more until there is room', async () => {
  const { store, ids } = await leftQueued(4);
  const local = new ScriptedProvider('local', (_, signal) => [untilAborted(signal)]);
  const { runtime } = await bootRuntime({ local, store, boot_id: 'boot_2', limits: { queue_runs: 2, local_runs: 1 } });
  assert.is(runtime.status().state_path, 'running.saturated');
  for (const id of ids.slice(1, 3)) await runtime.cancelRun(id, 'test');
  await turns();
  assert.is(runtime.status().state_path, 'running.saturated');
  assert.is(await codeOf(runtime.startRun({ prompt: 'x' }, 'test')), 'busy');
  await runtime.cancelRun(ids[3] as string, 'test');
  await turns();
  assert.is(runtime.status().state_path, 'running.accepting');
});

test('a queued run whose provider is gone after a restart fails and says so', async () => {
  const store = createMemoryStore();
  const stuck = new ScriptedProvider('other', (_, signal) => [untilAborted(signal)]);
  const local = new ScriptedProvider('local', []);
  const before = await bootRuntime({ local, store, remote: { other: { port: stuck, kind: 'local' } }, limits: { provider_runs: 1 } });
  await before.runtime.startRun({ prompt: '1', provider: 'other' }, 'test');
  const { id } = await before.runtime.startRun({ prompt: '2', provider: 'other' }, 'test');
  before.kernel.close();
  const after = await bootRuntime({ local, store, boot_id: 'boot_2' });
  await waitFor('it has ended', () => after.kernel.cell(id) === undefined);
  const run = await after.runtime.getRun(id);
  assert.is(run.state, 'failed');
  assert.is(run.error?.code, 'provider_unknown');
  assert.is(after.runtime.status().state, 'ready');
});

test.run();
