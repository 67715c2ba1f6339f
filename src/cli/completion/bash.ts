import { type CommandSpec, commands, shownFlags } from '../commands.ts';
import { choices, firstWords, groupOf, groups } from './words.ts';

/** Works in bash 3.2, the version of macOS. */
export function bashScript(): string {
  return `_svc() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} name=\${COMP_WORDS[1]} words
  COMPREPLY=()
  case $name in
    ${groups().join('|')}) [ "$COMP_CWORD" -gt 2 ] && name="$name \${COMP_WORDS[2]}" ;;
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    words='${firstWords()
      .map(({ word }) => word)
      .join(' ')} --help --version'
  else
    case "$name $before" in
${valueCases()}
    esac
    case $name in
${groups()
  .map(
    (word) =>
      `      '${word}') words='${groupOf(word)
        .map(({ name }) => name.split(' ')[1])
        .concat(commands.filter(({ name }) => name === word).flatMap(wordsOf))
        .join(' ')}' ;;`,
  )
  .join('\n')}
${commands.map((spec) => `      '${spec.name}') words='${wordsOf(spec).join(' ')}' ;;`).join('\n')}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _svc svc`;
}

/** The choices of the argument of a command, and its flags. */
function wordsOf(spec: CommandSpec): string[] {
  return [...(choices(spec.args) ?? []), ...shownFlags(spec).map(({ name }) => `--${name}`)];
}

/** Completes the value of a flag: its choices, or files. */
function valueCases(): string {
  const lines = commands.flatMap((spec) =>
    shownFlags(spec)
      .filter(({ value }) => value?.startsWith('<'))
      .map(({ name, short, value }) => {
        const patterns = [
          `'${spec.name} --${name}'`,
          ...(short === undefined ? [] : [`'${spec.name} -${short}'`]),
        ].join('|');
        const words = choices(value)?.join(' ');
        const reply = words === undefined ? '' : `$(compgen -W '${words}' -- "$word")`;
        return `      ${patterns}) COMPREPLY=(${reply}); return ;;`;
      }),
  );
  return lines.join('\n');
}
