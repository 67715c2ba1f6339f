import { SvcError } from '../../errors.ts';
import { type CommandSpec, commands } from '../commands.ts';

export type Asked =
  | { kind: 'command'; spec: CommandSpec; rest: string[] }
  /** Help for everything, for a group such as `runs`, or for a command. */
  | { kind: 'help'; name: string };

const SWITCHES = ['--json', '--help', '-h', '--version', '-v'];

/**
 * What the words of a command line ask for. The words that name the command come first, with nothing between them but
 * switches that every command has. A group alone, like `svc` alone, shows what there is: nobody asked for work that was not done.
 * Throws usage.
 */
export async function findCommand(argv: readonly string[]): Promise<Asked> {
  const switches: string[] = [];
  let name = '';
  let wantsHelp = false;
  for (const [index, word] of argv.entries()) {
    if (SWITCHES.includes(word)) {
      switches.push(word);
      continue;
    }
    if (name === '' && word === 'help') {
      wantsHelp = true;
      continue;
    }
    if (word.startsWith('-')) throw await unknownFlag(word);
    name = name === '' ? word : `${name} ${word}`;
    const spec = commands.find((command) => command.name === name);
    if (spec !== undefined && !wantsHelp)
      return { kind: 'command', spec, rest: [...switches, ...argv.slice(index + 1)] };
    if (spec !== undefined) break;
    if (!isGroup(name)) throw await unknownCommand(name);
  }
  const version = commands.find((command) => command.name === 'version');
  if (version !== undefined && !wantsHelp && name === '' && switches.some(isVersion))
    return { kind: 'command', spec: version, rest: switches.filter((word) => !isVersion(word)) };
  return { kind: 'help', name };
}

const isVersion = (word: string) => word === '--version' || word === '-v';

export function isGroup(name: string): boolean {
  return commands.some((command) => command.name.startsWith(`${name} `));
}

async function unknownCommand(name: string): Promise<SvcError> {
  const { suggest } = await import('./suggest.ts');
  const words = name.split(' ');
  const group = words.slice(0, -1).join(' ');
  const near = suggest(name, namesIn(group));
  return new SvcError('usage', `There is no command ${JSON.stringify(name)}.`, {
    hint:
      near === null
        ? `See: svc ${group === '' ? '' : `${group} `}--help`
        : `Did you mean: svc ${near}`,
  });
}

function namesIn(group: string): string[] {
  const all = commands
    .filter((command) => group === '' || command.name.startsWith(`${group} `))
    .map((command) => command.name);
  return group === '' ? [...new Set(all.map((name) => name.split(' ', 1)[0] ?? name))] : all;
}

async function unknownFlag(word: string): Promise<SvcError> {
  const { suggest } = await import('./suggest.ts');
  const near = suggest(
    word,
    SWITCHES.filter((known) => known.startsWith('--')),
  );
  return new SvcError('usage', `There is no flag ${word} before a command.`, {
    hint:
      near === null
        ? 'Flags of a command come after it: svc <command> [flags]'
        : `Did you mean: svc ${near}`,
  });
}
