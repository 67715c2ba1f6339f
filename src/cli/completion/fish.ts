import { type CommandSpec, commands, type FlagSpec, shownFlags } from '../commands.ts';
import { choices, firstWords, groupOf, groups } from './words.ts';

export function fishScript(): string {
  const first = firstWords().map(
    ({ word, summary }) =>
      `complete -c svc -f -n __fish_use_subcommand -a ${quoted(word)} -d ${quoted(summary)}`,
  );
  const second = groups().flatMap((word) => groupOf(word).map((spec) => secondWord(word, spec)));
  const flags = commands.flatMap((spec) => [
    ...argument(spec),
    ...shownFlags(spec).map((flag) => flagLine(spec, flag)),
  ]);
  return ['complete -c svc -e', ...first, ...second, ...flags].join('\n');
}

function secondWord(group: string, { name, summary }: CommandSpec): string {
  const others = groupOf(group)
    .map((spec) => spec.name.split(' ')[1])
    .join(' ');
  const seen = '__fish_seen_subcommand_from';
  const when = quoted(`${seen} ${group}; and not ${seen} ${others}`);
  const word = quoted(name.split(' ')[1] ?? '');
  return `complete -c svc -f -n ${when} -a ${word} -d ${quoted(summary)}`;
}

function argument(spec: CommandSpec): string[] {
  const known = choices(spec.args);
  return known === null
    ? []
    : [`complete -c svc -f -n ${condition(spec)} -a ${quoted(known.join(' '))}`];
}

function flagLine(spec: CommandSpec, { name, short, value, summary }: FlagSpec): string {
  const known = choices(value);
  const parts = [
    `complete -c svc -n ${condition(spec)} -l ${name}`,
    short && `-s ${short}`,
    value?.startsWith('<') && '-r',
    known && `-f -a ${quoted(known.join(' '))}`,
    `-d ${quoted(summary)}`,
  ];
  return parts.filter(Boolean).join(' ');
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
