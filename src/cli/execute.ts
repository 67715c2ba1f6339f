import { asSvcError, hasCode, SvcError } from '../errors.ts';
import { findPaths, type Paths } from '../home/paths.ts';
import type { CommandModule, Flags } from './context.ts';
import { printError, READER_GONE } from './print/output.ts';

/** Runs the work of one command line and sets the exit code of the process. Prints its error. */
export async function execute(json: boolean, work: () => Promise<number>): Promise<void> {
  const fail = (thrown: unknown) => {
    if (thrown === READER_GONE) return 0;
    const error = asSvcError(thrown);
    if (process.env.SVC_DEBUG === '1') console.error(error.cause ?? error);
    printError(error, json);
    return error.spec.exit;
  };
  process.on('uncaughtException', (error) => {
    // A daemon hears its own errors: it records its failure, and ends its engines.
    if (process.listenerCount('uncaughtException') === 1) process.exit(fail(error));
  });
  process.exitCode = await work().catch(fail);
}

/** Runs a command. An error of a value gets the same hint as an error of a flag. */
export async function perform(
  name: string,
  run: CommandModule['run'],
  { args, flags }: { args: readonly string[]; flags: Flags },
): Promise<number> {
  const context = {
    args,
    flags,
    json: flags.json === true,
    get paths() {
      return ownPaths();
    },
  };
  return run(context).catch((thrown: unknown) => {
    throw withHelpHint(thrown, name);
  });
}

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
