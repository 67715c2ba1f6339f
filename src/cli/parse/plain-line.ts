/** What a plain command line may have. `json` is always allowed. */
export interface PlainForm {
  /** Flags without a value. */
  switches?: readonly string[];
  /** Flags with one. */
  values?: readonly string[];
  /** Long names by their letters. */
  short?: Readonly<Record<string, string>>;
  /** The most words. */
  words?: number;
}

/**
 * Reads a command line that needs no parser: known flags, each once, with the value in the next
 * word. Null for any other line, right or wrong. The parser reads a plain line the same way.
 */
export function readPlainLine(
  argv: readonly string[],
  { switches = [], values = [], short = {}, words = 0 }: PlainForm,
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
  return args.length > words ? null : { args, flags };
}
