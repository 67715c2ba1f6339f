import { machines } from '../../../machines/all.ts';
import { describe } from '../../../machines/describe.ts';
import { mermaid } from '../../../machines/diagrams/mermaid.ts';
import { SvcError } from '../../errors.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { choiceFlag } from '../parse/flag-values.ts';
import { isTerminal, print, printJson } from '../print/output.ts';
import { ascii } from './ascii.ts';
import { type Instance, markMermaid, markSvg } from './mark.ts';
import { readDiagram } from './read-diagram.ts';

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
