import type { parseArgs } from 'node:util';
import { SvcError } from '../../errors.ts';
import { type CommandSpec, type FlagSpec, globalFlags } from '../commands.ts';
import type { Flags } from '../context.ts';
import { suggest } from './suggest.ts';

export interface Arguments {
  args: string[];
  flags: Flags;
}

/**
 * Arguments and flags of a command, exactly as written: nothing becomes a number, `--no-x` is the name of a flag, and after
 * `--` everything is an argument. Throws usage.
 */
export function readArguments(
  spec: CommandSpec,
  argv: readonly string[],
  hidden: readonly FlagSpec[] = [],
): Arguments {
  const known = new Map(
    [...globalFlags, ...spec.flags, ...hidden].map((flag) => [flag.name, flag]),
  );
  const { words, bare } = setBareFlagsApart(argv, [...known.values()]);
  const { tokens } = process.getBuiltinModule('node:util').parseArgs({
    args: words,
    options: options(known),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const args: string[] = [];
  const flags: Record<string, string | true> = {};
  const set = (flag: FlagSpec, value: string | true) => {
    if (Object.hasOwn(flags, flag.name) && flag.name !== 'json')
      throw wrong(spec, `--${flag.name} is given twice.`);
    flags[flag.name] = value;
  };
  for (const token of tokens) {
    if (token.kind === 'positional') args.push(token.value);
    if (token.kind !== 'option') continue;
    const flag = known.get(token.name);
    if (flag === undefined)
      throw unknownFlag(spec, words[token.index] ?? token.rawName, [...known.values()]);
    set(flag, readValue(spec, flag, token));
  }
  for (const flag of bare) set(flag, true);
  if (flags.help === undefined) checkCount(spec, args);
  return { args, flags };
}

function options(
  known: ReadonlyMap<string, FlagSpec>,
): NonNullable<Parameters<typeof parseArgs>[0]>['options'] {
  return Object.fromEntries(
    [...known.values()].map(({ name, short, value }) => [
      name,
      {
        type: value === undefined ? 'boolean' : 'string',
        ...(short === undefined ? {} : { short }),
      },
    ]),
  );
}

/** A flag whose value may be left out must not take the next flag as its value. */
function setBareFlagsApart(
  argv: readonly string[],
  known: readonly FlagSpec[],
): { words: string[]; bare: FlagSpec[] } {
  const words: string[] = [];
  const bare: FlagSpec[] = [];
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  for (const [index, word] of argv.entries()) {
    const flag =
      index < end
        ? known.find(
            ({ name, short, value }) =>
              value?.startsWith('[') && (word === `--${name}` || word === `-${short}`),
          )
        : undefined;
    const next = index + 1 < end ? argv[index + 1] : undefined;
    if (flag !== undefined && (next === undefined || looksLikeFlag(next))) bare.push(flag);
    else words.push(word);
  }
  return { words, bare };
}

function readValue(
  spec: CommandSpec,
  flag: FlagSpec,
  token: { value?: string | undefined; inlineValue?: boolean | undefined },
): string | true {
  const { value, inlineValue } = token;
  if (flag.value === undefined) {
    if (value !== undefined) throw wrong(spec, `--${flag.name} takes no value.`);
    return true;
  }
  if (value === undefined)
    throw wrong(spec, `--${flag.name} needs a value: --${flag.name} ${flag.value}`);
  if (inlineValue !== true && looksLikeFlag(value))
    throw wrong(
      spec,
      `--${flag.name} needs a value, and ${value} looks like a flag.`,
      `To give a value that begins with a dash: --${flag.name}=${value}`,
    );
  return value;
}

function looksLikeFlag(word: string): boolean {
  return word.startsWith('-') && word !== '-' && !/^-[\d.]/.test(word);
}

function checkCount(spec: CommandSpec, args: readonly string[]): void {
  const names = spec.args.split(' ').filter((name) => name !== '');
  const missing = names[args.length];
  const empty = names[args.indexOf('')];
  if (empty !== undefined && empty !== '[prompt]')
    throw wrong(spec, `${empty} of svc ${spec.name} must not be empty.`);
  if (missing?.startsWith('<'))
    throw wrong(
      spec,
      `svc ${spec.name} needs ${missing}.`,
      `For example: svc ${spec.examples[0] ?? `${spec.name} ${spec.args}`}`,
    );
  if (args.length <= names.length) return;
  const extra = JSON.stringify(args[names.length]);
  if (names[0] === '[prompt]')
    throw wrong(
      spec,
      `The prompt is one argument, and ${extra} is another.`,
      'Put the prompt in quotes: svc run "…"',
    );
  throw wrong(
    spec,
    `svc ${spec.name} takes ${names.length === 0 ? 'no arguments' : `only ${names.join(' ')}`}; ${extra} is one too many.`,
  );
}

function unknownFlag(spec: CommandSpec, word: string, known: readonly FlagSpec[]): SvcError {
  const near = word.startsWith('--')
    ? suggest(
        word.split('=', 1)[0] ?? word,
        known.map(({ name }) => `--${name}`),
      )
    : null;
  const dash =
    spec.args === '[prompt]'
      ? 'A prompt that begins with a dash comes after --: svc run -- "-1 + 2"'
      : undefined;
  return wrong(
    spec,
    `svc ${spec.name} has no flag ${word}.`,
    near === null ? dash : `Did you mean: ${near}`,
  );
}

function wrong(
  spec: CommandSpec,
  message: string,
  hint = `See: svc ${spec.name} --help`,
): SvcError {
  return new SvcError('usage', message, { hint });
}
