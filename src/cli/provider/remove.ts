import { SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { askHome } from '../terminal/connect/home.ts';
import type { Context } from '../terminal/context.ts';
import { print, printJson } from '../terminal/print/output.ts';

export async function run({ paths, args, json }: Context): Promise<number> {
  const id = args[0] ?? '';
  if (id === 'local')
    throw new SvcError('invalid_request', 'The built-in engine cannot be removed.', {
      param: 'id',
      hint: 'To use another provider: svc run "…" --provider <id>',
    });
  const { answer: provider } = await askHome(paths, 'provider.remove', { id });
  if (json) printJson(provider);
  else print(`Removed ${oneLine(provider.id)} from the configuration.`);
  return 0;
}
