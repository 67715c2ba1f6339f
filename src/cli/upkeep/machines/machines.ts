import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { machines } from '../../../../machines/all.ts';
import {
  describe,
  type MachineShape,
  type StateShape,
  type TransitionShape,
} from '../../../../machines/describe.ts';
import { mermaid } from '../../../../machines/diagrams/mermaid.ts';
import { SvcError } from '../../../errors.ts';
import { packageRoot } from '../../../home/paths.ts';
import { askDaemon } from '../../terminal/connect/ask-daemon.ts';
import type { Context } from '../../terminal/context.ts';
import { choiceFlag } from '../../terminal/parse/flag-values.ts';
import { isTerminal, paint, print, printJson } from '../../terminal/print/output.ts';

const FORMATS = ['mermaid', 'svg', 'json', 'ascii'] as const;

/** The machines are part of the program, so only --live needs a daemon. */
export async function run(context: Context): Promise<number> {
  const { args, flags, json } = context;
  const [name, ...rest] = args;
  if (name === 'diff') return (await import('./diff.ts')).diff(rest, flags, json);
  if (rest.length > 0)
    throw new SvcError(
      'usage',
      `svc machines shows one machine or all of them, not ${args.length}.`,
      { hint: KNOWN },
    );
  const usual = isTerminal(1) ? 'ascii' : 'mermaid';
  const format = json ? 'json' : (choiceFlag(flags, 'format', FORMATS) ?? usual);
  const chosen = name === undefined ? machines : machines.filter(({ id }) => id === name);
  if (chosen.length === 0) throw unknownMachine(name);
  if (format === 'svg' && name === undefined)
    throw new SvcError('usage', 'An SVG shows one machine: svc machines <name> --format svg', {
      hint: KNOWN,
    });
  const current: Instance[] | null =
    flags.live === true
      ? (await askDaemon(context.paths, 'machines')).machines.flatMap(({ instances }) => instances)
      : null;
  const of = (id: string) => (current ?? []).filter(({ machine }) => machine === id);
  if (format === 'json')
    printJson({
      machines: chosen.map((machine) => ({
        ...describe(machine),
        ...(current === null ? {} : { instances: of(machine.id) }),
      })),
    });
  if (format === 'mermaid')
    print(
      chosen.map((machine) => markMermaid(mermaid(machine), of(machine.id)).trimEnd()).join('\n\n'),
    );
  if (format === 'ascii')
    print(chosen.map((machine) => ascii(describe(machine), of(machine.id))).join('\n\n'));
  if (format === 'svg') print(markSvg(readDiagram(name ?? ''), of(name ?? '')).trimEnd());
  return 0;
}

const KNOWN = `There are: ${machines.map(({ id }) => id).join(', ')}`;

function unknownMachine(name: string | undefined): SvcError {
  return new SvcError('usage', `There is no machine ${JSON.stringify(name)}.`, { hint: KNOWN });
}

/** The generated diagram of a machine. */
function readDiagram(name: string): string {
  return readFileSync(join(packageRoot(), 'machines', 'diagrams', `${name}.svg`), 'utf8');
}

/**
 * A machine as a tree of states with their transitions. `▸` is an initial state, `●` a current one.
 */
function ascii(machine: MachineShape, instances: readonly Instance[]): string {
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

/** The state of one machine of the daemon. */
interface Instance {
  machine: string;
  state_path: string;
}

const COLOUR = '#c2185b';

/** Marks the current states. */
function markMermaid(text: string, instances: readonly Instance[]): string {
  const ids = pathsOf(instances).map((path) => path.replaceAll('.', '_'));
  return ids.length === 0
    ? text
    : `${text.trimEnd()}\n  classDef present stroke:${COLOUR},stroke-width:4px\n  class ` +
        `${ids.join(',')} present\n`;
}

/** Marks the current states of an SVG, by their ids. */
function markSvg(text: string, instances: readonly Instance[]): string {
  const selectors = pathsOf(instances).map((path) => `[id="state:${path}"] :is(path, polygon)`);
  if (selectors.length === 0) return text;
  return text.replace(
    /(<svg[^>]*>)/,
    `$1\n<style>${selectors.join(', ')} { stroke: ${COLOUR}; stroke-width: 4 }</style>`,
  );
}

function pathsOf(instances: readonly Instance[]): string[] {
  return [...new Set(instances.map(({ state_path }) => state_path))].sort();
}
