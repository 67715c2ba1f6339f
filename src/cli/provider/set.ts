import { loadConfig } from '../../config/config.ts';
import { SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { askHome } from '../terminal/connect/home.ts';
import type { Context } from '../terminal/context.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { ADD_MS, describeProvider, stateOf } from './add.ts';
import { settingsIn, toFlagError } from './settings-flags.ts';

/** Without a daemon, changes providers.json for the next start. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const id = args[0] ?? '';
  const change = settingsIn(flags);
  if (Object.keys(change).length === 0)
    throw new SvcError('usage', 'No setting is given, so nothing changes.', {
      hint: 'For example: svc provider set openai --model gpt-5. See: svc provider set --help',
    });
  const before = loadConfig(paths.config).providers[id]?.key ?? null;
  const { answer: provider, isRunning } = await askHome(
    paths,
    'provider.set',
    { id, ...change },
    { timeout_ms: ADD_MS },
  ).catch((thrown: unknown) => {
    throw toFlagError(thrown, { where: WHERE, id, command: 'svc provider set' });
  });
  if (json) return printJson(provider);
  print(oneLine(`Changed ${describeProvider(provider)}${isRunning ? stateOf(provider) : ''}.`));
  if (!isRunning) note('The daemon is not running. Its next start has the change: svc start');
  if (before !== null && provider.credential === 'none')
    note(`Its key does not go to another server. To store one: svc provider key ${id}`);
  return 0;
}

/** The beginning of the errors of a change, with or without a daemon. */
const WHERE = 'provider set';
