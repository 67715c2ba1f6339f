import { createHash } from 'node:crypto';

interface Flag {
  readonly name: string;
  readonly short?: string;
}

interface Command {
  readonly name: string;
  readonly flags: readonly Flag[];
}

const flagNames = (flags: readonly Flag[]): string[] => flags.map(({ name, short }) => (short === undefined ? name : `${name},${short}`)).sort();

/** What the model was told exists: the names of commands and flags, in an order that does not depend on the table's. */
export function fingerprint(commands: readonly Command[], globalFlags: readonly Flag[]): string {
  const lines = commands.map(({ name, flags }) => `${name}: ${[...new Set(flagNames(flags))].join(' ')}`).sort();
  return createHash('sha256')
    .update([...lines, `*: ${flagNames(globalFlags).join(' ')}`].join('\n'))
    .digest('hex');
}
