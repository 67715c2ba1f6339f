import type { Paths } from '../home/paths.ts';

/** The input of a command. */
export interface Context {
  args: readonly string[];
  flags: Flags;
  json: boolean;
  /** Found on use, so a command that needs no home works without one. Throws home_unusable. */
  readonly paths: Paths;
}

/** Flags by name: the value, or true for a switch. */
export type Flags = Readonly<Record<string, string | true>>;

/** One command: prints its result and resolves with the exit code. Throws SvcError. */
export interface CommandModule {
  run(context: Context): Promise<number>;
}
