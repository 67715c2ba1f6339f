import type { MachineShape, StateShape, TransitionShape } from '../../../machines/describe.ts';
import { paint } from '../print/output.ts';
import type { Living } from './mark.ts';

/** A machine as a tree of its states, each with what leads out of it. `▸` is where a level begins, `●` where something stands now. */
export function ascii(machine: MachineShape, living: readonly Living[]): string {
  const anywhere = machine.transitions
    .filter(({ source }) => source === '')
    .map((transition) => `  ${arrow(machine, transition)}`);
  return [
    paint('bold', machine.name),
    ...(anywhere.length === 0 ? [] : ['  in any state', ...anywhere]),
    ...level(machine, '', '', living),
  ].join('\n');
}

function level(
  machine: MachineShape,
  parent: string,
  indent: string,
  living: readonly Living[],
): string[] {
  const states = machine.states.filter((state) => state.parent === parent);
  return states.flatMap((state, index) => {
    const last = index === states.length - 1;
    const inner = `${indent}${last ? '   ' : '│  '}`;
    const out = machine.transitions
      .filter(({ source }) => source === state.path)
      .map((transition) => `${inner}  ${arrow(machine, transition)}`);
    return [
      `${indent}${last ? '└─' : '├─'} ${heading(machine, state, living)}`,
      ...out,
      ...level(machine, state.path, inner, living),
    ];
  });
}

function heading(machine: MachineShape, state: StateShape, living: readonly Living[]): string {
  const { path, type, tags, parent } = state;
  const around = machine.states.find((other) => other.path === parent);
  const isFirst = (around?.initial ?? machine.states[0]?.path) === path;
  const here =
    state.initial === null ? living.filter(({ state_path }) => state_path === path).length : 0;
  const notes = [...new Set(tags), ...(type === 'final' || type === 'group' ? [type] : [])];
  const name = path.split('.').at(-1) ?? '';
  const mark = here === 0 ? '' : `  ●${here > 1 ? ` ${here}` : ''}`;
  return `${isFirst ? '▸ ' : ''}${here === 0 ? name : paint('green', name)}${notes.length === 0 ? '' : paint('dim', ` (${notes.join(', ')})`)}${paint('green', mark)}`;
}

function arrow({ name }: MachineShape, { event, guard, source, target }: TransitionShape): string {
  const condition = guard === null ? '' : ` [${guard}]`;
  return `${event.replace(`${name}.`, '')}${condition}${target === source ? '' : ` → ${target}`}`;
}
