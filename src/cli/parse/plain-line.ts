/** What a plain command line may have. `json` is always allowed. */
export interface PlainForm {
  /** Flags without a value. */
  switches?: readonly string[];
  /** Flags with one. */
  values?: readonly string[];
  /** Long names by their letters. */
  short?: Readonly<Record<string, string>>;
  /** The fewest and the most words. */
  words?: readonly [number, number | 'any'];
}

/**
 * Reads a command line that needs no parser: known flags, each once, with the value in the next
 * word. Null for any other line, right or wrong. The parser reads a plain line the same way.
 */
export function readPlainLine(
  argv: readonly string[],
  { switches = [], values = [], short = {}, words: [fewest, most] = [0, 0] }: PlainForm,
): { args: string[]; flags: Record<string, string | true> } | null {
  const args: string[] = [];
  const flags: Record<string, string | true> = {};
  for (let at = 0; at < argv.length; at += 1) {
    const word = argv[at] ?? '';
    if (word === '') return null;
    if (!word.startsWith('-')) {
      args.push(word);
      continue;
    }
    const name = word.startsWith('--') ? word.slice(2) : (short[word.slice(1)] ?? '');
    if (Object.hasOwn(flags, name)) return null;
    if (name === 'json' || switches.includes(name)) {
      flags[name] = true;
      continue;
    }
    at += 1;
    const value = argv[at] ?? '';
    if (!values.includes(name) || value === '' || value.startsWith('-')) return null;
    flags[name] = value;
  }
  const fits = args.length >= fewest && (most === 'any' || args.length <= most);
  return fits ? { args, flags } : null;
}
