import * as assert from 'uvu/assert';
import type { AnyMachineSnapshot } from 'xstate';
import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import type { AnyEvent, CreationEvent, NewEvent } from '../../machines/events.ts';
import { acceptedTypesOf, can, init, statePath, step } from '../../machines/step.ts';
import type { Clock } from '../../src/async/clock.ts';
import type { SvcError } from '../../src/errors.ts';
import { foldStream } from '../../src/kernel/fold.ts';
import { Kernel } from '../../src/kernel/kernel.ts';
import type { EventStore } from '../../src/kernel/store/port.ts';
import type { Proposal, StreamKey } from '../../src/kernel/stream.ts';
import { defaultLimits } from '../../src/limits.ts';
import { healthRecord } from '../../src/observability/health/health.ts';
import { projectEvent } from '../../src/runtime/runs/record.ts';
import { everyEffect, silent } from '../helpers/kernel.ts';
import { createMemoryStore } from '../helpers/store/memory.ts';
import { coverOf } from '../machines/cover.ts';
import { models } from '../machines/models/all.ts';
import { type Model, NOW } from '../machines/models/model.ts';
import { type Edge, edge, type StreamMachine } from './edges.ts';

/**
 * Every edge of every model through the kernel and a store, one stream for each; and every refusal.
 */

export interface KernelWalk {
  edges: Set<Edge>;
  paths: number;
  refused: number;
  /** What each model left in its store, and the state of each stream. */
  left: Left[];
}

export interface Left {
  model: Model;
  store: EventStore;
  states: ReadonlyMap<string, AnyMachineSnapshot>;
}

export async function walkKernel(name: StreamMachine): Promise<KernelWalk> {
  const walk: KernelWalk = { edges: new Set(), paths: 0, refused: 0, left: [] };
  for (const model of models.filter(({ machine }) => machine.id === name)) {
    const store = createMemoryStore();
    const { kernel, clock } = await openKernel(store);
    const { states, accepted: edges, refused } = coverOf(model);
    for (const [index, { from, event }] of edges.entries()) {
      const stream = streamOf(name, index);
      await follow(kernel, clock, stream, model, [...from.path, event], walk.edges);
      const folded = await foldStream(store, stream);
      assert.equal(
        essence(folded?.snapshot),
        essence(kernel.snapshot(stream)),
        `${model.name} ${from.key} ${event.type}: the log folds to the same`,
      );
      walk.paths += 1;
    }
    const standing = new Map<string, StreamKey>();
    for (const [index, reached] of [...states.values()].entries()) {
      const stream = streamOf(name, edges.length + index);
      await follow(kernel, clock, stream, model, reached.path, walk.edges);
      standing.set(reached.key, stream);
      walk.paths += 1;
    }
    const seq = kernel.durableSeq;
    // Checks each event. Proposes only one of those that differ in their numbers, because a refusal
    // is slow.
    const told = new Set<string>();
    for (const { from, event } of refused) {
      const stream = standing.get(from.key) ?? streamOf(name, -1);
      assert.not.ok(kernel.accepts(stream, undated(event) as never), `${from.key} ${event.type}`);
      const kind = `${statePath(from.snapshot)} ${event.type}`;
      if (!told.has(kind)) await isRefused(kernel, stream, event);
      told.add(kind);
      walk.refused += 1;
    }
    assert.is(kernel.durableSeq, seq, 'a refusal records nothing');
    const ends = kernel.instances.values().map((one) => [one.stream, one.snapshot] as const);
    walk.left.push({ model, store, states: new Map(ends) });
    kernel.close();
  }
  return walk;
}

/** Proposes a path event by event, and compares each state with the pure fold. */
export async function follow(
  kernel: Kernel,
  clock: FrozenClock,
  stream: StreamKey,
  model: Model,
  path: readonly AnyEvent[],
  edges: Set<Edge> = new Set(),
): Promise<void> {
  const first = model.created as CreationEvent;
  const created: CreationEvent =
    first.type === 'run.accepted' ? { ...first, run_id: stream } : first;
  clock.at = created.at;
  await kernel.append([{ stream, event: undated(created) } as Proposal]);
  let folded: AnyMachineSnapshot = init(model.machine, created).snapshot;
  clock.at = NOW;
  for (const event of path) {
    const before = folded;
    folded = step(model.machine, folded, event).snapshot;
    await kernel.append([{ stream, event: undated(event) } as Proposal]);
    assert.equal(
      essence(kernel.snapshot(stream)),
      essence(folded),
      `${stream} after ${event.type}`,
    );
    edges.add(edge(before, event.type, folded));
  }
  if (model.machine.id === 'daemon') agrees(kernel.snapshot(stream) as AnyMachineSnapshot);
}

/** Health says what the tags say. */
function agrees(snapshot: AnyMachineSnapshot): void {
  const nothing = {
    engines: [],
    providers: [],
    since: 0,
    transitions: [],
    runs: { active: 0, queued: 0, finished: 0 },
    embeddings: { active: 0, answered: 0, failed: 0 },
    seq: 0,
    backlog: 0,
  };
  const health = healthRecord({
    ...nothing,
    daemon: snapshot as DaemonSnapshot,
    last_commit_ms: null,
    verified: null,
    placement: { trouble: null, checks: {} },
    store_bytes: null,
    stalled: null,
    service_id: 'x',
    now: NOW,
  });
  assert.is(health.status, snapshot.hasTag('ready') ? 'pass' : 'fail', statePath(snapshot));
  assert.is(health.reason === null, snapshot.hasTag('ready'), statePath(snapshot));
  assert.is(health.state_path, statePath(snapshot));
}

/** Refused with the state and what it accepts, and nothing has changed. */
async function isRefused(kernel: Kernel, stream: StreamKey, event: AnyEvent): Promise<void> {
  const before = kernel.tail(stream) as AnyMachineSnapshot;
  assert.not.ok(can(before, event));
  const error = await kernel.append([{ stream, event: undated(event) } as Proposal]).then(
    () => null,
    (thrown: SvcError) => thrown,
  );
  assert.is(error?.code, 'event_refused', `${statePath(before)} ${event.type}`);
  assert.equal(error?.details, { state: statePath(before), accepted: acceptedTypesOf(before) });
  assert.is(kernel.tail(stream), before);
  assert.is(kernel.snapshot(stream), before);
}

/** The test sets the time, and no timer fires. */
export interface FrozenClock extends Clock {
  at: number;
}

export async function openKernel(
  store: EventStore,
  boot_id = 'boot_1',
): Promise<{ kernel: Kernel; clock: FrozenClock }> {
  const clock: FrozenClock = { at: NOW, now: () => clock.at, after: () => () => {} };
  const kernel = new Kernel({
    store,
    clock,
    limits: defaultLimits,
    boot_id,
    log: silent,
    project: projectEvent,
    onFatal: (error) => {
      throw error;
    },
  });
  kernel.handle(everyEffect(() => {}));
  kernel.open((await store.open()).last_seq);
  return { kernel, clock };
}

export function streamOf(name: StreamMachine, index: number): StreamKey {
  if (name === 'run') return `run_${index}`;
  return name === 'provider' || name === 'pull' || name === 'lease'
    ? `${name}:x:${index}`
    : `${name}:${index}`;
}

export function undated<F extends AnyEvent>({ at: _, ...event }: F): NewEvent<AnyEvent> {
  return event as unknown as NewEvent<AnyEvent>;
}

/** All of a state that is data. */
export function essence(snapshot: AnyMachineSnapshot | undefined): unknown {
  return snapshot === undefined
    ? null
    : { value: snapshot.value, context: snapshot.context, status: snapshot.status };
}
