import { getSimplePaths } from '@xstate/graph';
import * as assert from 'uvu/assert';
import type { AnyMachineSnapshot } from 'xstate';
import type { DaemonCreated } from '../../machines/daemon/context.ts';
import type { MachineEvent, NewEvent } from '../../machines/events.ts';
import type { RunSnapshot } from '../../machines/run/chart.ts';
import { isTerminalEvent } from '../../machines/run/context.ts';
import { afterCrash, terminalOf } from '../../machines/run/next.ts';
import { init, statePath, step } from '../../machines/step.ts';
import { foldStream } from '../../src/kernel/fold.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { type EventStore, toEvent } from '../../src/kernel/store/port.ts';
import { type RunKey, stream } from '../../src/kernel/stream.ts';
import { OutputBudget } from '../../src/runtime/runs/output-recorder.ts';
import { readLastBoot, recoverRuns } from '../../src/runtime/runs/recover.ts';
import { Scheduler } from '../../src/runtime/runs/scheduler.ts';
import { silent } from '../helpers/kernel.ts';
import { createMemoryStore } from '../helpers/store/memory.ts';
import { takenEvents } from '../machines/cover.ts';
import { daemonModel } from '../machines/models/daemon.ts';
import { type Model, NOW } from '../machines/models/model.ts';
import type { StreamMachine } from './edges.ts';
import { essence, follow, type KernelWalk, openKernel, streamOf, undated } from './walk-kernel.ts';

/**
 * Every path of the cover, cut off after its last event, and recovered from the log by another
 * boot. A path to an edge is a path to its source, then the edge. So each prefix of a path is
 * another path: so the paths are cut at every place.
 */

const DOWNTIME_MS = 5000;

/** Recovers the paths that the walk through the kernel has left. Returns their number. */
export async function walkCrashes(name: StreamMachine, { left }: KernelWalk): Promise<number> {
  let cuts = 0;
  for (const { model, store, states } of left) {
    if (name === 'run') await recoverAll(store, states, model);
    else if (name === 'daemon')
      for (const [stream, snapshot] of states) await isToldOf(store, stream, snapshot);
    else for (const [stream, snapshot] of states) await staysAsItWas(store, stream, snapshot);
    cuts += states.size;
  }
  return cuts;
}

/**
 * All simple paths of the daemon with one place, through the kernel, and each cut at each of its
 * events. A beginning that several paths share is cut once.
 */
export async function walkSimplePaths(): Promise<{ paths: number; cuts: number }> {
  const model = daemonModel(1);
  const found = getSimplePaths(model.machine, {
    input: model.created,
    events: (snapshot: AnyMachineSnapshot) => takenEvents(model, snapshot),
    serializeState: (snapshot: AnyMachineSnapshot) => model.key(snapshot),
    limit: 2000,
  }).map(({ steps }) =>
    steps
      .map(({ event }) => event as MachineEvent)
      .filter(({ type }) => !type.startsWith('xstate.')),
  );
  const store = createMemoryStore();
  const { kernel, clock } = await openKernel(store);
  const cuts = new Set<string>();
  for (const [index, path] of outermost(found).entries()) {
    const stream = streamOf('daemon', index);
    await follow(kernel, clock, stream, model, path);
    let snapshot: AnyMachineSnapshot = init(model.machine, model.created).snapshot;
    let beginning = '';
    for (let length = 0; length <= path.length; length += 1) {
      if (length > 0) {
        const event = path[length - 1] as MachineEvent;
        snapshot = step(model.machine, snapshot, event).snapshot;
        beginning += `${JSON.stringify(event)}\n`;
      }
      if (cuts.has(beginning)) continue;
      cuts.add(beginning);
      await isToldOf(cutAfter(store, length + 1), stream, snapshot);
    }
    kernel.forget(stream);
  }
  return { paths: found.length, cuts: cuts.size };
}

/** The paths that are not the beginning of another. */
function outermost(paths: readonly MachineEvent[][]): MachineEvent[][] {
  const keys = paths.map((path) => path.map((event) => JSON.stringify(event)));
  const inner = new Set(keys.map((key) => key.slice(0, -1).join('\n')));
  return paths.filter((_, index) => !inner.has((keys[index] ?? []).join('\n')));
}

/** The store as it was when each stream had so many events. */
function cutAfter(store: EventStore, version: number): EventStore {
  return {
    ...store,
    readStream: async (stream, from, limit) =>
      (await store.readStream(stream, from, limit)).filter((event) => event.version <= version),
    lastEvent: async (stream) =>
      (await store.readStream(stream, version, 1))[0] ?? (await store.lastEvent(stream)),
  };
}

/** The next boot derives the ending from two events, and the machine agrees. */
async function isToldOf(
  store: EventStore,
  stream: string,
  snapshot: AnyMachineSnapshot,
): Promise<void> {
  const end = snapshot.matches('stopped') ? 'clean' : snapshot.matches('failed') ? 'failed' : null;
  for (const [host, open] of [
    ['host_1', 'killed'],
    ['host_2', 'power_lost'],
  ] as const) {
    assert.is(
      (await readLastBoot(store, stream.replace('daemon:', ''), host))?.ending,
      end ?? open,
      `${stream}: ${statePath(snapshot)}`,
    );
  }
}

/**
 * Machines that belong to one boot of the daemon: the next boot has its own, and these stay as they
 * were.
 */
async function staysAsItWas(
  store: EventStore,
  stream: string,
  snapshot: AnyMachineSnapshot,
): Promise<void> {
  assert.equal(essence((await foldStream(store, stream))?.snapshot), essence(snapshot), stream);
}

async function recoverAll(
  store: EventStore,
  before: ReadonlyMap<string, AnyMachineSnapshot>,
  model: Model,
): Promise<void> {
  const unfinished = [...before.values()].filter(({ status }) => status === 'active').length;
  const second = await nextBoot(store, 'boot_2');
  assert.is(
    second.queued + second.suspended + second.ended,
    unfinished,
    `${model.name}: every unfinished run is counted`,
  );
  for (const [stream, snapshot] of before) {
    const event = afterCrash(snapshot as RunSnapshot, DOWNTIME_MS);
    const expected =
      event === null
        ? snapshot
        : step(model.machine, snapshot, { ...event, at: NOW + DOWNTIME_MS } as MachineEvent)
            .snapshot;
    assert.equal(
      essence((await foldStream(store, stream))?.snapshot),
      essence(expected),
      `${model.name} ${model.key(snapshot)}`,
    );
  }
  // Another crash before anything was done: nothing ends twice, and what waits waits on.
  const third = await nextBoot(store, 'boot_3');
  assert.equal(
    [third.queued, third.suspended, third.ended],
    [second.queued, second.suspended, 0],
    model.name,
  );
  await endAll(third.kernel, [...before.keys()].map(stream.run));
  for (const stream of before.keys())
    assert.is((await terminalEvents(store, stream)).length, 1, `${stream} has one end`);
  const last = await nextBoot(store, 'boot_4');
  assert.equal([last.queued, last.suspended, last.ended], [0, 0, 0], model.name);
}

async function nextBoot(store: EventStore, boot_id: string) {
  const { kernel, clock } = await openKernel(store, boot_id);
  const daemon = stream.daemon(boot_id);
  const scheduler = new Scheduler({
    kernel,
    daemon,
    outputs: new OutputBudget(1),
    concurrency: { total: 0, perProvider: 0, local: 0 },
    log: silent,
  });
  clock.at += DOWNTIME_MS;
  await kernel.append([
    {
      stream: daemon,
      event: {
        ...undated(daemonModel(1).created as DaemonCreated),
        boot_id,
      } as NewEvent<DaemonCreated>,
    },
  ]);
  const recovered = await recoverRuns(kernel, store, scheduler);
  return { kernel, ...recovered };
}

async function endAll(kernel: Kernel, streams: readonly RunKey[]): Promise<void> {
  for (const stream of streams) {
    if (kernel.snapshot(stream)?.status !== 'active') continue;
    await kernel.append([{ stream, event: { type: 'run.cancel_requested', by: 'test' } }]);
    const end = terminalOf(kernel.snapshot(stream) as RunSnapshot, false);
    if (end !== null) await kernel.append([{ stream, event: end }]);
  }
}

async function terminalEvents(store: EventStore, stream: string): Promise<string[]> {
  return (await store.readStream(stream, 1, 1000))
    .map((event) => toEvent(event).type)
    .filter((type) => isTerminalEvent(type));
}
