import { type ErrorCode, SvcError } from '../../../errors.ts';

/** Hints for a person at a shell, where those of the table are for clients of an API. */
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

/** The error with the name in the command, where a hint about tool servers has a placeholder. */
export function withTypedName<T>(thrown: T, command: string, [name = '']: readonly string[]) {
  const isOpen = thrown instanceof SvcError && thrown.hint.includes('<name>');
  if (!isOpen || !command.startsWith('mcp ') || !/^[\w.-]+$/.test(name)) return thrown;
  return thrown.with({ hint: thrown.hint.replaceAll('<name>', name) });
}
