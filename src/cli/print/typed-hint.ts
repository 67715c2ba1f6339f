import { type ErrorCode, SvcError } from '../../errors.ts';

/** What a person at a shell does, where the hint of the table is for the client of an API. */
const TYPED: Readonly<Partial<Record<ErrorCode, (command: string) => string>>> = {
  usage: (command) => `See: svc ${command} --help`,
  invalid_request: (command) => `See: svc ${command} --help`,
  capability_missing: () => 'Choose a model that can, or leave the flag out. See: svc model list',
  conversation_unknown: () => 'See: svc runs list',
};

/** The error as the user of a command gets it. A hint of its place stays. */
export function withTypedHint<T>(thrown: T, command: string): T | SvcError {
  if (!(thrown instanceof SvcError) || thrown.hint !== thrown.spec.hint) return thrown;
  return thrown.with({ hint: TYPED[thrown.code]?.(command) });
}

/** The error with the name in the command, where a hint about servers of tools has none. */
export function withTypedName<T>(thrown: T, command: string, [name = '']: readonly string[]) {
  const isOpen = thrown instanceof SvcError && thrown.hint.includes('<name>');
  if (!isOpen || !command.startsWith('mcp ') || !/^[\w.-]+$/.test(name)) return thrown;
  return thrown.with({ hint: thrown.hint.replaceAll('<name>', name) });
}
