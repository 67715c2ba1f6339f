import { type CommandSpec, commands, groupOf, groups, shownFlags } from '../terminal/commands.ts';
import {
  aliases,
  firstWords,
  SET,
  type Values,
  valuesOfArgument,
  valuesOfFlag,
  valuesOfSettings,
} from './words.ts';

/**
 * Works in bash 3.2, the version of macOS. It splits the line itself: bash also splits at a colon,
 * and names of models have one. A model is found without its provider, and a run without `run_`.
 */
export function bashScript(): string {
  return `_svc() {
  local line=\${COMP_LINE:0:$COMP_POINT} word before name words= count
  local -a typed
  COMPREPLY=()
  read -ra typed <<< "$line"
  [[ $line == *[[:space:]] ]] && typed+=('')
  count=\${#typed[@]}
  word=\${typed[count-1]} before=\${typed[count-2]} name=\${typed[1]}
  if [ "$name" = help ] && [ "$count" -gt 2 ]; then
    typed=(svc "\${typed[@]:2}")
    count=$((count - 1)) name=\${typed[1]}
  fi
  case $name in
    ${groups().join('|')}) [ "$count" -gt 3 ] && name="$name \${typed[2]}" ;;
${aliases()
  .map(([word, { name }]) => `    ${word}) name='${name}' ;;`)
  .join('\n')}
  esac
  if [ "$count" -eq 2 ]; then
    words='${firstWords()
      .map(({ word }) => word)
      .join(' ')} --help --version'
  else
    case "$name $before" in
${valueCases()}
${Object.entries(valuesOfSettings())
  .map(([key, values]) => `      '${SET} ${key}') words=${listOf(values)} ;;`)
  .join('\n')}
    *) case $name in
${groups()
  .map(
    (word) =>
      `      '${word}') words='${groupOf(word)
        .map(({ name }) => name.split(' ')[1])
        .concat(commands.filter(({ name }) => name === word).flatMap(wordsOf))
        .join(' ')}' ;;`,
  )
  .join('\n')}
${commands
  .filter(({ name }) => !groups().includes(name))
  .map((spec) => `      '${spec.name}') words=${wordsShown(spec)} ;;`)
  .join('\n')}
      esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [ -z "\${COMPREPLY[*]}" ] && [ -n "$word" ]; then
    for name in $words; do [[ $name == *[/_]"$word"* ]] && COMPREPLY+=("$name"); done
  fi
  if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
    COMPREPLY=("\${COMPREPLY[@]#"\${word%"\${word##*:}"}"}")
  fi
}
complete -o default -F _svc svc`;
}

/** The fixed words of the argument of a command, and its flags. */
function wordsOf(spec: CommandSpec): string[] {
  const values = valuesOfArgument(spec);
  const flags = shownFlags(spec).flatMap(({ name, short }) => [
    `--${name}`,
    ...(short === undefined ? [] : [`-${short}`]),
  ]);
  return [...(values !== null && 'words' in values ? values.words : []), ...flags];
}

/** The words of a command, as a word of the shell. Names are looked up unless a flag is typed. */
function wordsShown(spec: CommandSpec): string {
  const fixed = `'${wordsOf(spec).join(' ')}'`;
  const values = valuesOfArgument(spec);
  if (values === null || !('kind' in values)) return fixed;
  return `${fixed}; [[ $word == -* ]] || words=${listOf(values)}`;
}

/** Completes the value of a flag: its words, names of its kind, or files. */
function valueCases(): string {
  return commands
    .flatMap((spec) =>
      shownFlags(spec)
        .filter(({ value }) => value?.startsWith('<'))
        .map((flag) => {
          const patterns = [
            `'${spec.name} --${flag.name}'`,
            ...(flag.short === undefined ? [] : [`'${spec.name} -${flag.short}'`]),
          ].join('|');
          const values = valuesOfFlag(spec, flag);
          return `      ${patterns}) ${values === null ? 'return' : `words=${listOf(values)}`} ;;`;
        }),
    )
    .join('\n');
}

function listOf(values: NonNullable<Values>): string {
  return 'words' in values
    ? `'${values.words.join(' ')}'`
    : `$("\${typed[0]}" completion --list ${values.kind} 2>/dev/null)`;
}
