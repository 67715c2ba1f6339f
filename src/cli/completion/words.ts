import { type CommandSpec, commands } from '../commands.ts';

/** Commands and groups, each once. */
export function firstWords(): { word: string; summary: string }[] {
  const names = new Set(commands.map(({ name }) => name.split(' ', 1)[0] ?? name));
  return [...names].map((word) => ({
    word,
    summary:
      commands.find(({ name }) => name === word)?.summary ??
      `${groupOf(word)
        .map(({ name }) => name.split(' ')[1])
        .join(', ')}`,
  }));
}

/** The commands of a group such as `runs`; empty for a command. */
export function groupOf(word: string): CommandSpec[] {
  return commands.filter(({ name }) => name.startsWith(`${word} `));
}

export function groups(): string[] {
  return firstWords()
    .map(({ word }) => word)
    .filter((word) => groupOf(word).length > 0);
}

/** The choices of a flag or an argument, such as `<http|grpc|socket>`; null for free text. */
export function choices(shown: string | undefined): string[] | null {
  const inner = shown?.replace(/^[<[]|[>\]]$/g, '') ?? '';
  if (inner === 'shell') return ['bash', 'zsh', 'fish'];
  if (inner === 'level') return ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];
  return inner.includes('|') ? inner.split('|') : null;
}
