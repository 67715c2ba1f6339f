import { type CommandSpec, commands } from '../commands.ts';

/** What can be completed, in the words of the command line. */

/** First words, each once: commands and groups. */
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

/** Commands of a group such as `runs`; none for a command. */
export function groupOf(word: string): CommandSpec[] {
  return commands.filter(({ name }) => name.startsWith(`${word} `));
}

export function groups(): string[] {
  return firstWords()
    .map(({ word }) => word)
    .filter((word) => groupOf(word).length > 0);
}

/** Values that a flag or an argument is chosen from, such as `<http|grpc|socket>`; null when it is free. */
export function choices(shown: string | undefined): string[] | null {
  const inner = shown?.replace(/^[<[]|[>\]]$/g, '') ?? '';
  if (inner === 'shell') return ['bash', 'zsh', 'fish'];
  if (inner === 'level') return ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];
  return inner.includes('|') ? inner.split('|') : null;
}
