import { commands, globalFlags } from '../../src/cli/terminal/commands.ts';

const flagsOf = new Map(
  commands.map(({ name, flags }) => [
    name,
    new Set([...flags, ...globalFlags].map((flag) => flag.name)),
  ]),
);
const anyFlag = new Set([...flagsOf.values()].flatMap((flags) => [...flags]));

/** Commands and flags in a text that the command table does not have. */
export function inventions(text: string): string[] {
  return [...text.matchAll(/`([^`]*)`/g)]
    .flatMap(([, span = '']) => inventionsIn(span))
    .concat(inventionsIn(text.replaceAll(/`[^`]*`/g, ' '), false));
}

function inventionsIn(span: string, isCode = true): string[] {
  const words = span.split(/\s+/);
  const at = isCode ? words.indexOf('svc') : -1;
  const name = [2, 1]
    .map((length) => words.slice(at + 1, at + 1 + length).join(' '))
    .find((candidate) => flagsOf.has(candidate));
  const named = at >= 0 && words.length > at + 1;
  if (named && name === undefined) return [span];
  const known = named && name !== undefined ? flagsOf.get(name) : anyFlag;
  return [...span.matchAll(/(?<![\w-])--([a-z][a-z0-9-]*)/g)]
    .filter(([, flag = '']) => !known?.has(flag))
    .map(([flag]) => (named ? `${name} ${flag}` : flag));
}
