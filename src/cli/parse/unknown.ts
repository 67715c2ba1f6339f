import { suggest } from '../../config/suggest.ts';
import { SvcError } from '../../errors.ts';
import { commands, flagsOf, globalFlags } from '../commands.ts';

/** The error for a flag that the command of these words does not have. */
export function unknownFlag(word: string, words: readonly string[]): SvcError {
  const spec = commands.find(({ name }) => `${words.join(' ')} `.startsWith(`${name} `));
  const flags = (spec === undefined ? globalFlags : flagsOf(spec)).map(({ name }) => `--${name}`);
  const near = word.startsWith('--') ? suggest(word.split('=', 1)[0] ?? word, flags) : null;
  if (spec === undefined)
    return new SvcError('usage', `There is no flag ${word} before a command.`, {
      hint:
        near === null
          ? 'Flags of a command come after it: svc <command> [flags]'
          : `Did you mean: svc ${near}`,
    });
  const dash =
    spec.args === '[prompt…]'
      ? 'A prompt that begins with a dash comes after --: svc run -- "-1 + 2"'
      : `See: svc ${spec.name} --help`;
  return new SvcError('usage', `svc ${spec.name} has no flag ${word}.`, {
    hint: near === null ? dash : `Did you mean: ${near}`,
  });
}

/** The error for words that are no command. */
export function unknownCommand(name: string): SvcError {
  const group = name.split(' ').slice(0, -1).join(' ');
  const near = suggest(name, namesIn(group));
  return new SvcError('usage', `There is no command ${JSON.stringify(name)}.`, {
    hint:
      near === null
        ? `See: svc ${group === '' ? '' : `${group} `}--help`
        : `Did you mean: svc ${near}`,
  });
}

function namesIn(group: string): string[] {
  const names = commands.map(({ name }) => name);
  return group === ''
    ? [...new Set(names.map((name) => name.split(' ', 1)[0] ?? name))]
    : names.filter((name) => name.startsWith(`${group} `));
}
