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
  const states = machine.states.filter(({ path }) => parentOf(path) === parent);
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

function heading(
  machine: MachineShape,
  { path, type, tags }: StateShape,
  living: readonly Living[],
): string {
  const isFirst = machine.initial === path || machine.initial.startsWith(`${path}.`);
  const here =
    type === 'compound' ? 0 : living.filter(({ state_path }) => state_path === path).length;
  const notes = [...new Set(tags), ...(type === 'final' ? ['final'] : [])];
  const name = path.split('.').at(-1) ?? '';
  const mark = here === 0 ? '' : `  ●${here > 1 ? ` ${here}` : ''}`;
  return `${isFirst ? '▸ ' : ''}${here === 0 ? name : paint('green', name)}${notes.length === 0 ? '' : paint('dim', ` (${notes.join(', ')})`)}${paint('green', mark)}`;
}

function arrow({ name }: MachineShape, { event, guard, source, target }: TransitionShape): string {
  const condition = guard === null ? '' : ` [${guard}]`;
  return `${event.replace(`${name}.`, '')}${condition}${target === source ? '' : ` → ${target}`}`;
}

function parentOf(path: string): string {
  return path.includes('.') ? path.slice(0, path.lastIndexOf('.')) : '';
}
