import { loadConfig } from '../../config/config.ts';
import { saveModelChoices } from '../../config/models-file.ts';
import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import { whenNotRunning } from '../connect/not-running.ts';
import type { Context } from '../context.ts';
import { print, printJson } from '../print/output.ts';
import { configOf, type ProviderView, toProviderView } from './configured.ts';

export async function run({ paths, args, json }: Context): Promise<number> {
  const id = args[0] ?? '';
  if (id === 'local')
    throw new SvcError('invalid_request', 'The built-in engine cannot be removed.', {
      param: 'id',
      hint: 'To use another provider: svc run "…" --provider <id>',
    });
  const provider: ProviderView = await askDaemon(paths, 'provider.remove', { id }).catch(
    whenNotRunning(() => removeFromFile(paths, id)),
  );
  if (json) printJson(provider);
  else print(`Removed ${oneLine(provider.id)} from the configuration.`);
  return 0;
}

async function removeFromFile(paths: Paths, id: string): Promise<ProviderView> {
  const { providers } = loadConfig(paths.config);
  const settings = configOf(id, providers, 'cannot be removed');
  const { removeProvider } = await import('../../config/providers/providers-file.ts');
  await removeProvider(paths.config, id);
  await saveModelChoices(paths.config, (choices) =>
    choices.provider === id ? { ...choices, provider: null } : choices,
  );
  return { ...toProviderView(id, settings), state: 'removed' };
}
