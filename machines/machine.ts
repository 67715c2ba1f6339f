import {
  type AnyMachineSnapshot,
  type AnyStateMachine,
  type AnyStateNode,
  assign,
  type ContextFrom,
  createMachine,
  type EventFromLogic,
} from 'xstate';
import type { Deadline, MachineEvent } from './events.ts';

/**
 * What a chart does not draw: how an event changes the context, and when its deadlines pass.
 *
 * `evolve` has what an event changes in any state. `deadlines` has each deadline that a state names
 * in its `meta`; null means that it has no time now.
 */
export interface Rules<M extends AnyStateMachine> {
  evolve(context: ContextFrom<M>, event: EventFromLogic<M>): Partial<ContextFrom<M>>;
  deadlines?: Deadlines<ReturnType<M['getInitialSnapshot']>>;
}

// biome-ignore lint/suspicious/noExplicitAny: any machine, whatever its snapshot
export type Deadlines<S = any, E extends MachineEvent = MachineEvent> = Readonly<
  Record<string, (snapshot: S) => Deadline<E> | null>
>;

/** What a state means for the user. A colour never says it alone: its name is beside it. */
export type Tone = 'good' | 'active' | 'warn' | 'bad' | 'plain';
export type Meaning = readonly [tone: Tone, words: string];

/** What a state may say in its `meta`. */
export interface Meta {
  /** Of a state without inner states. */
  says?: Meaning;
  /** Only shares transitions among the states inside it. No state path names the group. */
  isGroup?: true;
  /** The name of a rule. */
  deadline?: string;
}

const FOLD = 'evolve';

/**
 * The machine of a chart. Each transition folds its event after its own actions and before the
 * entry into its target. No chart can forget the fold, and `transition()` of XState does it too.
 */
export function withRules<M extends AnyStateMachine>(
  chart: M,
  { evolve, deadlines = {} }: Rules<M>,
): M {
  const { actions, ...others } = chart.implementations;
  const fold = assign(
    ({ context, event }) => evolve(context as ContextFrom<M>, event as EventFromLogic<M>) as object,
  );
  const config = { ...addFolds(chart.config as Config), meta: { deadlines } };
  const implementations = { ...others, actions: { ...actions, [FOLD]: fold } };
  return createMachine(config as object, implementations as object) as unknown as M;
}

/** Whether an action is the fold, which every transition has. */
export function isFold(action: string): boolean {
  return action === FOLD;
}

/** The events that the kernel appends when their time comes, unless the state changes first. */
export function deadlinesOf(snapshot: AnyMachineSnapshot): Deadline[] {
  const deadlines: Deadline[] = [];
  for (const rule of rulesOf(leafOf(snapshot))) {
    const deadline = rule(snapshot);
    if (deadline !== null) deadlines.push(deadline);
  }
  return deadlines;
}

/** Every deadline of a machine, by its name. */
export function deadlineRules(machine: AnyStateMachine): Deadlines {
  return (machine.root.meta as { deadlines?: Deadlines } | undefined)?.deadlines ?? {};
}

/** The deadline that a state names, without those of the states around it. */
export function deadlineName(node: AnyStateNode): string | null {
  return (node.meta as Meta | undefined)?.deadline ?? null;
}

/** By innermost state: the deadlines of a state are read at each event. */
const rulesBy = new WeakMap<AnyStateNode, Deadlines[string][]>();

function rulesOf(leaf: AnyStateNode): Deadlines[string][] {
  const known = rulesBy.get(leaf);
  if (known !== undefined) return known;
  const all = deadlineRules(leaf.machine as AnyStateMachine);
  const rules = lineage(leaf)
    .reverse()
    .flatMap((node) => all[deadlineName(node) ?? ''] ?? []);
  rulesBy.set(leaf, rules);
  return rules;
}

/** The configuration of a state, as far as the fold changes it. */
interface Config {
  on?: Record<string, Edge | readonly Edge[]>;
  states?: Record<string, Config>;
}
type Edge = string | { actions?: unknown };

function addFolds({ on = {}, states = {}, ...rest }: Config): Config {
  const edges = Object.entries(on).map(([type, choices]) => [type, [choices].flat().map(addFold)]);
  const inner = Object.entries(states).map(([name, state]) => [name, addFolds(state)]);
  return { ...rest, on: Object.fromEntries(edges), states: Object.fromEntries(inner) };
}

function addFold(edge: Edge): Edge {
  const { actions = [], ...rest } = typeof edge === 'string' ? { target: edge, actions: [] } : edge;
  return { ...rest, actions: [actions, FOLD].flat() };
}

/** The innermost state that a machine is in. */
export function leafOf(snapshot: AnyMachineSnapshot): AnyStateNode {
  return snapshot._nodes.find(({ type }) => type !== 'compound') ?? snapshot.machine.root;
}

/** The state path without the groups around it: `running.accepting`. Empty for the machine. */
export function pathOf(node: AnyStateNode): string {
  const known = paths.get(node);
  if (known !== undefined) return known;
  const path = lineage(node)
    .filter((around) => around === node || !isGroup(around))
    .map(({ key }) => key)
    .join('.');
  paths.set(node, path);
  return path;
}

/** The path of a state is read at each event. */
const paths = new WeakMap<AnyStateNode, string>();

/** The node and the nodes around it, the outermost first, without the machine itself. */
export function lineage(node: AnyStateNode): AnyStateNode[] {
  return node.parent === undefined ? [] : [...lineage(node.parent), node];
}

export function isGroup(node: AnyStateNode): boolean {
  return node.meta?.isGroup === true;
}

/** A guard with its parameters: `isDeadline(idle)`. */
export function nameOf(item: unknown): string {
  if (typeof item === 'string') return item;
  const { type, params } = item as { type: string; params?: unknown };
  return typeof params === 'object' && params !== null
    ? `${type}(${Object.values(params).join(', ')})`
    : type;
}
