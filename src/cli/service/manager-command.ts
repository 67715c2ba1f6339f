import { execFile } from 'node:child_process';
import { SvcError } from '../../errors.ts';

/** A command of a service manager that has ended. */
export interface CommandOutcome {
  /** Its exit code; a word if it did not run, or was killed. */
  code: number | string;
  stdout: string;
  /** The error for an outcome that is a failure. */
  failure(hint?: string): SvcError;
}

const COMMAND_MS = 120_000;

/** Resolves with its output. Throws service_manager_failed. */
export async function execute(command: string, args: readonly string[]): Promise<string> {
  const outcome = await outcomeOf(command, args);
  if (outcome.code === 0) return outcome.stdout;
  throw outcome.failure();
}

export function outcomeOf(command: string, args: readonly string[]): Promise<CommandOutcome> {
  return new Promise((resolve) => {
    execFile(command, [...args], { timeout: COMMAND_MS }, (error, stdout, stderr) => {
      const code = error === null ? 0 : (error.code ?? 'killed');
      const words = (stderr || stdout).trim();
      const what = code === 'ENOENT' ? 'it is not installed' : words || `exit code ${code}`;
      const failure = (hint?: string) =>
        new SvcError(
          'service_manager_failed',
          `\`${command} ${args.join(' ')}\` failed: ${what}`,
          hint === undefined ? {} : { hint },
        );
      resolve({ code, stdout: stdout.trim(), failure });
    });
  });
}
