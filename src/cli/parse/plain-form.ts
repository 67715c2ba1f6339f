import { type CommandSpec, flagsOf } from '../commands.ts';
import type { PlainForm } from './plain-line.ts';

/** The command lines that a quick command reads without the parser. */
export function plainForm(spec: CommandSpec): PlainForm {
  const flags = flagsOf(spec).filter(({ name }) => name !== 'json' && name !== 'help');
  const names = (hasValue: boolean) =>
    flags.filter(({ value }) => (value !== undefined) === hasValue).map(({ name }) => name);
  const args = spec.args.split(' ').filter(Boolean);
  return {
    switches: names(false),
    values: names(true),
    short: Object.fromEntries(flags.flatMap(({ name, short }) => (short ? [[short, name]] : []))),
    words: [
      args.filter((name) => name.startsWith('<')).length,
      spec.args.includes('…') ? 'any' : args.length,
    ],
  };
}
