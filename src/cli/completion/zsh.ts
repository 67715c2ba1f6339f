import { type CommandSpec, commands, type FlagSpec, shownFlags } from '../commands.ts';
import { choices, firstWords, groupOf, groups } from './words.ts';

export function zshScript(): string {
  return `#compdef svc
_svc() {
  local -a names
  if (( CURRENT == 2 )); then
    names=(
${firstWords()
  .map(({ word, summary }) => `      ${described(word, summary)}`)
  .join('\n')}
    )
    _describe 'command' names
    return
  fi
  local name=$words[2]
  case $name in
    ${groups().join('|')})
      if (( CURRENT == 3 )); then
        case $name in
${groups()
  .map(
    (word) =>
      `          ${word}) names=(${groupOf(word)
        .map(({ name, summary }) => described(name.split(' ')[1] ?? '', summary))
        .join(' ')}) ;;`,
  )
  .join('\n')}
        esac
        _describe 'command' names
        return
      fi
      name="$name $words[3]"
      shift words
      (( CURRENT-- ))
      ;;
  esac
  shift words
  (( CURRENT-- ))
  case $name in
${commands.map((spec) => `    ${quoted(spec.name)}) _arguments ${specs(spec).join(' ')} ;;`).join('\n')}
  esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _svc "$@"; else compdef _svc svc; fi`;
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
