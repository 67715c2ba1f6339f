// Prints the command and exit code tables as JSON, for the corpus. Run by make.sh.
import { commands, globalFlags } from '../../src/cli/terminal/commands.ts';
import { errors } from '../../src/errors.ts';
import { commandNames } from './taught.ts';

const table = commands.map(({ name, args, summary, flags }) => ({
  name,
  args,
  summary,
  flags: [...flags, ...globalFlags].map(({ name: flag, short, value, summary: what }) => ({
    name: flag,
    short: short ?? null,
    value: value ?? null,
    summary: what,
  })),
}));
const exits = [...new Set(Object.values(errors).map((error) => error.exit))].sort((a, b) => a - b);
process.stdout.write(
  `${JSON.stringify({ taught: commandNames(commands, globalFlags), commands: table, exits }, null, 1)}\n`,
);
