import type { MachineShape, StateShape, TransitionShape } from '../../../machines/describe.ts';
import { paint } from '../print/output.ts';
import type { Instance } from './mark.ts';

/**
 * A machine as a tree of states with their transitions. `▸` is an initial state, `●` a current one.
 */
export function ascii(machine: MachineShape, instances: readonly Instance[]): string {
  const anywhere = machine.transitions
    .filter(({ source }) => source === '')
    .map((transition) => `  ${arrow(machine, transition)}`);
  return [
    paint('bold', machine.name),
    ...(anywhere.length === 0 ? [] : ['  in any state', ...anywhere]),
    ...level(machine, '', '', instances),
  ].join('\n');
}

function level(
  machine: MachineShape,
  parent: string,
  indent: string,
  instances: readonly Instance[],
): string[] {
  const states = machine.states.filter((state) => state.parent === parent);
  return states.flatMap((state, index) => {
    const last = index === states.length - 1;
    const inner = `${indent}${last ? '   ' : '│  '}`;
    const out = machine.transitions
      .filter(({ source }) => source === state.path)
      .map((transition) => `${inner}  ${arrow(machine, transition)}`);
    return [
      `${indent}${last ? '└─' : '├─'} ${heading(machine, state, instances)}`,
      ...out,
      ...level(machine, state.path, inner, instances),
    ];
  });
}

function heading(machine: MachineShape, state: StateShape, instances: readonly Instance[]): string {
  const { path, type, tags, parent } = state;
  const around = machine.states.find((other) => other.path === parent);
  const isFirst = (around?.initial ?? machine.states[0]?.path) === path;
  const here =
    state.initial === null ? instances.filter(({ state_path }) => state_path === path).length : 0;
  const notes = [...new Set(tags), ...(type === 'final' || type === 'group' ? [type] : [])];
  const name = path.split('.').at(-1) ?? '';
  const mark = here === 0 ? '' : `  ●${here > 1 ? ` ${here}` : ''}`;
  return [
    isFirst ? '▸ ' : '',
    here === 0 ? name : paint('green', name),
    notes.length === 0 ? '' : paint('dim', ` (${notes.join(', ')})`),
    paint('green', mark),
  ].join('');
}

function arrow({ name }: MachineShape, { event, guard, source, target }: TransitionShape): string {
  const condition = guard === null ? '' : ` [${guard}]`;
  return `${event.replace(`${name}.`, '')}${condition}${target === source ? '' : ` → ${target}`}`;
}
