import {
  type CommandSpec,
  commands,
  type FlagSpec,
  groupOf,
  groups,
  shortSummary,
  shownFlags,
} from '../commands.ts';
import { firstWords, type Values, valuesOfArgument, valuesOfFlag } from './words.ts';

export function fishScript(): string {
  const first = firstWords().map(
    ({ word, summary }) =>
      `complete -c svc -f -n __fish_use_subcommand -a ${quoted(word)} -d ${quoted(summary)}`,
  );
  const words = quoted(
    firstWords()
      .map(({ word }) => word)
      .join(' '),
  );
  const help = `complete -c svc -f -n '__fish_seen_subcommand_from help' -a ${words}`;
  const second = groups().flatMap((word) => groupOf(word).map((spec) => secondWord(word, spec)));
  const flags = commands.flatMap((spec) => [
    ...argument(spec),
    ...shownFlags(spec).map((flag) => flagLine(spec, flag)),
  ]);
  return ['complete -c svc -e', ...first, help, ...second, ...flags].join('\n');
}

function secondWord(group: string, { name, summary }: CommandSpec): string {
  const others = groupOf(group)
    .map((spec) => spec.name.split(' ')[1])
    .join(' ');
  const seen = '__fish_seen_subcommand_from';
  const when = quoted(`${seen} ${group}; and not ${seen} ${others}`);
  const word = quoted(name.split(' ')[1] ?? '');
  return `complete -c svc -f -n ${when} -a ${word} -d ${quoted(shortSummary(summary))}`;
}

function argument(spec: CommandSpec): string[] {
  const values = valuesOfArgument(spec);
  return values === null ? [] : [`complete -c svc -f -n ${condition(spec)} -a ${listed(values)}`];
}

function flagLine(spec: CommandSpec, flag: FlagSpec): string {
  const { name, short, value, summary } = flag;
  const values = valuesOfFlag(spec, flag);
  const parts = [
    `complete -c svc -n ${condition(spec)} -l ${name}`,
    short && `-s ${short}`,
    value?.startsWith('<') && '-r',
    values && `-f -a ${listed(values)}`,
    `-d ${quoted(shortSummary(summary))}`,
  ];
  return parts.filter(Boolean).join(' ');
}

/** fish runs what is in parentheses when it completes. */
function listed(values: NonNullable<Values>): string {
  return quoted(
    'words' in values
      ? values.words.join(' ')
      : `(svc completion --list ${values.kind} 2>/dev/null)`,
  );
}

function condition({ name }: CommandSpec): string {
  return quoted(
    name
      .split(' ')
      .map((word) => `__fish_seen_subcommand_from ${word}`)
      .join('; and '),
  );
}

function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`;
}
