import { asSvcError, SvcError } from '../../errors.ts';
import { findPaths, type Paths } from '../../home/paths.ts';
import { oneLine } from '../../logs/plain.ts';
import type { CommandModule, Flags } from './context.ts';
import { printError, READER_GONE } from './print/output.ts';
import { withTypedHint, withTypedName } from './print/typed-hint.ts';

/** Runs the work of one command line and sets the exit code of the process. Prints its error. */
export async function execute(json: boolean, work: () => Promise<number>): Promise<void> {
  const fail = (thrown: unknown) => {
    if (thrown === READER_GONE) return 0;
    const error = toShownError(thrown);
    printError(error, json);
    return error.spec.exit;
  };
  process.on('uncaughtException', (error) => {
    // A daemon handles its own errors: it records its failure, and ends its engines.
    if (process.listenerCount('uncaughtException') === 1) process.exit(fail(error));
  });
  process.exitCode = await work().catch(fail);
}

/** Anything thrown, as an error to print. With SVC_DEBUG=1 also prints its cause. */
export function toShownError(thrown: unknown): SvcError {
  const error = thrown instanceof SvcError ? thrown : toUnexpectedError(thrown);
  if (process.env.SVC_DEBUG === '1') console.error(error.cause ?? error);
  return error;
}

/** No log records an error of the command line, so its message is shown. */
export function toUnexpectedError(thrown: unknown): SvcError {
  const error = asSvcError(thrown);
  const words = oneLine(thrown instanceof Error ? thrown.message : String(thrown));
  if (error.code !== 'internal' || words === '') return error;
  return error.with({
    message: `An unexpected error occurred in this command: ${words}`,
    hint: 'To see where, run it again with SVC_DEBUG=1, and report it.',
  });
}

/** Runs a command. Its errors get hints for a person who typed it. */
export async function perform(
  name: string,
  run: CommandModule['run'],
  { args, flags }: { args: readonly string[]; flags: Flags },
): Promise<number> {
  const context = {
    name,
    args,
    flags,
    json: flags.json === true,
    get paths() {
      return ownPaths();
    },
  };
  return run(context).catch((thrown: unknown) => {
    throw withTypedName(withTypedHint(thrown, name), name, args);
  });
}

/** Fails if the OS does not know the user, or if SVC_HOME is relative to a deleted folder. */
function ownPaths(): Paths {
  try {
    return findPaths();
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw new SvcError('home_unusable', 'The home of svc cannot be determined.', {
      cause,
      hint: 'Set SVC_HOME to the absolute path of one of your folders.',
    });
  }
}
