import { SvcError } from '../errors.ts';
import type { CommandModule } from './context.ts';
import { execute, perform } from './execute.ts';
import { outliveTerminal } from './interrupt.ts';
import { dispatch } from './parse/command-line.ts';
import { print } from './print/output.ts';

type Load = () => Promise<CommandModule>;

/** Runs any command line. */
export async function program(
  argv: readonly string[],
  loaders: Readonly<Record<string, Load>>,
): Promise<void> {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  const json = argv.slice(0, end).includes('--json');
  await execute(json, async () =>
    dispatch(argv, {
      help: printHelp,
      run: async ({ name }, args, flags) => {
        const load = loaders[name];
        if (load === undefined) throw new SvcError('internal', `The command ${name} has no code.`);
        const { run } = await load();
        outliveTerminal();
        return perform(name, run, { args, flags });
      },
    }),
  );
}

async function printHelp(name: string): Promise<number> {
  const { helpText } = await import('./parse/help.ts');
  print(helpText(name));
  return 0;
}
