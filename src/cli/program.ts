import type { CommandModule } from './terminal/context.ts';
import { execute, perform } from './terminal/execute.ts';
import { outliveTerminal } from './terminal/interrupt.ts';
import { dispatch } from './terminal/parse/command-line.ts';
import { isTerminal, print } from './terminal/print/output.ts';

/** Runs any command line. */
export async function main(argv: readonly string[]): Promise<void> {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  const json = argv.slice(0, end).includes('--json');
  await execute(json, async () =>
    dispatch(argv, {
      help: argv.length === 0 && isTerminal(1) ? printFirstSteps : printHelp,
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

/** A program that reads the output gets the help. */
async function printFirstSteps(): Promise<number> {
  const { run } = await import('./first-steps.ts');
  return perform('', run, { args: [], flags: {} });
}

async function printHelp(name: string): Promise<number> {
  const { helpText } = await import('./terminal/parse/help.ts');
  print(helpText(name));
  return 0;
}
