import { SvcError } from '../../errors.ts';
import { type CommandSpec, type FlagSpec, flagsOf } from '../commands.ts';
import type { Flags } from '../context.ts';
import type { Line } from './split-line.ts';
import { unknownFlag } from './unknown.ts';

/** Flags by name and the words of the line, as sade gives them to an action. */
export type Options = Record<string, unknown> & { _: string[] };

export interface Arguments {
  args: string[];
  flags: Flags;
}

/**
 * Checks what sade read: each flag once and in its form, and the number of arguments. Throws usage.
 */
export function readArguments(
  spec: CommandSpec,
  { _: args, ...options }: Options,
  line: Line,
): Arguments {
  const flags: Record<string, string | true> = {};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    // `--no-x` is x: false for sade.
    const full = value === false ? `no-${name}` : name;
    const flag = flagsOf(spec).find(({ name }) => name === full);
    if (flag === undefined) throw unknownFlag(`--${full}`, line.words);
    flags[full] = readFlag(spec, flag, value, line);
  }
  checkCount(spec, args);
  return { args, flags };
}

function readFlag(
  spec: CommandSpec,
  { name, value: shown }: FlagSpec,
  value: unknown,
  { bare }: Line,
): string | true {
  if (Array.isArray(value)) {
    if (name === 'json') return true;
    throw wrong(spec, `--${name} is given twice.`);
  }
  if (shown === undefined) {
    if (typeof value === 'boolean') return true;
    throw wrong(spec, `--${name} takes no value.`);
  }
  if (!bare.has(name)) return String(value);
  if (shown.startsWith('[')) return true;
  const next = bare.get(name);
  if (next === undefined) throw wrong(spec, `--${name} needs a value: --${name} ${shown}`);
  throw wrong(
    spec,
    `--${name} needs a value, and ${next} looks like a flag.`,
    `To give a value that begins with a dash: --${name}=${next}`,
  );
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
  // `<id…>` and `[words…]` take any number.
  if (args.length <= names.length || names.at(-1)?.includes('…') === true) return;
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

function wrong(
  spec: CommandSpec,
  message: string,
  hint = `See: svc ${spec.name} --help`,
): SvcError {
  return new SvcError('usage', message, { hint });
}
