import type { Paths } from '../../home/paths.ts';

/** The input of a command. */
export interface Context {
  /** Of the command, such as `runs list`. */
  name: string;
  args: readonly string[];
  flags: Flags;
  json: boolean;
  /** Found on use, so a command that needs no home works without one. Throws home_unusable. */
  readonly paths: Paths;
}

/** Flags by name: the value, true for a switch, or all values of a repeated flag. */
export type Flags = Readonly<Record<string, string | true | readonly string[]>>;

/** One command: prints its result and resolves with the exit code. Throws SvcError. */
export interface CommandModule {
  run(context: Context): Promise<number>;
}
