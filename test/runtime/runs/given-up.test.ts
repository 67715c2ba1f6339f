import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { errors } from '../../../src/errors.ts';
import type { EventStore } from '../../../src/kernel/store/port.ts';
import { fixedLimits } from '../../../src/limits.ts';
import { recoverRuns } from '../../../src/runtime/runs/recover.ts';
import { callingModel, settled } from '../../helpers/calling-model.ts';
import { bootRuntime, type RuntimeOptions } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider, untilAborted } from '../../helpers/scripted-provider.ts';
import { ScriptedServers } from '../../helpers/scripted-servers.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { waitFor } from '../../helpers/wait.ts';

/** What ends one boot after the other, and how the start goes on without it. */

/** Boots on one log, each killed once it has begun the work that `begun` counts. */
async function killed(times: number, options: RuntimeOptions, begun: () => number): Promise<void> {
  for (let left = times; left > 0; left -= 1) {
    const before = begun();
    const { kernel } = await bootRuntime({ ...options, boot_id: `killed_${left}` });
    await waitFor('it is at work', () => begun() > before);
    kernel.close();
  }
}

test('a call that ends each boot before it is decided is lost at the fourth start, and others go on', async () => {
  const { call_losses } = fixedLimits;
  let isPoison = true;
  let asked = 0;
  const tool = { policy: 'allow', run: () => ({ text: 'done', is_error: false }) } as const;
  const servers = new ScriptedServers({ 'evil/a': tool, 'good/b': tool });
  const options = {
    store: createMemoryStore(),
    servers,
    local: callingModel([['evil__a', '{}']]),
    judge: {
      judge: async () => {
        asked += 1;
        return isPoison ? new Promise<never>(() => {}) : { problem: null };
      },
      warmUp() {},
    },
  };
  const first = await bootRuntime(options);
  const { id } = await first.runtime.runs.start({ prompt: 'x', tool_servers: ['evil'] }, 'test');
  await waitFor('it is judged', () => asked === 1);
  first.kernel.close();
  await killed(call_losses - 1, options, () => asked);
  assert.is(asked, call_losses);
  const before = asked;
  const { runtime, kernel } = await bootRuntime({ ...options, boot_id: 'boot_last' });
  await waitFor('it waits for a person', () => runtime.approvals.list().length === 1);
  assert.is(asked, before, 'it is not judged again');
  const [lost] = runtime.approvals.list();
  assert.equal([lost?.state, lost?.server, lost?.tool], ['lost', 'evil', 'a']);
  assert.is(runtime.status().state, 'running');
  assert.is((await runtime.runs.get(id)).state, 'awaiting_decision');
  const lines = JSON.stringify(await runtime.history.whyRun(id));
  assert.match(
    lines,
    'The daemon ended 3 times in a row before the call of evil__a was decided. It has not begun.',
  );
  isPoison = false;
  await runtime.approvals.decide(`${id}.1`, { decision: 'repeat' }, 'me');
  await settled(kernel, id);
  const { state, tool_calls } = await runtime.runs.get(id);
  assert.equal([state, tool_calls?.[0]?.result], ['completed', 'done']);
  kernel.close();
});

test('a call that may be repeated, and ends each boot, is not repeated for ever', async () => {
  const { call_losses } = fixedLimits;
  const run = () => new Promise<never>(() => {});
  const servers = new ScriptedServers({ 'evil/a': { policy: 'allow', repeatable: true, run } });
  const options = { store: createMemoryStore(), servers, local: callingModel([['evil__a', '{}']]) };
  const first = await bootRuntime(options);
  const { id } = await first.runtime.runs.start({ prompt: 'x', tool_servers: ['evil'] }, 'test');
  await waitFor('it works', () => servers.begun.length === 1);
  first.kernel.close();
  await killed(call_losses - 1, options, () => servers.begun.length);
  const { runtime, kernel } = await bootRuntime({ ...options, boot_id: 'boot_last' });
  await waitFor('it waits for a person', () => runtime.approvals.list().length === 1);
  assert.is(servers.begun.length, call_losses);
  await runtime.approvals.decide(`${id}.1`, { decision: 'skip' }, 'me');
  await settled(kernel, id);
  assert.is((await runtime.runs.get(id)).state, 'completed');
  kernel.close();
});

test('a run at which each boot ends while it reads its provider is given up, and another one is not', async () => {
  const { run_losses } = fixedLimits;
  const begun: string[] = [];
  const port = new ScriptedProvider('far', ({ request }, signal) => {
    const [part] = request.messages[0]?.content ?? [];
    const text = part?.type === 'text' ? part.text : '';
    begun.push(text);
    return text === 'poison' ? [untilAborted(signal)] : [output('fine', 1), finish()];
  });
  const options = {
    store: createMemoryStore(),
    local: new ScriptedProvider('local', []),
    remote: { far: { kind: 'local', port } },
  } as const;
  const first = await bootRuntime(options);
  const { id } = await first.runtime.runs.start({ prompt: 'poison', provider: 'far' }, 'test');
  await waitFor('it is asked', () => begun.length === 1);
  first.kernel.close();
  await killed(run_losses, options, () => begun.length);
  const { runtime, kernel } = await bootRuntime({ ...options, boot_id: 'boot_last' });
  const { state, error } = await runtime.runs.get(id);
  assert.equal([state, error?.code, error?.retryable], ['interrupted', 'run_given_up', false]);
  assert.match(error?.message ?? '', `The daemon ended ${run_losses + 1} times in a row`);
  assert.is(errors.run_given_up.exit, 10);
  const other = await runtime.runs.start({ prompt: 'fine', provider: 'far' }, 'test');
  await settled(kernel, other.id);
  assert.is((await runtime.runs.get(other.id)).output, 'fine');
  assert.is(begun.filter((text) => text === 'poison').length, run_losses + 1);
  kernel.close();
});

test('a run whose events cannot be folded stays in the log, and the others are recovered', async () => {
  const store = createMemoryStore();
  const stuck = () => new ScriptedProvider('local', (_, signal) => [untilAborted(signal)]);
  const before = await bootRuntime({ local: stuck(), store });
  const [bad, good] = await Promise.all(
    ['bad', 'good'].map((prompt) => before.runtime.runs.start({ prompt }, 'test')),
  );
  await waitFor('both are asked', () => before.scheduler.running === 2);
  before.kernel.close();
  const broken: EventStore = {
    ...store,
    readStream: async (key, ...rest) => {
      const events = await store.readStream(key, ...rest);
      return key === bad?.id ? events.map((event) => ({ ...event, data: {} })) : events;
    },
  };
  const next = await bootRuntime({
    local: stuck(),
    store: broken,
    boot_id: 'boot_2',
    until: 'opened',
  });
  const unreadable: string[] = [];
  const found = await recoverRuns(next.kernel, broken, next.scheduler, {
    step_runs: 10,
    made: async () => {},
    unreadable: (run_id) => void unreadable.push(run_id),
  });
  assert.equal([unreadable, found.suspended, found.ended], [[bad?.id], 1, 0]);
  assert.ok(next.kernel.instance(good?.id as never) !== undefined);
  next.kernel.close();
});

test.run();
