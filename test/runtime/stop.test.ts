import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Recovery } from '../../machines/run/context.ts';
import { releaseAll } from '../../src/daemon/stop.ts';
import type { SvcError } from '../../src/errors.ts';
import type { EventStore } from '../../src/kernel/store/port.ts';
import { stream } from '../../src/kernel/stream.ts';
import { eventData } from '../../src/transport/stream/event-forms.ts';
import { bootRuntime } from '../helpers/runtime.ts';
import { finish, output, ScriptedProvider, untilAborted } from '../helpers/scripted-provider.ts';
import { createMemoryStore } from '../helpers/store/memory.ts';
import { turns } from '../helpers/turns.ts';
import { waitFor } from '../helpers/wait.ts';

const codeOf = (work: Promise<unknown>) =>
  work.then(() => null).catch((error: SvcError) => error.code);
const inAnswer = () =>
  new ScriptedProvider('local', (_, signal) => [
    output('so ', 1),
    output('far', 2),
    untilAborted(signal),
  ]);

async function boot(local: ScriptedProvider, store: EventStore, boot_id: string) {
  const booted = await bootRuntime({ local, store, boot_id, limits: { local_runs: 2 } });
  const start = async (prompt: string, recovery: Recovery = 'resume') =>
    (await booted.runtime.runs.start({ prompt, recovery }, 'test')).id;
  return { ...booted, start };
}

async function stop(booted: Awaited<ReturnType<typeof boot>>, mode: 'drain' | 'force') {
  await booted.runtime.lifecycle({ type: 'stop_requested', mode, timeout_ms: 1000 }, 'test');
  if (mode === 'drain') booted.clock.advance(1000);
  await waitFor('the transports are asked to close', () => booted.closed.length === 1);
  await releaseAll(booted);
  booted.kernel.close();
  return booted.runtime.stopped();
}

for (const mode of ['drain', 'force'] as const)
  test(`a stop (${mode}) hands over queued and resumable runs, and the report counts each run once`, async () => {
    const store = createMemoryStore();
    const local = inAnswer();
    const before = await boot(local, store, 'boot_1');
    const ids = [
      await before.start('goes on'),
      await before.start('ends', 'end'),
      await before.start('waits'),
    ];
    await waitFor('both are in their answer', async () =>
      (await Promise.all(ids.slice(0, 2).map((id) => before.runtime.runs.get(id)))).every(
        ({ output }) => output === 'so far',
      ),
    );
    assert.equal(await stop(before, mode), { finished: 0, handed_over: 2, ended: 1 });
    assert.is(local.open, 0, 'the work has stopped');
    assert.equal((await store.unfinishedRuns()).sort(), [ids[0], ids[2]].sort());
    const ended = await store.getRun(ids[1] as string);
    assert.equal([ended?.state, ended?.record?.output], ['interrupted', 'so far']);

    const after = await boot(
      new ScriptedProvider('local', [output(' away', 3), finish()]),
      store,
      'boot_2',
    );
    await waitFor('all has ended', async () => (await store.unfinishedRuns()).length === 0);
    assert.is((await after.runtime.runs.get(ids[0] as string)).output, 'so far away');
    assert.is((await after.runtime.runs.get(ids[2] as string)).output, ' away');
    await waitFor('it is ready', () => after.runtime.status().state === 'ready');
  });

test('runs that end within the drain time are finished, queued ones too', async () => {
  const store = createMemoryStore();
  const doors: (() => void)[] = [];
  const local = new ScriptedProvider('local', () => [
    () => new Promise<void>((resolve) => doors.push(resolve)),
    output('done'),
    finish(),
  ]);
  const booted = await boot(local, store, 'boot_1');
  for (const prompt of ['1', '2', '3']) await booted.start(prompt);
  await booted.runtime.lifecycle({ type: 'stop_requested', mode: 'drain' }, 'test');
  for (let index = 0; index < 3; index += 1) {
    await turns();
    doors.shift()?.();
  }
  await waitFor('the transports are asked to close', () => booted.closed.length === 1);
  assert.equal(booted.closed, [{ interrupt: false }]);
  await releaseAll(booted);
  assert.equal(await booted.runtime.stopped(), { finished: 3, handed_over: 0, ended: 0 });
  assert.equal(await store.unfinishedRuns(), []);
});

test('a follower of a run that is handed over learns that it continues after the next start', async () => {
  const booted = await boot(inAnswer(), createMemoryStore(), 'boot_1');
  const id = await booted.start('x');
  const following = codeOf(
    (async () => {
      for await (const _ of booted.runtime.runs.follow(id, {
        form: eventData,
        signal: new AbortController().signal,
      }));
    })(),
  );
  await turns();
  await stop(booted, 'force');
  assert.is(await following, 'daemon_stopping');
});

test('a run cancelled while the daemon stops is cancelled, and is finished in the report', async () => {
  const store = createMemoryStore();
  const booted = await boot(inAnswer(), store, 'boot_1');
  const id = await booted.start('x');
  await turns(20);
  await booted.runtime.lifecycle({ type: 'stop_requested', mode: 'drain' }, 'test');
  assert.is((await booted.runtime.runs.cancel(id, 'test')).state, 'cancelled');
  await waitFor('the transports are asked to close', () => booted.closed.length === 1);
  await releaseAll(booted);
  assert.equal(await booted.runtime.stopped(), { finished: 1, handed_over: 0, ended: 0 });
});

test('the daemon has stopped when its engines have left', async () => {
  const booted = await boot(inAnswer(), createMemoryStore(), 'boot_1');
  const { kernel, store } = booted;
  const engine = stream.engine('boot_1', 1);
  const bounds = { start_ms: 3000, load_ms: 9000, stop_ms: 2000, kill_ms: 1000, idle_ms: 60_000 };
  const load = { attempt: 1, model: 'm', path: '/m.gguf' };
  await kernel.append([{ stream: engine, event: { type: 'engine.created', ...bounds } }]);
  await kernel.append([{ stream: engine, event: { type: 'engine.load_requested', ...load } }]);
  const started = { type: 'engine.process_started', attempt: 1, pid: 7 } as const;
  await kernel.append([{ stream: engine, event: started }]);
  await booted.runtime.lifecycle({ type: 'stop_requested', mode: 'force' }, 'test');
  await waitFor('the transports are asked to close', () => booted.closed.length === 1);
  const released = releaseAll(booted);
  await turns(40);
  const types = async () =>
    (await store.readAll(0, 100))
      .map(({ type }) => type)
      .filter((type) => /^(engine|daemon)\.(exited|stopped|stop_requested)$/.test(type));
  assert.equal(await types(), ['daemon.stop_requested', 'engine.stop_requested']);
  const exited = { type: 'engine.exited', attempt: 1, exit_code: 0, signal: null } as const;
  await kernel.append([{ stream: engine, event: exited }]);
  await released;
  assert.equal((await types()).slice(2), ['engine.exited', 'daemon.stopped']);
});

test.run();
