import { getAdjacencyMap } from '@xstate/graph';
import type { AnyMachineSnapshot, EventObject } from 'xstate';
import type { MachineEvent } from '../../machines/events.ts';
import { can } from '../../machines/step.ts';
import type { Model } from './models/model.ts';

/** A reachable state and a shortest way to it. */
export interface Reached {
  key: string;
  snapshot: AnyMachineSnapshot;
  path: readonly MachineEvent[];
}

/**
 * One event in one state: accepted, it is an edge of the graph; refused, it must change nothing.
 */
export interface Attempt {
  from: Reached;
  event: MachineEvent;
  to: string;
}

export interface Cover {
  states: ReadonlyMap<string, Reached>;
  accepted: readonly Attempt[];
  refused: readonly Attempt[];
}

/** Beyond this the key of a model does not saturate. */
const STATES_MAX = 60_000;

/**
 * The transition cover: every reachable state, and in each of them every event in every payload
 * class. Simple paths explode and shortest paths miss edges; a shortest path to the source of each
 * edge, then the edge, does neither.
 */
export function coverOf(model: Model): Cover {
  const cover = covers.get(model) ?? walk(model);
  covers.set(model, cover);
  return cover;
}

/** A walk takes seconds, and a file asks for it several times. */
const covers = new WeakMap<Model, Cover>();

function walk(model: Model): Cover {
  const adjacency = getAdjacencyMap(model.machine, {
    input: model.created,
    events: (snapshot: AnyMachineSnapshot) => openEvents(model, snapshot),
    serializeState: (snapshot: AnyMachineSnapshot) => model.key(snapshot),
    limit: STATES_MAX,
  });
  const [first] = Object.keys(adjacency);
  const states = new Map<string, Reached>();
  const accepted: Attempt[] = [];
  const refused: Attempt[] = [];
  const waiting: { key: string; path: readonly MachineEvent[] }[] =
    first === undefined ? [] : [{ key: first, path: [] }];
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const node = adjacency[next.key as keyof typeof adjacency];
    if (node === undefined || states.has(next.key)) continue;
    const from: Reached = { ...next, snapshot: node.state as AnyMachineSnapshot };
    states.set(from.key, from);
    if (from.snapshot.status !== 'active')
      refused.push(...model.samples(from.snapshot).map((event) => ({ from, event, to: from.key })));
    for (const { event, state } of Object.values(node.transitions)) {
      const attempt: Attempt = {
        from,
        event: event as MachineEvent,
        to: model.key(state as AnyMachineSnapshot),
      };
      const takes = from.snapshot.status === 'active' && from.snapshot.can(event);
      (takes ? accepted : refused).push(attempt);
      waiting.push({ key: attempt.to, path: [...from.path, attempt.event] });
    }
  }
  return { states, accepted, refused };
}

/**
 * The events that lead somewhere. A simple path has no others: what is refused leaves the machine
 * where it is, and the library would look at it on each of its paths.
 */
export function takenEvents(model: Model, snapshot: AnyMachineSnapshot): EventObject[] {
  return openEvents(model, snapshot).filter((event) => can(snapshot, event as MachineEvent));
}

/** The library's walk goes on beyond the end of a machine; ours does not. */
export function openEvents(model: Model, snapshot: AnyMachineSnapshot): EventObject[] {
  return snapshot.status === 'active' ? model.samples(snapshot) : [];
}
