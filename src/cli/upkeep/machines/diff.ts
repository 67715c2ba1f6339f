import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { machines } from '../../../../machines/all.ts';
import {
  describe,
  type MachineShape,
  type StateShape,
  type TransitionShape,
} from '../../../../machines/describe.ts';
import { SvcError } from '../../../errors.ts';
import type { Flags } from '../../terminal/context.ts';
import { paint, print, printJson } from '../../terminal/print/output.ts';

/** The description of the machines in a commit. `npm run diagrams` writes it. */
const CHECKED_IN = 'machines/diagrams/machines.json';
const FILE_BYTES = 16 * 1024 * 1024;

/** A line without a sign is in both machines. It shows the order of the choices. */
export interface DiffLine {
  sign: '-' | '+' | ' ';
  text: string;
}

export interface Difference {
  machine: string;
  change: 'added' | 'removed' | 'changed';
  lines: DiffLine[];
}

/**
 * Compares the machines of a file or commit with those of this program, or of another file or
 * commit. Like the `diff` of Unix, it exits with 0 if nothing differs and with 1 if something does.
 * A commit has its machines as JSON, so none of its code runs.
 */
export function diff([before, after]: readonly string[], flags: Flags, json: boolean): number {
  if (before === undefined || flags.live === true || flags.format !== undefined)
    throw new SvcError(
      'usage',
      'svc machines diff compares two sides, without --live and --format.',
      { hint: HINT },
    );
  const now = after === undefined ? machines.map(describe) : read(after);
  const changed = differences(read(before), now);
  if (json) printJson({ differences: changed });
  else if (changed.length === 0) print('No machine differs.');
  else print(changed.map(textOf).join('\n\n'));
  return changed.length === 0 ? 0 : 1;
}

/** The machines that differ, in the order of `after`, then those that are gone. */
export function differences(
  before: readonly MachineShape[],
  after: readonly MachineShape[],
): Difference[] {
  const names = new Set([...after, ...before].map(({ name }) => name));
  return [...names].flatMap((name): Difference[] => {
    const [old, now] = [before, after].map((all) => all.find((one) => one.name === name));
    const lines = linesOf(partsOf(old), partsOf(now));
    const change = old === undefined ? 'added' : now === undefined ? 'removed' : 'changed';
    return lines.length === 0 ? [] : [{ machine: name, change, lines }];
  });
}

/** The state of a path, or the choices of an event in their order: the first guard that agrees. */
type Parts = ReadonlyMap<string, readonly string[]>;

function linesOf(before: Parts, after: Parts): DiffLine[] {
  const keys = new Set([...after.keys(), ...before.keys()]);
  return [...keys].flatMap((key) => {
    const [old = [], now = []] = [before.get(key), after.get(key)];
    if (old.join('\n') === now.join('\n')) return [];
    const common = (one: readonly string[], other: readonly string[]) =>
      one.filter((text) => other.includes(text));
    const isMoved = common(old, now).join('\n') !== common(now, old).join('\n');
    const stays = (text: string) => !isMoved && old.includes(text) && now.includes(text);
    return [
      ...old.filter((text) => !stays(text)).map((text) => ({ sign: '-' as const, text })),
      ...now.map((text) => ({ sign: stays(text) ? (' ' as const) : ('+' as const), text })),
    ];
  });
}

function partsOf(machine: MachineShape | undefined): Parts {
  if (machine === undefined) return new Map();
  const { name, initial, states, transitions } = machine;
  const edges = Map.groupBy(transitions, ({ source, event }) => `${source} ${event}`);
  return new Map<string, readonly string[]>([
    ['begins', [`begins in ${initial}`]],
    ...states.map((state) => [`state ${state.path}`, [stateText(state)]] as const),
    ...[...edges].map(([key, all]) => [key, all.map((edge) => edgeText(name, edge))] as const),
  ]);
}

function stateText({ path, parent, type, tags, initial, effects, deadline }: StateShape): string {
  const shown = [...new Set(tags), ...(type === 'group' || type === 'final' ? [type] : [])];
  return [
    `state ${path}`,
    parent === '' ? '' : ` in ${parent}`,
    shown.length === 0 ? '' : ` (${shown.join(', ')})`,
    initial === null ? '' : `; first ${initial}`,
    deadline === null ? '' : `; deadline / ${deadline}`,
    effects.length === 0 ? '' : `; on entry / ${effects.join(', ')}`,
  ].join('');
}

function edgeText(machine: string, edge: TransitionShape): string {
  const { source, event, guard, target, actions } = edge;
  return [
    `${source || 'any state'}: ${event.replace(`${machine}.`, '')}`,
    guard === null ? '' : ` [${guard}]`,
    target === source ? '' : ` → ${target}`,
    actions.length === 0 ? '' : ` / ${actions.join(', ')}`,
  ].join('');
}

function textOf({ machine, change, lines }: Difference): string {
  const colours = { '-': 'red', '+': 'green', ' ': 'dim' } as const;
  const heading = paint('bold', change === 'changed' ? machine : `${machine} (${change})`);
  return [heading, ...lines.map(({ sign, text }) => paint(colours[sign], `${sign} ${text}`))].join(
    '\n',
  );
}

/** Throws usage. */
function read(place: string): MachineShape[] {
  const text = fileAt(place) ?? readCommitted(place);
  try {
    const { machines: all } = JSON.parse(text) as { machines: MachineShape[] };
    // A file of another kind lacks these, or has them in another shape.
    for (const one of all) {
      if (typeof one.name !== 'string' || typeof one.initial !== 'string') throw new TypeError();
      partsOf(one);
    }
    return all;
  } catch (cause) {
    const message = `${quote(place)} has no machines as svc machines --json writes them.`;
    throw new SvcError('usage', message, { cause, hint: HINT });
  }
}

const HINT =
  'Name a file that svc machines --json wrote, or a commit of the checkout that you are in: ' +
  'svc machines diff main';

/** Null: there is no such file. A folder can have the name of a branch. */
function fileAt(place: string): string | null {
  const stats = statSync(place, { throwIfNoEntry: false });
  if (stats?.isFile() !== true) return null;
  if (stats.size > FILE_BYTES)
    throw new SvcError('usage', `${quote(place)} is larger than any export of machines.`, {
      hint: HINT,
    });
  try {
    return readFileSync(place, 'utf8');
  } catch (cause) {
    throw new SvcError('usage', `${quote(place)} cannot be read.`, { cause, hint: HINT });
  }
}

function readCommitted(ref: string): string {
  const commit = ref.startsWith('-') ? null : runGit('rev-parse', '--verify', `${ref}^{commit}`);
  if (commit === null)
    throw new SvcError('usage', `There is no file and no commit ${quote(ref)} here.`, {
      hint: HINT,
    });
  const text = runGit('cat-file', 'blob', `${commit.trim()}:${CHECKED_IN}`);
  if (text !== null) return text;
  throw new SvcError('usage', `The commit ${quote(ref)} has no ${CHECKED_IN}.`, {
    hint:
      'It is older than that file, or of another project. Build it, let its ' +
      'svc machines --json write a file, and name that file.',
  });
}

/** Its output; null if it fails. */
function runGit(...args: string[]): string | null {
  const { status, stdout, error } = spawnSync('git', args, {
    encoding: 'utf8',
    maxBuffer: FILE_BYTES,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  if ((error as NodeJS.ErrnoException | undefined)?.code === 'ENOENT')
    throw new SvcError('usage', 'There is no such file, and git is not installed.', { hint: HINT });
  return status === 0 ? stdout : null;
}

function quote(place: string): string {
  return JSON.stringify(place.slice(0, 200));
}
