import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import { type RunSnapshot, runMachine } from '../../machines/run/chart.ts';
import { init, statePath, step } from '../../machines/step.ts';
import { SvcError } from '../../src/errors.ts';
import { type Commit, type EventStore, toEvent } from '../../src/kernel/store/port.ts';
import { accepted, bootKernel, gatedStore } from '../helpers/kernel.ts';
import { createMemoryStore } from '../helpers/store/memory.ts';
import { turns } from '../helpers/turns.ts';
import { codeOf } from '../helpers/wait.ts';
import { event as sample } from './store/samples.ts';

const RUN = 'run_1';

test('the state, event and effect of a proposal appear only after it is durable', async () => {
  const store = gatedStore(createMemoryStore());
  const { kernel, clock, effects } = await bootKernel({ store });
  await kernel.append([accepted(RUN, clock.now())]);
  const heard: string[] = [];
  kernel.subscribe('all', (event) => heard.push(event.type));
  store.hold();
  let acknowledged = false;
  const started = kernel.tryAppend(RUN, { type: 'run.started', attempt: 1 }).then(() => {
    acknowledged = true;
  });
  await turns();
  assert.is(statePath(kernel.snapshot(RUN) as RunSnapshot), 'queued');
  assert.is(statePath(kernel.tail(RUN) as RunSnapshot), 'starting');
  assert.equal(heard, []);
  assert.equal(effects, []);
  assert.is(acknowledged, false);
  store.release();
  await started;
  assert.is(statePath(kernel.snapshot(RUN) as RunSnapshot), 'starting');
  assert.equal(heard, ['run.started']);
  assert.equal(effects, [
    { effect: { type: 'startAttempt', params: { run_id: RUN, attempt: 1 } }, id: `${RUN}:2:0` },
  ]);
});

test('a proposal is recorded whole or not at all', async () => {
  const { kernel, clock, store } = await bootKernel();
  await kernel.append([accepted(RUN, clock.now())]);
  const before = kernel.durableSeq;
  const refusal = await kernel
    .append([
      { stream: RUN, event: { type: 'run.started', attempt: 1 } },
      { stream: RUN, event: { type: 'run.started', attempt: 7 } },
    ])
    .then(
      () => null,
      (error: SvcError) => error,
    );
  assert.is(refusal?.code, 'event_refused');
  assert.is(refusal?.details?.state, 'starting');
  assert.ok(String(refusal?.details?.accepted).includes('run.cancel_requested'));
  await turns();
  assert.is(kernel.durableSeq, before);
  assert.is(statePath(kernel.tail(RUN) as RunSnapshot), 'queued');
  assert.is((await store.readStream(RUN, 1, 10)).length, 1);
});

test('proposals made during a commit go into the next one, each of them whole', async () => {
  const store = gatedStore(createMemoryStore());
  const { kernel, clock } = await bootKernel({ store, limits: { commit_events: 3 } });
  store.hold();
  const first = kernel.append([accepted('run_a', clock.now())]);
  await turns();
  const later = [
    kernel.append([accepted('run_b', clock.now()), accepted('run_c', clock.now())]),
    kernel.append([accepted('run_d', clock.now()), accepted('run_e', clock.now())]),
    kernel.append([accepted('run_f', clock.now())]),
  ];
  await turns();
  assert.equal(store.appends, [1]);
  store.release();
  await Promise.all([first, ...later]);
  assert.equal(store.appends, [1, 4, 1]);
  const events = await store.readAll(1, 100);
  assert.equal(
    events.map((event) => event.seq),
    [1, 2, 3, 4, 5, 6],
  );
});

test('after a commit of unknown outcome nothing is acknowledged, and the failure is reported once', async () => {
  const store = gatedStore(createMemoryStore());
  const { kernel, clock, fatal } = await bootKernel({ store });
  store.failWith(new Error('disk on fire'));
  const outcomes = await Promise.allSettled([
    kernel.append([accepted('run_a', clock.now())]),
    kernel.append([accepted('run_b', clock.now())]),
  ]);
  assert.ok(
    outcomes.every(
      (outcome) =>
        outcome.status === 'rejected' && (outcome.reason as SvcError).code === 'store_failed',
    ),
  );
  assert.is(fatal.length, 1);
  store.failWith(null);
  const after = await kernel
    .append([accepted('run_c', clock.now())])
    .catch((error: SvcError) => error.code);
  assert.is(after, 'store_failed');
  assert.is(kernel.durableSeq, 0);
});

test('events wait while the disk is full, and continue when there is space', async () => {
  const store = gatedStore(createMemoryStore());
  const { kernel, clock, fatal } = await bootKernel({ store });
  store.failWith(new SvcError('store_full'));
  const waiting = kernel.append([accepted(RUN, clock.now())]);
  await turns();
  assert.is(kernel.stalled?.code, 'store_full');
  clock.advance(1000);
  await turns();
  assert.is(kernel.stalled?.code, 'store_full');
  store.failWith(null);
  clock.advance(1000);
  await waiting;
  assert.is(kernel.stalled, null);
  assert.equal(fatal, []);
  assert.is((await store.readAll(1, 10)).length, 1);
});

test('the start and the end of using the reserve are each reported once', async () => {
  const inner = createMemoryStore();
  let full = false;
  const store = {
    ...inner,
    append: async (commit: Commit) => ({ ...(await inner.append(commit)), full }),
  };
  const reports: boolean[] = [];
  const { kernel, clock } = await bootKernel({ store });
  kernel.stalls.onReserve((isUsed) => reports.push(isUsed));
  for (const [index, is] of [false, true, true, false, false, true].entries()) {
    full = is;
    await kernel.append([accepted(`run_${index}`, clock.now())]);
  }
  assert.equal(reports, [true, false, true]);
  assert.is(kernel.stalled, null);
});

test('events and rows have the positions that a log with several writers gives them', async () => {
  const inner = createMemoryStore();
  const store: EventStore = {
    ...inner,
    append: async (commit) => {
      const last_seq = (await inner.readAll(1, 1000)).at(-1)?.seq ?? 0;
      const other = sample(last_seq + 1, `other:${last_seq}`, 1);
      const events = commit.events.map((each, n) => ({ ...each, seq: last_seq + 2 + n }));
      await inner.append({ events: [other, ...events], runs: [] });
      return { full: false, first_seq: last_seq + 2 };
    },
  };
  const { kernel, clock } = await bootKernel({ store });
  const heard: number[] = [];
  kernel.subscribe('all', ({ seq }) => heard.push(seq));
  await kernel.append([accepted(RUN, clock.now())]);
  await kernel.append([accepted('run_2', clock.now()), accepted('run_3', clock.now())]);
  assert.equal(heard, [2, 4, 5]);
  assert.is(kernel.durableSeq, 5);
});

test('a deadline that moves later while its timer runs fires on time, to the millisecond', async () => {
  const { kernel, clock } = await bootKernel();
  await kernel.append([accepted(RUN, clock.now(), { first_output_ms: 2_000, idle_ms: 1_950 })]);
  await kernel.tryAppend(RUN, { type: 'run.started', attempt: 1 });
  clock.advance(100);
  await kernel.tryAppend(RUN, {
    type: 'run.output_appended',
    attempt: 1,
    text: 'x',
    token_ids: [],
  });
  clock.advance(1_949);
  await turns();
  assert.is(statePath(kernel.snapshot(RUN) as RunSnapshot), 'streaming');
  clock.advance(1);
  await turns();
  assert.is(statePath(kernel.snapshot(RUN) as RunSnapshot), 'cancelling.by_deadline');
});

test('events before the store opens show at once and become the first commit', async () => {
  const store = gatedStore(createMemoryStore());
  const { kernel } = await bootKernel({ store, open: false });
  const event = {
    type: 'daemon.boot_started',
    boot_id: 'boot_1',
    host_boot_id: null,
    pid: 1,
    version: '0',
    capacity: 2,
    start_deadline_at: 2_000_000,
  } as const;
  const created = kernel.append([{ stream: 'daemon:boot_1', event }]);
  const bound = kernel.tryAppend('daemon:boot_1', {
    type: 'daemon.listening',
    addresses: { http: 'x', grpc: null, socket: null },
  });
  assert.is(statePath(kernel.snapshot('daemon:boot_1') as DaemonSnapshot), 'starting.opening');
  await turns();
  assert.equal(store.appends, []);
  kernel.open((await store.open()).last_seq);
  await Promise.all([created, bound]);
  assert.equal(store.appends, [2]);
});

test('a deadline fires once, and only if nothing happens before it', async () => {
  const { kernel, clock } = await bootKernel();
  const types: string[] = [];
  kernel.subscribe('all', (event) => types.push(event.type));
  await kernel.append([accepted(RUN, clock.now())]);
  clock.advance(9_999);
  await turns();
  assert.equal(types, ['run.accepted']);
  clock.advance(1);
  await turns();
  assert.equal(types, ['run.accepted', 'run.deadline_passed']);
  assert.is(statePath(kernel.snapshot(RUN) as RunSnapshot), 'cancelling.by_deadline');
  clock.advance(1_000);
  await turns();
  assert.equal(types, ['run.accepted', 'run.deadline_passed', 'run.timed_out']);
  clock.advance(1_000_000);
  await turns();
  assert.is(types.length, 3);
});

test('output moves the deadline of silence', async () => {
  const { kernel, clock } = await bootKernel();
  await kernel.append([accepted(RUN, clock.now())]);
  await kernel.tryAppend(RUN, { type: 'run.started', attempt: 1 });
  for (let index = 0; index < 10; index += 1) {
    await kernel.tryAppend(RUN, {
      type: 'run.output_appended',
      attempt: 1,
      text: 'x',
      token_ids: [index],
    });
    clock.advance(1_900);
    await turns();
  }
  assert.is(statePath(kernel.snapshot(RUN) as RunSnapshot), 'streaming');
  clock.advance(100);
  await turns();
  assert.is(statePath(kernel.snapshot(RUN) as RunSnapshot), 'cancelling.by_deadline');
});

test('a deadline that waits for its commit does not fire again', async () => {
  const store = gatedStore(createMemoryStore());
  const { kernel, clock } = await bootKernel({ store });
  await kernel.append([accepted(RUN, clock.now())]);
  store.hold();
  clock.advance(10_000);
  await turns();
  clock.advance(500);
  await turns();
  store.release();
  await turns();
  const types = (await store.readStream(RUN, 1, 10)).map((event) => event.type);
  assert.equal(types, ['run.accepted', 'run.deadline_passed']);
});

test('a loaded stream has its last state and repeats no effect; its deadlines wait for its next event', async () => {
  const { kernel, clock, store } = await bootKernel();
  await kernel.append([accepted(RUN, clock.now())]);
  await kernel.tryAppend(RUN, { type: 'run.started', attempt: 1 });
  await kernel.tryAppend(RUN, {
    type: 'run.output_appended',
    attempt: 1,
    text: 'so far',
    token_ids: [1, 2],
  });
  kernel.close();
  const second = await bootKernel({ store, clock, boot_id: 'boot_2' });
  const snapshot = (await second.kernel.load(RUN)) as RunSnapshot;
  assert.is(statePath(snapshot), 'streaming');
  assert.is(snapshot.context.output, 'so far');
  assert.equal(second.effects, []);
  clock.advance(1e9);
  await turns();
  assert.is(statePath(second.kernel.snapshot(RUN) as RunSnapshot), 'streaming');
  await second.kernel.tryAppend(RUN, {
    type: 'run.output_appended',
    attempt: 1,
    text: ' on',
    token_ids: [3],
  });
  clock.advance(0);
  await turns();
  assert.is(
    statePath(second.kernel.snapshot(RUN) as RunSnapshot),
    'cancelling.by_deadline',
    'its time as a whole is over',
  );
});

test('the projection of a run agrees with the fold of its stream at every step', async () => {
  const { kernel, clock, store } = await bootKernel();
  await kernel.append([accepted(RUN, clock.now())]);
  await kernel.tryAppend(RUN, { type: 'run.started', attempt: 1 });
  await kernel.tryAppend(RUN, {
    type: 'run.output_appended',
    attempt: 1,
    text: 'a',
    token_ids: [],
  });
  await kernel.tryAppend(RUN, {
    type: 'run.completed',
    attempt: 1,
    finish_reason: 'stop',
    usage: { input_tokens: 1, output_tokens: 1 },
  });
  const events = await store.readStream(RUN, 1, 10);
  const [first, ...rest] = events.map(toEvent);
  const folded = rest.reduce(
    (snapshot, event) => step(runMachine, snapshot, event).snapshot,
    init(runMachine, first).snapshot as RunSnapshot,
  );
  const row = await store.getRun(RUN);
  assert.is(row?.state, statePath(folded));
  assert.is(row?.finished, true);
  assert.is(row?.record?.output, folded.context.output);
  assert.is(row?.record?.seq, 4);
  assert.is(row?.seq, 4);
});

test('an empty append resolves and commits nothing', async () => {
  const store = gatedStore(createMemoryStore());
  const { kernel } = await bootKernel({ store });
  await kernel.append([]);
  assert.equal(store.appends, []);
});

test('a listener gets its topic until its signal aborts', async () => {
  const { kernel, clock } = await bootKernel();
  const heard: string[] = [];
  const listening = new AbortController();
  kernel.subscribe({ stream: RUN }, ({ type }) => heard.push(`stream ${type}`), listening.signal);
  kernel.subscribe({ machine: 'run' }, ({ stream }) => heard.push(`machine ${stream}`));
  kernel.subscribe({ machine: 'pull' }, () => heard.push('a pull'));
  await kernel.append([accepted(RUN, clock.now()), accepted('run_other', clock.now())]);
  assert.equal(heard, ['stream run.accepted', `machine ${RUN}`, 'machine run_other']);
  listening.abort();
  await kernel.tryAppend(RUN, { type: 'run.started', attempt: 1 });
  assert.equal(heard.slice(3), [`machine ${RUN}`]);
});

test('a wait ends with the awaited state, with the machine, with its signal or with the kernel', async () => {
  const { kernel, clock } = await bootKernel();
  await kernel.append([accepted(RUN, clock.now()), accepted('run_other', clock.now())]);
  const started = kernel.waitFor(RUN, ({ context }) => context.attempt === 1);
  await kernel.tryAppend(RUN, { type: 'run.started', attempt: 1 });
  await started;

  const gone = kernel.waitFor('run_other', () => false);
  kernel.forget('run_other');
  await gone;

  const cancelled = new AbortController();
  const waiting = kernel.waitFor(RUN, () => false, cancelled.signal);
  cancelled.abort(new SvcError('pull_cancelled'));
  assert.is(await codeOf(waiting), 'pull_cancelled');

  const closed = kernel.waitFor(RUN, () => false);
  kernel.close();
  assert.is(await codeOf(closed), 'daemon_stopping');
});

test.run();
