import { asSvcError, hasCode, SvcError } from '../errors.ts';
import { findPaths, type Paths } from '../home/paths.ts';
import type { CommandModule, Flags } from './context.ts';
import { dispatch } from './parse/command-line.ts';
import { print, printError, READER_GONE } from './print/output.ts';

type Load = () => Promise<CommandModule>;

/** Runs one command line and sets the exit code of the process. */
export async function program(
  argv: readonly string[],
  loaders: Readonly<Record<string, Load>>,
): Promise<void> {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  const json = argv.slice(0, end).includes('--json');
  const fail = (thrown: unknown) => {
    if (thrown === READER_GONE) return 0;
    const error = asSvcError(thrown);
    if (process.env.SVC_DEBUG === '1') console.error(error.cause ?? error);
    printError(error, json);
    return error.spec.exit;
  };
  process.on('uncaughtException', (error) => process.exit(fail(error)));
  process.exitCode = await perform(argv, loaders).catch(fail);
}

async function perform(
  argv: readonly string[],
  loaders: Readonly<Record<string, Load>>,
): Promise<number> {
  return dispatch(argv, {
    help: printHelp,
    run: ({ name }, args, flags) =>
      runCommand(name, loaders[name], args, flags).catch((thrown: unknown) => {
        throw withHelpHint(thrown, name);
      }),
  });
}

async function runCommand(
  name: string,
  load: Load | undefined,
  args: string[],
  flags: Flags,
): Promise<number> {
  if (load === undefined) throw new SvcError('internal', `The command ${name} has no code.`);
  const { run } = await load();
  return run({
    args,
    flags,
    json: flags.json === true,
    get paths() {
      return ownPaths();
    },
  });
}

/** An error of a value gets the same hint as an error of a flag. */
function withHelpHint(thrown: unknown, name: string): unknown {
  if (!hasCode(thrown, 'usage') || thrown.hint !== thrown.spec.hint) return thrown;
  const { message, param, cause } = thrown;
  return new SvcError('usage', message, {
    cause,
    hint: `See: svc ${name} --help`,
    ...(param === null ? {} : { param }),
  });
}

/** Fails if the OS does not know the user, or if SVC_HOME is relative to a deleted folder. */
function ownPaths(): Paths {
  try {
    return findPaths();
  } catch (cause) {
    throw new SvcError('home_unusable', 'The home of svc cannot be determined.', {
      cause,
      hint: 'Set SVC_HOME to the absolute path of one of your folders.',
    });
  }
}

async function printHelp(name: string): Promise<number> {
  const { helpText } = await import('./parse/help.ts');
  print(helpText(name));
  return 0;
}
