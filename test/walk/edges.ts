import type { AnyMachineSnapshot } from 'xstate';
import type { RunEvent } from '../../machines/run/context.ts';
import { statePath, step } from '../../machines/step.ts';
import type { ToolCall } from '../../machines/tool-call.ts';
import type { StoredEvent } from '../../src/kernel/store/port.ts';
import { LogFold } from '../helpers/fold-log.ts';
import { coverOf } from '../machines/cover.ts';
import { models } from '../machines/models/all.ts';

/** One step of a machine between two innermost states: `source | event | target`. */
export type Edge = string;

/** Those with streams. */
export const MACHINES = [
  ...(['daemon', 'run', 'provider', 'engine', 'pull', 'mcp', 'lease', 'conversation'] as const),
];
export type StreamMachine = (typeof MACHINES)[number];
/** Calls of tools too, which the machine of their run folds. */
export const WALKED = [...MACHINES, 'tool_call' as const];
export type MachineName = (typeof WALKED)[number];

export function edge(source: AnyMachineSnapshot, type: string, target: AnyMachineSnapshot): Edge {
  return `${statePath(source)} | ${type} | ${statePath(target)}`;
}

/** Every edge of a machine, found by walking its graph at the bounds of its models. */
export function edgesOf(name: MachineName): Set<Edge> {
  const found = new Set<Edge>();
  for (const model of models.filter(({ machine }) => machine.id === name)) {
    for (const { from, event } of coverOf(model).accepted)
      found.add(
        edge(from.snapshot, event.type, step(model.machine, from.snapshot, event).snapshot),
      );
  }
  return found;
}

/** The edges that a log walks, by machine. Throws if a machine refuses an event of its log. */
export class Walked {
  readonly edges = new Map<string, Set<Edge>>(WALKED.map((name) => [name, new Set()]));
  /** Events that were folded. */
  events = 0;
  readonly logs: (readonly StoredEvent[])[] = [];

  addLog(events: readonly StoredEvent[]): void {
    this.logs.push(events);
    const fold = new LogFold();
    for (const stored of events) {
      this.events += 1;
      for (const { machine, event, before, after } of fold.add(stored)) {
        if (before === undefined) continue;
        this.edges.get(machine)?.add(edge(before, event.type, after));
        if (machine === 'run') this.addCalls(before, event as RunEvent, after);
      }
    }
  }

  private addCalls(
    { context: { calls: before } }: AnyMachineSnapshot,
    event: RunEvent,
    { context: { calls: after } }: AnyMachineSnapshot,
  ): void {
    for (const [index, call] of (before as readonly ToolCall[]).entries()) {
      const next = (after as readonly ToolCall[])[index];
      // The run gives a call only what it takes.
      if (next !== undefined && next !== call)
        this.edges.get('tool_call')?.add(`${call.state} | ${event.type} | ${next.state}`);
    }
  }

  add(other: Walked): void {
    this.events += other.events;
    this.logs.push(...other.logs);
    for (const [name, edges] of other.edges)
      for (const found of edges) this.edges.get(name)?.add(found);
  }

  of(name: MachineName): Set<Edge> {
    return this.edges.get(name) ?? new Set();
  }
}
