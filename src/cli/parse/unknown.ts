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
  const isPrompt = name.includes('?') || name.split(/\s+/).length > 3;
  const group = isPrompt ? '' : name.split(' ').slice(0, -1).join(' ');
  const near = synonymOf(name) ?? suggest(name, namesIn(group));
  return new SvcError('usage', `There is no command ${JSON.stringify(name)}.`, {
    hint: isPrompt
      ? `A prompt comes after run: svc run ${JSON.stringify(name)}`
      : near === null
        ? `See: svc ${group === '' ? '' : `${group} `}--help`
        : `Did you mean: svc ${near}`,
  });
}

/** What other tools of this kind call a command. */
const SYNONYMS: Readonly<Record<string, string>> = {
  ls: 'model list',
  list: 'model list',
  ps: 'model ps',
  pull: 'model pull',
  get: 'model pull',
  rm: 'model remove',
  remove: 'model remove',
  show: 'model show',
  load: 'model load',
  unload: 'model unload',
  models: 'model list',
  providers: 'provider list',
  keys: 'provider key',
  history: 'runs list',
  ask: 'run',
  prompt: 'run',
  generate: 'run',
  up: 'start',
  down: 'stop',
  info: 'status',
  log: 'logs',
  update: 'upgrade',
};
const LAST_WORDS: Readonly<Record<string, string>> = {
  ls: 'list',
  rm: 'remove',
  delete: 'remove',
  del: 'remove',
  info: 'show',
  inspect: 'show',
  logs: 'why',
  stop: 'cancel',
  follow: 'attach',
};

/** The command of that meaning, if there is one. */
function synonymOf(name: string): string | null {
  const [first = '', second] = name.split(' ');
  const whole = second === undefined ? (SYNONYMS[first] ?? null) : null;
  const own = second === undefined ? null : `${first} ${LAST_WORDS[second] ?? ''}`;
  const found = whole ?? own;
  return commands.some((spec) => spec.name === found) ? found : null;
}

function namesIn(group: string): string[] {
  const names = commands.map(({ name }) => name);
  return group === ''
    ? [...new Set(names.map((name) => name.split(' ', 1)[0] ?? name))]
    : names.filter((name) => name.startsWith(`${group} `));
}
