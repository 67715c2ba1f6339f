import type { AnyStateMachine } from 'xstate';
import { labelOf, type Outline, outline, type State } from './outline.ts';
import { paintOf, paints } from './paint.ts';

/** The machine as a Mermaid state diagram, which code hosts draw by themselves. */
export function mermaid(machine: AnyStateMachine): string {
  const drawn = outline(machine);
  const lines = [
    '---',
    `title: ${drawn.name}`,
    '---',
    'stateDiagram-v2',
    ...level(drawn, ''),
    ...edges(drawn),
    ...colours(drawn),
  ];
  return `${lines.join('\n')}\n`;
}

/** One level of states, each with the levels inside it. */
function level(drawn: Outline, parent: string): string[] {
  const states = drawn.states.filter((state) => state.parent === parent);
  const first = drawn.states.find(({ id }) => id === parent)?.initial ?? states[0]?.id;
  return indent([
    ...(first === undefined ? [] : [`[*] --> ${first}`]),
    ...states.flatMap((state) => one(drawn, state)),
  ]);
}

function one(drawn: Outline, state: State): string[] {
  if (state.kind === 'compound') {
    const inside = state.inside.length > 0 ? `: ${state.inside.join('; ')}` : '';
    return [`state "${state.name}${inside}" as ${state.id} {`, ...level(drawn, state.id), '}'];
  }
  return [
    `state "${state.name}" as ${state.id}`,
    ...state.inside.map((line) => `${state.id}: ${line}`),
  ];
}

/** An event that is taken in any state starts at a state of that name. */
function edges(drawn: Outline): string[] {
  const anywhere = drawn.edges.some(({ from }) => from === '') ? ['state "any state" as any'] : [];
  const finals = drawn.states
    .filter(({ kind }) => kind === 'final')
    .map(({ id }) => `${id} --> [*]`);
  return indent([
    ...anywhere,
    ...drawn.edges.map((edge) => `${edge.from || 'any'} --> ${edge.to}: ${labelOf(edge)}`),
    ...finals,
  ]);
}

function colours(drawn: Outline): string[] {
  return indent(
    Object.entries(paints).flatMap(([name, { fill, line }]) => {
      const ids = drawn.states
        .filter((state) => state.kind !== 'compound' && paintOf(state) === name)
        .map(({ id }) => id);
      return ids.length === 0
        ? []
        : [
            `classDef ${name} fill:${fill},stroke:${line},color:#1a1a1a`,
            `class ${ids.join(',')} ${name}`,
          ];
    }),
  );
}

function indent(lines: string[]): string[] {
  return lines.map((line) => `  ${line}`);
}
