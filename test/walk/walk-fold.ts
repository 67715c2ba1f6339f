import { statePath, step } from '../../machines/step.ts';
import { coverOf } from '../machines/cover.ts';
import { models } from '../machines/models/all.ts';
import { type Edge, edge, type MachineName } from './edges.ts';

/** The pure fold: what test/machines walks and checks, counted. */
export function walkFold(name: MachineName): { edges: Set<Edge>; states: number } {
  const edges = new Set<Edge>();
  const states = new Set<string>();
  for (const model of models.filter(({ machine }) => machine.id === name)) {
    const cover = coverOf(model);
    for (const { snapshot } of cover.states.values()) states.add(statePath(snapshot));
    for (const { from, event } of cover.accepted)
      edges.add(
        edge(from.snapshot, event.type, step(model.machine, from.snapshot, event).snapshot),
      );
  }
  return { edges, states: states.size };
}
