import type { Paths } from '../home/paths.ts';

/** What a command is given. */
export interface Context {
  args: readonly string[];
  flags: Flags;
  json: boolean;
  /** Found when it is asked for: a command that needs no home also works where there is none. Throws home_unusable. */
  readonly paths: Paths;
}

/** By name: the value, or true for a flag without one. */
export type Flags = Readonly<Record<string, string | true>>;

/** One command: does its work, prints it, and resolves with the exit code. Throws SvcError. */
export interface CommandModule {
  run(context: Context): Promise<number>;
}
