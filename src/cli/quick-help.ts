import { endWith } from './quick-command.ts';
import { execute } from './terminal/execute.ts';
import { dispatch } from './terminal/parse/command-line.ts';
import { helpText } from './terminal/parse/help.ts';
import { print } from './terminal/print/output.ts';

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
