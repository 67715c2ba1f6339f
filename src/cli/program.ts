import sade from 'sade';
import { asSvcError, hasCode, SvcError } from '../errors.ts';
import { findPaths, type Paths } from '../home/paths.ts';
import type { CommandSpec } from './commands.ts';
import type { CommandModule } from './context.ts';
import type { Arguments } from './parse/arguments.ts';
import { findCommand } from './parse/find-command.ts';
import { print, printError, READER_GONE } from './print/output.ts';

/** The code of each command by its name, imported when it is used. */
export type Loaders = Readonly<Record<string, () => Promise<CommandModule>>>;

/** Runs one command line and leaves its exit code with the process. */
export async function program(argv: readonly string[], loaders: Loaders): Promise<void> {
  const json = argv
    .slice(0, argv.includes('--') ? argv.indexOf('--') : argv.length)
    .includes('--json');
  const fail = (thrown: unknown) => {
    if (thrown === READER_GONE) return 0;
    const error = asSvcError(thrown);
    if (process.env.SVC_DEBUG === '1') console.error(error.cause ?? error);
    printError(error, json);
    return error.spec.exit;
  };
  process.on('uncaughtException', (error) => process.exit(fail(error)));
  process.exitCode = await answer(argv, loaders).catch(fail);
}

async function answer(argv: readonly string[], loaders: Loaders): Promise<number> {
  const asked = await findCommand(argv);
  if (asked.kind === 'help') return help(asked.name);
  const { spec, rest } = asked;
  const { args, flags } = rest.length === 0 && spec.args === '' ? NOTHING : await read(spec, rest);
  if (flags.help === true) return help(spec.name);
  return build(spec, loaders, { args, flags })
    .parse(['node', 'svc', ...spec.name.split(' ')], { lazy: true })
    .handler()
    .catch((thrown: unknown) => {
      throw withHelp(thrown, spec.name);
    });
}

/** A value that is wrong is told with where the right ones are listed, as a flag that is wrong is. */
function withHelp(thrown: unknown, name: string): unknown {
  if (!hasCode(thrown, 'usage') || thrown.hint !== thrown.spec.hint) return thrown;
  const { message, param, cause } = thrown;
  return new SvcError('usage', message, {
    cause,
    hint: `See: svc ${name} --help`,
    ...(param === null ? {} : { param }),
  });
}

const NOTHING: Arguments = { args: [], flags: {} };

async function read(spec: CommandSpec, rest: string[]): Promise<Arguments> {
  const { readArguments } = await import('./parse/arguments.ts');
  return readArguments(spec, rest, HIDDEN[spec.name]);
}

/** Flags that `svc` gives itself. */
const HIDDEN: Readonly<Record<string, CommandSpec['flags']>> = {
  serve: [{ name: 'background', summary: 'Started by svc start.' }],
};

/**
 * The program as sade knows it. Of the commands only the one that was asked for is made: making them all takes a short command
 * longer than its own work. Its arguments are read by `readArguments`, since sade's parser makes numbers of them.
 */
function build(
  { name, summary }: CommandSpec,
  loaders: Loaders,
  { args, flags }: Arguments,
): sade.Sade {
  return sade('svc')
    .command(name, summary)
    .action(async () => {
      const { run } = await load(name, loaders);
      return run({
        args,
        flags,
        json: flags.json === true,
        get paths() {
          return ownPaths();
        },
      });
    });
}

/** They cannot be told for a user whom the system does not know, and for a relative SVC_HOME in a folder that is gone. */
function ownPaths(): Paths {
  try {
    return findPaths();
  } catch (cause) {
    throw new SvcError('home_unusable', 'It cannot be told where the home of svc is.', {
      cause,
      hint: 'Set SVC_HOME to a folder of yours, by its whole path.',
    });
  }
}

function load(name: string, loaders: Loaders): Promise<CommandModule> {
  const loader = loaders[name];
  if (loader === undefined) throw new SvcError('internal', `The command ${name} has no code.`);
  return loader();
}

async function help(name: string): Promise<number> {
  const { helpText } = await import('./parse/help.ts');
  print(helpText(name));
  return 0;
}
