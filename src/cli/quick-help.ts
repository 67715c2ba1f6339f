import { execute } from './execute.ts';
import { dispatch } from './parse/command-line.ts';
import { helpText } from './parse/help.ts';
import { print } from './print/output.ts';
import { endWith } from './quick-command.ts';

/** Prints the help. False: the line asks for none, or is wrong, so the whole program reads it. */
export async function main(argv: readonly string[], keepCode: () => void): Promise<boolean> {
  const name = helpAskedBy(argv);
  if (name === null) return false;
  await execute(false, async () => {
    print(helpText(name));
    return 0;
  });
  return endWith(keepCode);
}

/** An empty name is everything. */
function helpAskedBy(argv: readonly string[]): string | null {
  try {
    return dispatch<string | null>(argv, { help: (name) => name, run: () => null });
  } catch {
    return null;
  }
}
