import { spawnSync } from 'node:child_process';

export interface CommandOptions {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
}

/** Runs a program. Returns what it printed. Throws if it fails, with its last words. */
export function command(
  program: string,
  args: readonly string[],
  { cwd, env }: CommandOptions = {},
): string {
  const result = spawnSync(program, args, {
    cwd,
    env: { ...process.env, ...env },
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  if (result.error !== undefined) throw result.error;
  if (result.status !== 0)
    throw new Error(
      `${program} ${args.join(' ')} failed:\n${(result.stderr + result.stdout).slice(-2000)}`,
    );
  return result.stdout;
}

/** Whether the program can be found. */
export function has(program: string): boolean {
  return spawnSync(program, ['--version'], { stdio: 'ignore' }).error === undefined;
}

/** A failure of this program is said in words, without its stack. */
export function sayFailures(): void {
  process.once('uncaughtException', ({ message }) => {
    console.error(`error: ${message}`);
    process.exit(1);
  });
}
