import { loadConfig } from '../../config/config.ts';
import { saveModelChoices } from '../../config/models-file.ts';
import { refuseConfigured } from '../../config/refuse-configured.ts';
import type { Paths } from '../../home/paths.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import { whenNotRunning } from '../connect/not-running.ts';
import type { Context } from '../context.ts';
import { note, print, printJson } from '../print/output.ts';
import { configOf, configuredProviders, type ProviderView } from './configured.ts';

/** Prints the provider of runs that name none, or sets it. Needs no daemon. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const [id] = args;
  const provider = id === undefined ? await present(paths) : await use(paths, id);
  if (json) printJson(provider);
  else if (provider === null)
    note('The default provider is not configured. Choose another: svc provider default <id>');
  else if (id === undefined) print(oneLine(provider.id));
  else {
    print(oneLine(`${provider.id} answers runs that name no provider.`));
    if (provider.kind === 'cloud')
      note('Their prompts leave this machine. To undo this: svc provider default local');
  }
  return 0;
}

async function present(paths: Paths): Promise<ProviderView | null> {
  const providers = await askDaemon(paths, 'provider.list').then(
    ({ providers }) => providers,
    whenNotRunning(() => configuredProviders(paths)),
  );
  return providers.find((provider) => provider.default) ?? null;
}

function use(paths: Paths, id: string): Promise<ProviderView> {
  return askDaemon(paths, 'provider.use', { id }).catch(whenNotRunning(() => useInFile(paths, id)));
}

async function useInFile(paths: Paths, id: string): Promise<ProviderView> {
  const config = loadConfig(paths.config);
  if (id !== 'local') configOf(id, config.providers, '');
  refuseConfigured(config, 'default_provider', 'The default provider');
  await saveModelChoices(paths.config, (choices) => ({ ...choices, provider: id }));
  const provider = configuredProviders(paths).find((each) => each.id === id);
  return provider as ProviderView;
}
