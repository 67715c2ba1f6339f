import type { AnyStateMachine } from 'xstate';
import {
  choiceOf,
  type Edge,
  isFirst,
  type Outline,
  outline,
  type State,
  textOf,
} from './outline.ts';
import { paintOf, paints } from './paint.ts';

/** The machine as a Mermaid state diagram, which code hosts draw. */
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

/** The states of one level, each with the levels inside it. */
function level(drawn: Outline, parent: string): string[] {
  const states = drawn.states.filter((state) => state.parent === parent);
  const first = drawn.states.find(({ id }) => id === parent)?.initial ?? states[0]?.id;
  return indent([
    ...(first === undefined ? [] : [`[*] --> ${first}`]),
    ...states.flatMap((state) => drawState(drawn, state)),
  ]);
}

function drawState(drawn: Outline, state: State): string[] {
  const inside = [
    ...(state.deadline === null ? [] : [`deadline / ${state.deadline}`]),
    ...(state.effects.length > 0 ? [`on entry / ${state.effects.join(', ')}`] : []),
    ...state.loops.map(textOf),
  ];
  if (state.isCompound) {
    const title = [state.name, ...inside].join('; ');
    return [`state "${title}" as ${state.id} {`, ...level(drawn, state.id), '}'];
  }
  return [`state "${state.name}" as ${state.id}`, ...inside.map((line) => `${state.id}: ${line}`)];
}

/** An event that is accepted in any state starts at a state of that name. */
function edges(drawn: Outline): string[] {
  const anywhere = drawn.edges.some(({ from }) => from === '') ? ['state "any state" as any'] : [];
  const finals = drawn.states
    .filter(({ type }) => type === 'final')
    .map(({ id }) => `${id} --> [*]`);
  return indent([
    ...anywhere,
    ...drawn.choices.map(({ id }) => `state ${id} <<choice>>`),
    ...drawn.edges.flatMap((edge) => arrow(drawn, edge)),
    ...drawn.choices.flatMap(({ id, exits }) =>
      exits.map(({ to, guard }) => `${id} --> ${to}${guard === null ? '' : `: [${guard}]`}`),
    ),
    ...finals,
  ]);
}

/** The event leads to a choice once, and the guards are on the arrows after it. */
function arrow(drawn: Outline, edge: Edge): string[] {
  const choice = choiceOf(drawn, edge);
  const from = edge.from || 'any';
  if (choice === undefined) return [`${from} --> ${edge.to}: ${textOf(edge)}`];
  return isFirst(choice, edge) ? [`${from} --> ${choice.id}: ${edge.event}`] : [];
}

function colours(drawn: Outline): string[] {
  return indent(
    Object.entries(paints).flatMap(([name, { fill, line }]) => {
      const ids = drawn.states
        .filter((state) => !state.isCompound && paintOf(state) === name)
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
