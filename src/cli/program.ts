import type { CommandModule } from './context.ts';
import { execute, perform } from './execute.ts';
import { outliveTerminal } from './interrupt.ts';
import { dispatch } from './parse/command-line.ts';
import { print } from './print/output.ts';

/** Runs any command line. */
export async function main(argv: readonly string[]): Promise<void> {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  const json = argv.slice(0, end).includes('--json');
  await execute(json, async () =>
    dispatch(argv, {
      help: printHelp,
      run: async ({ name, file }, args, flags) => {
        const { run } = await load(file);
        outliveTerminal();
        return perform(name, run, { args, flags });
      },
    }),
  );
}

/** tools/build.mjs replaces the import by one of each file that the table of commands names. */
function load(file: string): Promise<CommandModule> {
  return import(`./${file}.ts`);
}

async function printHelp(name: string): Promise<number> {
  const { helpText } = await import('./parse/help.ts');
  print(helpText(name));
  return 0;
}
