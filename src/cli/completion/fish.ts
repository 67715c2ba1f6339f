import {
  type CommandSpec,
  commands,
  type FlagSpec,
  groupOf,
  groups,
  shortSummary,
  shownFlags,
} from '../terminal/commands.ts';
import {
  firstWords,
  SET,
  type Values,
  valuesOfArgument,
  valuesOfFlag,
  valuesOfSettings,
} from './words.ts';

export function fishScript(): string {
  const first = firstWords().map(
    ({ word, summary }) =>
      `complete -c svc -f -n __fish_use_subcommand -a ${quote(word)} -d ${quote(summary)}`,
  );
  const words = quote(
    firstWords()
      .map(({ word }) => word)
      .join(' '),
  );
  const help = `complete -c svc -f -n '__fish_seen_subcommand_from help' -a ${words}`;
  const second = groups().flatMap((word) => groupOf(word).map((spec) => secondWord(word, spec)));
  const flags = commands.flatMap((spec) => [
    ...argument(spec),
    ...settingValues(spec),
    ...shownFlags(spec).map((flag) => flagLine(spec, flag)),
  ]);
  return ['complete -c svc -e', ...first, help, ...second, ...flags].join('\n');
}

function secondWord(group: string, { name, summary }: CommandSpec): string {
  const others = groupOf(group)
    .map((spec) => spec.name.split(' ')[1])
    .join(' ');
  const when = quote(`${SEEN} ${group}; and not ${SEEN} ${others}`);
  const word = quote(name.split(' ')[1] ?? '');
  return `complete -c svc -f -n ${when} -a ${word} -d ${quote(shortSummary(summary))}`;
}

function argument(spec: CommandSpec): string[] {
  const values = valuesOfArgument(spec);
  if (values === null) return [];
  const first = spec.name === SET ? `; and not ${SEEN} ${settings().join(' ')}` : '';
  const words = spec.alias?.words ?? [];
  return [condition(spec, first), ...words.map(aliasCondition)].map(
    (when) => `complete -c svc -f -n ${when} -a ${valueList(values)}`,
  );
}

function settingValues(spec: CommandSpec): string[] {
  if (spec.name !== SET) return [];
  return Object.entries(valuesOfSettings()).map(
    ([key, values]) =>
      `complete -c svc -f -n ${condition(spec, `; and ${SEEN} ${key}`)} -a ${valueList(values)}`,
  );
}

const SEEN = '__fish_seen_subcommand_from';
const settings = () => Object.keys(valuesOfSettings());

/** The word is the command, and not the second one of a group. */
function aliasCondition(word: string): string {
  return quote(`${SEEN} ${word}; and not ${SEEN} ${groups().join(' ')}`);
}

function flagLine(spec: CommandSpec, flag: FlagSpec): string {
  const { name, short, value, summary } = flag;
  const values = valuesOfFlag(spec, flag);
  const parts = [
    `complete -c svc -n ${condition(spec)} -l ${name}`,
    short && `-s ${short}`,
    value?.startsWith('<') && '-r',
    values && `-f -a ${valueList(values)}`,
    `-d ${quote(shortSummary(summary))}`,
  ];
  return parts.filter(Boolean).join(' ');
}

/** fish runs a command in parentheses when it completes. */
function valueList(values: NonNullable<Values>): string {
  return quote(
    'words' in values
      ? values.words.join(' ')
      : `(svc completion --list ${values.kind} 2>/dev/null)`,
  );
}

function condition({ name }: CommandSpec, more = ''): string {
  const words = name.split(' ').map((word) => `${SEEN} ${word}`);
  return quote(words.join('; and ') + more);
}

function quote(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`;
}
