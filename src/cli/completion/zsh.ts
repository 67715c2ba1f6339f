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
  aliases,
  firstWords,
  SET,
  type Values,
  valuesOfArgument,
  valuesOfFlag,
  valuesOfSettings,
} from './words.ts';

export function zshScript(): string {
  return [
    '#compdef svc',
    '# Names that only svc knows, such as the ids of runs.',
    '# A model is found without its provider, and a run without `run_`.',
    '_svc_known() {',
    `  compadd -M 'l:|=*' -- \${(f)"$(svc completion --list $1 2>/dev/null)"}`,
    '}',
    '_svc_value() {',
    '  case $words[2] in',
    ...Object.entries(valuesOfSettings()).map(([key, values]) => {
      const isFixed = 'words' in values;
      const offer = isFixed ? `compadd -- ${values.words.join(' ')}` : `_svc_known ${values.kind}`;
      return `    ${key}) ${offer} ;;`;
    }),
    '  esac',
    '}',
    '_svc() {',
    ...chooseFirstWord(),
    '  local name=$words[2]',
    '  case $name in',
    ...chooseSecondWord(),
    ...aliases().map(([word, { name }]) => `    ${word}) name=${quote(name)} ;;`),
    '  esac',
    '  shift words',
    '  (( CURRENT-- ))',
    '  case $name in',
    ...commands.map((spec) => `    ${quote(spec.name)}) _arguments ${specs(spec).join(' ')} ;;`),
    '  esac',
    '}',
    'if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _svc "$@"; else compdef _svc svc; fi',
  ].join('\n');
}

function chooseFirstWord(): string[] {
  return [
    '  local -a names',
    '  if (( CURRENT == 2 )) || { (( CURRENT == 3 )) && [[ $words[2] == help ]] }; then',
    '    names=(',
    ...firstWords().map(({ word, summary }) => `      ${describeWord(word, summary)}`),
    '    )',
    "    _describe 'command' names",
    '    return',
    '  fi',
  ];
}

/** The branch of the groups: completes their second word, else makes it a part of the name. */
function chooseSecondWord(): string[] {
  const names = (group: string) =>
    groupOf(group).map(({ name, summary }) =>
      describeWord(name.split(' ')[1] ?? '', shortSummary(summary)),
    );
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
    spec.args === ''
      ? []
      : [quote(`:${spec.args.replace(/[<>[\]:]/g, '')}:${action(valuesOfArgument(spec))}`)];
  const value = spec.name === SET ? [quote(':value: _svc_value')] : [];
  return [...shownFlags(spec).flatMap((flag) => flagSpecs(spec, flag)), ...argument, ...value];
}

function flagSpecs(spec: CommandSpec, flag: FlagSpec): string[] {
  const { name, short, value, summary } = flag;
  const text = shortSummary(summary).replace(/[\\[\]:]/g, '\\$&');
  const rest =
    value === undefined
      ? ''
      : `:${value.replace(/[<>[\]:]/g, '')}:${action(valuesOfFlag(spec, flag))}`;
  const names = [`--${name}`, ...(short === undefined ? [] : [`-${short}`])];
  return names.map((form) => quote(`(${names.join(' ')})${form}[${text}]${rest}`));
}

/** A space in front keeps `_arguments` from adding its arguments. */
function action(values: Values): string {
  if (values === null) return '_default';
  return 'words' in values ? `(${values.words.join(' ')})` : ` _svc_known ${values.kind}`;
}

function describeWord(word: string, summary: string): string {
  return quote(`${word}:${summary}`);
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
