interface Flag {
  readonly name: string;
  readonly short?: string;
}

interface Command {
  readonly name: string;
  readonly flags: readonly Flag[];
}

const flagNames = (flags: readonly Flag[]): string[] =>
  flags.map(({ name, short }) => (short === undefined ? name : `${name},${short}`));

/**
 * Every command as `name`, and every flag as `name --flag[,short]`; a global flag has the command
 * `*`. Sorted, each once.
 */
export function commandNames(commands: readonly Command[], globalFlags: readonly Flag[]): string[] {
  const all = [...commands, { name: '*', flags: globalFlags }];
  return [
    ...new Set(
      all.flatMap(({ name, flags }) => [
        name,
        ...flagNames(flags).map((flag) => `${name} --${flag}`),
      ]),
    ),
  ].sort();
}
