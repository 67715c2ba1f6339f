import { type CommandSpec, commands, type FlagSpec, shownFlags } from '../commands.ts';
import { choices, firstWords, groupOf, groups } from './words.ts';

export function zshScript(): string {
  return [
    '#compdef svc',
    '_svc() {',
    ...chooseFirstWord(),
    '  local name=$words[2]',
    '  case $name in',
    ...chooseSecondWord(),
    '  esac',
    '  shift words',
    '  (( CURRENT-- ))',
    '  case $name in',
    ...commands.map((spec) => `    ${quoted(spec.name)}) _arguments ${specs(spec).join(' ')} ;;`),
    '  esac',
    '}',
    'if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _svc "$@"; else compdef _svc svc; fi',
  ].join('\n');
}

function chooseFirstWord(): string[] {
  return [
    '  local -a names',
    '  if (( CURRENT == 2 )); then',
    '    names=(',
    ...firstWords().map(({ word, summary }) => `      ${described(word, summary)}`),
    '    )',
    "    _describe 'command' names",
    '    return',
    '  fi',
  ];
}

/** The branch of the groups: completes their second word, else makes it a part of the name. */
function chooseSecondWord(): string[] {
  const names = (group: string) =>
    groupOf(group).map(({ name, summary }) => described(name.split(' ')[1] ?? '', summary));
  return [
    `    ${groups().join('|')})`,
    '      if (( CURRENT == 3 )); then',
    '        case $name in',
    ...groups().map((group) => `          ${group}) names=(${names(group).join(' ')}) ;;`),
    '        esac',
    "        _describe 'command' names",
    '        return',
    '      fi',
    '      name="$name $words[3]"',
    '      shift words',
    '      (( CURRENT-- ))',
    '      ;;',
  ];
}

function specs(spec: CommandSpec): string[] {
  const argument =
    spec.args === '' ? [] : [quoted(`:${spec.args.replace(/[<>[\]]/g, '')}:${action(spec.args)}`)];
  return [...shownFlags(spec).flatMap(flagSpecs), ...argument];
}

function flagSpecs({ name, short, value, summary }: FlagSpec): string[] {
  const text = summary.replace(/[\\[\]:]/g, '\\$&');
  const rest = value === undefined ? '' : `:${value.replace(/[<>[\]:]/g, '')}:${action(value)}`;
  const names = [`--${name}`, ...(short === undefined ? [] : [`-${short}`])];
  return names.map((form) => quoted(`(${names.join(' ')})${form}[${text}]${rest}`));
}

function action(shown: string): string {
  const known = choices(shown);
  return known === null ? '_default' : `(${known.join(' ')})`;
}

function described(word: string, summary: string): string {
  return quoted(`${word}:${summary}`);
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
