import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isTerminalEvent, type Recovery } from '../../../machines/run/context.ts';
import { promptOf } from '../../../src/contract/messages/parts.ts';
import type { SvcError } from '../../../src/errors.ts';
import type { EventStore } from '../../../src/kernel/store/port.ts';
import { stream } from '../../../src/kernel/stream.ts';
import type { AttemptRequest } from '../../../src/ports/providers.ts';
import { readLastBoot, recoverRuns } from '../../../src/runtime/runs/recover.ts';
import { eventData } from '../../../src/transport/stream/event-forms.ts';
import { eventsOf } from '../../helpers/events.ts';
import { gatedStore } from '../../helpers/kernel.ts';
import { manualClock } from '../../helpers/manual-clock.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider, untilAborted } from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';

const YEAR = 365 * 86_400_000;
const codeOf = (work: Promise<unknown>) =>
  work.then(() => null).catch((error: SvcError) => error.code);
const words = ['Once ', 'upon ', 'a ', 'time ', 'it ', 'ended.'];

/** The rest of the answer from a token on. It stops for good after `until` tokens. */
function answer(from: number, until = words.length) {
  const parts = words.map((word, index) => output(word, 100 + index)).slice(from, until);
  return until < words.length
    ? [...parts, () => new Promise<void>(() => {})]
    : [...parts, finish()];
}

const resuming = () =>
  new ScriptedProvider('local', ({ resume }: AttemptRequest) =>
    answer(resume?.token_ids.length ?? 0),
  );
const stuck = () => new ScriptedProvider('local', (_, signal) => [untilAborted(signal)]);

/** A boot that dies when its run has three words. */
async function diedInAnswer(recovery: Recovery, store = createMemoryStore()) {
  const local = new ScriptedProvider('local', () => answer(0, 3));
  const { runtime, kernel } = await bootRuntime({ local, store });
  const { id } = await runtime.runs.start({ prompt: 'tell', recovery }, 'test');
  await waitFor(
    'three words are on disk',
    async () => (await runtime.runs.get(id)).output === 'Once upon a ',
  );
  kernel.close();
  return { store, id };
}

async function leftQueued(count: number) {
  const store = createMemoryStore();
  const before = await bootRuntime({ local: stuck(), store, limits: { local_runs: 1 } });
  const ids: string[] = [];
  for (let index = 0; index <= count; index += 1)
    ids.push((await before.runtime.runs.start({ prompt: String(index) }, 'test')).id);
  await turns();
  before.kernel.close();
  return { store, ids };
}

async function ends(store: EventStore, id: string): Promise<string[]> {
  return (await store.readStream(id, 1, 1000))
    .map(({ type }) => type)
    .filter((type) => isTerminalEvent(type));
}

test('two events show how the last boot ended, whatever it recorded between them', async () => {
  const local = new ScriptedProvider('local', () => answer(0));
  const { store, runtime, kernel, daemon } = await bootRuntime({ local });
  for (let count = 0; count < 30; count += 1) await runtime.runs.start({ prompt: 'x' }, 'test');
  await waitFor('all are settled', () => runtime.status().state === 'ready');
  kernel.close();
  let read = 0;
  const counted: EventStore = {
    ...store,
    readStream: async (...args) => {
      const page = await store.readStream(...args);
      read += page.length;
      return page;
    },
  };
  const [last] = await store.readAll(kernel.durableSeq, 1);
  assert.is(last?.type, 'run.completed', 'the daemon itself said nothing of its runs');
  const lastBoot = await readLastBoot(counted, daemon.replace('daemon:', ''), null, {
    last_seq: kernel.durableSeq,
  });
  assert.equal(lastBoot, {
    boot_id: daemon.replace('daemon:', ''),
    ending: 'killed',
    at: last?.at,
    unfinished_runs: 0,
  });
  assert.is(read, 1);
  assert.is(await readLastBoot(store, 'boot_unknown', null), null);
  assert.is(await readLastBoot(store, null, null), null);
});

test('a run that is not recovered yet is refused as not ready', async () => {
  const { store, ids } = await leftQueued(1);
  const early = await bootRuntime({
    local: new ScriptedProvider('local', []),
    store,
    boot_id: 'boot_2',
    until: 'opened',
  });
  for (const id of ids) {
    assert.is(await codeOf(early.runtime.runs.get(id)), 'not_ready');
    assert.is(await codeOf(early.runtime.runs.cancel(id, 'test')), 'not_ready');
  }
  assert.is(await codeOf(early.runtime.runs.list({})), 'not_ready');
});

test('a resumed run continues from its recorded tokens: its provider gets them with their text, and the answer is whole', async () => {
  const { store, id } = await diedInAnswer('resume');
  const local = resuming();
  const { kernel, runtime } = await bootRuntime({ local, store, boot_id: 'boot_2' });
  await waitFor('it has ended', () => !kernel.instances.has(id));
  const run = await runtime.runs.get(id);
  assert.is(run.state, 'completed');
  assert.is(run.output, words.join(''));
  assert.equal(
    local.asked.map(({ attempt, resume }) => ({ attempt, resume })),
    [
      {
        attempt: 2,
        resume: {
          text: 'Once upon a ',
          parts: [],
          token_ids: [100, 101, 102],
          threads: null,
          batched: false,
          model_file: null,
        },
      },
    ],
  );
  assert.equal(await ends(store, id), ['run.completed']);
});

test('a resumed run gives its provider the number of threads, recorded once and again after a change', async () => {
  const store = createMemoryStore();
  const by = (from: number, until: number, threads: number) =>
    answer(from, until).map((move) =>
      'type' in move && move.type === 'output' ? { ...move, threads } : move,
    );
  const before = await bootRuntime({
    local: new ScriptedProvider('local', () => by(0, 3, 2)),
    store,
  });
  const { id } = await before.runtime.runs.start({ prompt: 'tell', recovery: 'resume' }, 'test');
  await waitFor(
    'three words are on disk',
    async () => (await before.runtime.runs.get(id)).output === 'Once upon a ',
  );
  before.kernel.close();
  const local = new ScriptedProvider('local', () => by(3, words.length, 1));
  const { kernel } = await bootRuntime({ local, store, boot_id: 'boot_2' });
  await waitFor('it has ended', () => !kernel.instances.has(id));
  assert.is(local.asked[0]?.resume?.threads, 2);
  const outputs = (await store.readStream(id, 1, 100)).filter(
    ({ type }) => type === 'run.output_appended',
  );
  const threads = outputs.flatMap(({ data }) => (data.threads === undefined ? [] : [data.threads]));
  assert.equal(threads, [2, 1]);
});

test('a follower cut off by the death of the daemon gets the rest of a resumed run, without a repeat', async () => {
  const { store, id } = await diedInAnswer('resume');
  const seen = await store.readStream(id, 1, 100);
  const { runtime } = await bootRuntime({ local: resuming(), store, boot_id: 'boot_2' });
  let text = seen.map(({ data }) => data.text ?? '').join('');
  for await (const { data } of eventsOf(
    runtime.runs.follow(id, {
      form: eventData,
      from_seq: (seen.at(-1)?.seq ?? 0) + 1,
      signal: new AbortController().signal,
    }),
  ))
    text += data.text ?? '';
  assert.is(text, words.join(''));
});

test('a restarted run discards its recorded output and starts from the beginning', async () => {
  const { store, id } = await diedInAnswer('restart');
  const local = resuming();
  const { kernel, runtime } = await bootRuntime({ local, store, boot_id: 'boot_2' });
  await waitFor('it has ended', () => !kernel.instances.has(id));
  assert.is((await runtime.runs.get(id)).output, words.join(''));
  assert.equal(
    local.asked.map(({ resume }) => resume),
    [null],
  );
  const started = (await store.readStream(id, 1, 100)).filter(({ type }) => type === 'run.started');
  assert.equal(
    started.map(({ data }) => data.resumes),
    [false, false],
  );
});

test('a run with the policy to end is interrupted, keeps its text and is not sent again', async () => {
  const { store, id } = await diedInAnswer('end');
  const local = resuming();
  const { runtime } = await bootRuntime({ local, store, boot_id: 'boot_2' });
  const run = await runtime.runs.get(id);
  assert.equal(
    [run.state, run.output, run.error?.code],
    ['interrupted', 'Once upon a ', 'run_interrupted'],
  );
  assert.equal(local.asked, []);
  assert.equal(await ends(store, id), ['run.interrupted']);
});

test('a run at a provider that cannot continue is sent again if nothing was delivered, and otherwise interrupted', async () => {
  for (const [said, state, asked] of [
    [0, 'completed', 1],
    [2, 'interrupted', 0],
  ] as const) {
    const store = createMemoryStore();
    const local = stuck();
    const remote = (port: ScriptedProvider) => ({ other: { port, kind: 'local' as const } });
    const before = await bootRuntime({
      local,
      store,
      remote: remote(new ScriptedProvider('other', () => answer(0, said))),
    });
    const { id } = await before.runtime.runs.start({ prompt: 'x', provider: 'other' }, 'test');
    await turns(20);
    before.kernel.close();
    const again = new ScriptedProvider('other', () => answer(0));
    const after = await bootRuntime({ local, store, boot_id: 'boot_2', remote: remote(again) });
    await waitFor('it has ended', () => !after.kernel.instances.has(id));
    const run = await after.runtime.runs.get(id);
    assert.is(run.state, state);
    assert.is(run.output, words.slice(0, said === 0 ? words.length : said).join(''));
    assert.is(again.asked.length, asked);
  }
});

test('time without a daemon counts for no deadline, however the clock was set meanwhile', async () => {
  for (const jump of [YEAR, 3_600_000, 0, -3_600_000, -YEAR]) {
    const store = createMemoryStore();
    const limits = { local_runs: 1, queue_ms: 60_000, run_ms: 100_000 };
    const before = await bootRuntime({
      local: new ScriptedProvider('local', () => answer(0, 3)),
      store,
      limits,
      clock: manualClock(2 * YEAR),
    });
    const ids: string[] = [];
    for (const prompt of ['0', '1', '2'])
      ids.push((await before.runtime.runs.start({ prompt }, 'test')).id);
    await turns(20);
    before.clock.advance(20_000);
    await before.kernel.tryAppend(before.daemon, {
      type: 'daemon.history_pruned',
      runs: 0,
      events: 0,
    });
    before.kernel.close();

    const clock = manualClock(before.clock.now() + jump);
    const after = await bootRuntime({ local: stuck(), store, boot_id: 'boot_2', limits, clock });
    await turns(20);
    const states = () =>
      Promise.all(ids.map(async (id) => (await after.runtime.runs.get(id)).state));
    assert.equal(
      await states(),
      ['starting', 'queued', 'queued'],
      `a jump of ${jump} ms fires nothing`,
    );
    assert.equal(after.scheduler.waitingRuns(), ids.slice(1), 'the order is the same');
    clock.advance(39_999);
    await turns(20);
    assert.equal(
      await states(),
      ['starting', 'queued', 'queued'],
      'what was left of the time in the queue is left',
    );
    clock.advance(1);
    await turns(20);
    assert.equal(await states(), ['starting', 'timed_out', 'timed_out']);
    clock.advance(40_000);
    await turns(20);
    assert.equal((await states())[0], 'timed_out', 'and what was left of its time as a whole');
    after.kernel.close();
  }
});

test('a boot that dies before it recovers a run takes no time from that run, whatever its clock said', async () => {
  const store = createMemoryStore();
  const limits = { local_runs: 1, queue_ms: 60_000 };
  const before = await bootRuntime({ local: stuck(), store, limits, clock: manualClock(2 * YEAR) });
  const ids: string[] = [];
  for (const prompt of ['0', '1'])
    ids.push((await before.runtime.runs.start({ prompt }, 'test')).id);
  before.clock.advance(20_000);
  await before.kernel.tryAppend(before.daemon, {
    type: 'daemon.history_pruned',
    runs: 0,
    events: 0,
  });
  before.kernel.close();
  for (const [index, start] of [3 * YEAR, YEAR].entries()) {
    const between = await bootRuntime({
      local: stuck(),
      store,
      boot_id: `boot_between_${index}`,
      limits,
      until: 'opened',
      clock: manualClock(start),
    });
    between.clock.advance(50_000);
    between.kernel.close();
  }
  const clock = manualClock(2 * YEAR);
  const after = await bootRuntime({ local: stuck(), store, boot_id: 'boot_last', limits, clock });
  const state = async () => (await after.runtime.runs.get(ids[1] as string)).state;
  clock.advance(39_999);
  await turns();
  assert.is(await state(), 'queued');
  clock.advance(1);
  await turns();
  assert.is(await state(), 'timed_out');
});

test('a log that fails during the recovery of runs is an error of the start, and of nothing else', async () => {
  const { store: inner } = await leftQueued(3);
  const store = gatedStore(inner);
  const { kernel, scheduler } = await bootRuntime({
    local: stuck(),
    store,
    boot_id: 'boot_2',
    until: 'opened',
  });
  const unhandled: unknown[] = [];
  const listener = (error: unknown) => unhandled.push(error);
  process.on('unhandledRejection', listener);
  store.failWith(new Error('the disk is gone'));
  const load = kernel.load.bind(kernel);
  kernel.load = async (stream) => {
    await turns();
    return load(stream);
  };
  assert.is(await codeOf(recoverRuns(kernel, store, scheduler)), 'store_failed');
  await turns();
  process.off('unhandledRejection', listener);
  assert.equal(unhandled, []);
});

test('however often the daemon dies, the running and the queued runs are answered', async () => {
  const { store, ids } = await leftQueued(2);
  for (let boot = 2; boot < 15; boot += 1) {
    const { kernel } = await bootRuntime({
      local: stuck(),
      store,
      boot_id: `boot_${boot}`,
      limits: { local_runs: 2, run_losses: 1 },
    });
    await turns();
    kernel.close();
  }
  const { kernel, runtime } = await bootRuntime({ local: resuming(), store, boot_id: 'boot_last' });
  for (const id of ids) {
    await waitFor('it has ended', () => !kernel.instances.has(id));
    assert.is((await runtime.runs.get(id)).output, words.join(''));
    assert.equal(await ends(store, id), ['run.completed']);
  }
});

test('a run being cancelled when the daemon dies is cancelled, not resumed', async () => {
  const store = createMemoryStore();
  const before = await bootRuntime({
    local: new ScriptedProvider('local', () => answer(0, 3)),
    store,
  });
  const { id } = await before.runtime.runs.start({ prompt: 'x' }, 'test');
  await turns(20);
  void codeOf(before.runtime.runs.cancel(id, 'test'));
  await turns();
  before.kernel.close();
  const local = resuming();
  const { runtime } = await bootRuntime({ local, store, boot_id: 'boot_2' });
  assert.is((await runtime.runs.get(id)).state, 'cancelled');
  assert.equal(local.asked, []);
});

test('interrupted runs are served before queued ones, and queued ones in their order', async () => {
  const { store, ids } = await leftQueued(3);
  const local = new ScriptedProvider('local', [finish()]);
  const { kernel } = await bootRuntime({
    local,
    store,
    boot_id: 'boot_2',
    limits: { local_runs: 1 },
  });
  for (const id of ids) await waitFor('it has ended', () => !kernel.instances.has(id));
  assert.equal(
    local.asked.map(({ request }) => promptOf(request)),
    ['0', '1', '2', '3'],
  );
});

test('recovered runs are counted, and the daemon is ready when all of them have ended', async () => {
  const { store, ids } = await leftQueued(3);
  const { kernel, scheduler, runtime, propose, providers, daemon } = await bootRuntime({
    local: stuck(),
    store,
    boot_id: 'boot_2',
    until: 'opened',
  });
  const counted = await recoverRuns(kernel, store, scheduler);
  assert.equal(counted, { queued: 3, suspended: 1, ended: 0 });
  await propose({ type: 'daemon.runs_recovered', ...counted });
  await providers.open();
  await propose({ type: 'daemon.providers_probed' });
  assert.is(
    (kernel.snapshot(daemon) as { context: { unsettled: number } } | undefined)?.context.unsettled,
    4,
  );
  for (const id of ids) await runtime.runs.cancel(id, 'test');
  await waitFor('it is ready', () => runtime.status().state === 'ready');
});

test('runs that are cancelled during recovery are not counted', async () => {
  const { store, ids } = await leftQueued(3);
  const { kernel, scheduler, propose, providers, runtime } = await bootRuntime({
    local: stuck(),
    store,
    boot_id: 'boot_2',
    until: 'opened',
  });
  const load = kernel.load.bind(kernel);
  const [, second, third] = ids.map(stream.run);
  assert.ok(second && third);
  kernel.load = async (key) => {
    if (key === third) {
      await waitFor('the second run is loaded', () => kernel.instance(second));
      await runtime.runs.cancel(second, 'test');
    }
    return load(key);
  };
  const counted = await recoverRuns(kernel, store, scheduler);
  assert.equal(counted, { queued: 2, suspended: 1, ended: 0 });
  await propose({ type: 'daemon.runs_recovered', ...counted });
  await providers.open();
  await propose({ type: 'daemon.providers_probed' });
  for (const id of ids) await runtime.runs.cancel(id, 'test');
  await waitFor('it is ready', () => runtime.status().state === 'ready');
});

test('a queue longer than the present limit is kept, and accepts no more until there is room', async () => {
  const { store, ids } = await leftQueued(3);
  const { runtime } = await bootRuntime({
    local: stuck(),
    store,
    boot_id: 'boot_2',
    limits: { queue_runs: 2, local_runs: 1 },
  });
  assert.is(runtime.status().state_path, 'running.saturated');
  for (const id of ids.slice(0, 2)) await runtime.runs.cancel(id, 'test');
  await turns();
  assert.is(runtime.status().state_path, 'running.saturated');
  assert.is(await codeOf(runtime.runs.start({ prompt: 'x' }, 'test')), 'busy');
  await runtime.runs.cancel(ids[2] as string, 'test');
  await turns();
  assert.is(runtime.status().state_path, 'running.accepting');
});

test('a queued run whose provider is gone after a restart fails with that reason', async () => {
  const store = createMemoryStore();
  const local = new ScriptedProvider('local', []);
  const other = new ScriptedProvider('other', (_, signal) => [untilAborted(signal)]);
  const before = await bootRuntime({
    local,
    store,
    remote: { other: { port: other, kind: 'local' } },
    limits: { provider_runs: 1 },
  });
  await before.runtime.runs.start({ prompt: '1', provider: 'other' }, 'test');
  const { id } = await before.runtime.runs.start({ prompt: '2', provider: 'other' }, 'test');
  before.kernel.close();
  const after = await bootRuntime({ local, store, boot_id: 'boot_2' });
  await waitFor('it has ended', () => !after.kernel.instances.has(id));
  const run = await after.runtime.runs.get(id);
  assert.is(run.state, 'failed');
  assert.is(run.error?.code, 'provider_unknown');
  await waitFor('nothing is left', () => after.runtime.status().state === 'ready');
});

test('a start leaves no run without a deadline', async () => {
  const { store, ids } = await leftQueued(2);
  const { kernel } = await bootRuntime({
    local: stuck(),
    store,
    boot_id: 'boot_2',
    limits: { local_runs: 1 },
  });
  await turns();
  for (const id of ids) {
    const instance = kernel.instances.get(id);
    assert.ok(instance?.snapshot.status === 'active', id);
    assert.ok(instance?.disarm !== null && instance?.disarm !== undefined, id);
  }
});

test.run();
