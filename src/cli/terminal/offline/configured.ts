import { loadConfig } from '../../../config/config.ts';
import { mcpFile, readMcpFile, targetOf } from '../../../config/mcp-file.ts';
import { saveModelChoices } from '../../../config/models-file.ts';
import type { ProviderConfig } from '../../../config/providers/provider.ts';
import {
  applyProviderChange,
  readAddedProvider,
} from '../../../config/providers/provider-request.ts';
import {
  removeProvider as removeEntry,
  saveProvider,
} from '../../../config/providers/providers-file.ts';
import { refuseConfigured } from '../../../config/refuse-configured.ts';
import { SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import type { Results } from '../../../transport/control/protocol.ts';

/** A provider; without a daemon `since` is unknown. */
export type ProviderView = Omit<Results['provider.test'], 'since'> & { since: string | null };

/** The providers of the configuration in the state `unknown`, the built-in engine first. */
export function configuredProviders(paths: Paths): ProviderView[] {
  const { providers, default_provider } = loadConfig(paths.config);
  const engine = toProviderView('local', {
    kind: 'local',
    adapter: 'llama.cpp',
    base_url: null,
    key: null,
  });
  const all = [
    engine,
    ...Object.entries(providers).map(([id, settings]) => toProviderView(id, settings)),
  ];
  return all.map((provider) => ({ ...provider, default: provider.id === default_provider }));
}

/** Throws provider_unknown. `what` names the thing that the built-in engine lacks. */
export function configOf(
  id: string,
  providers: Readonly<Record<string, ProviderConfig>>,
  what: string,
): ProviderConfig {
  const config = Object.hasOwn(providers, id) ? providers[id] : undefined;
  if (config !== undefined) return config;
  if (id === 'local')
    throw new SvcError('provider_unknown', `The built-in engine ${what}.`, {
      param: 'provider',
      hint: 'See: svc provider list',
    });
  const known = ['local', ...Object.keys(providers)];
  throw new SvcError(
    'provider_unknown',
    `There is no provider ${JSON.stringify(id)}. Known: ${known.join(', ')}.`,
    { param: 'provider', details: { known }, hint: `To add it: svc provider add ${id}` },
  );
}

export async function addProvider(
  { config }: Paths,
  id: string,
  added: Readonly<Record<string, unknown>>,
): Promise<ProviderView> {
  const settings = readAddedProvider(id, added, 'provider add');
  if (Object.hasOwn(loadConfig(config).providers, id))
    throw new SvcError('provider_exists', `A provider ${id} is configured already.`, {
      param: 'id',
      hint: `To change it: svc provider set ${id} --help`,
    });
  await saveProvider(config, id, settings);
  return toProviderView(id, settings);
}

export async function changeProvider(
  paths: Paths,
  id: string,
  change: Readonly<Record<string, unknown>>,
): Promise<ProviderView> {
  const config = loadConfig(paths.config);
  const present = configOf(id, config.providers, 'has no settings of a provider');
  refuseConfigured(config, `providers.${id}`, `The provider ${id}`);
  const settings = applyProviderChange(id, present, change, 'provider set');
  await saveProvider(paths.config, id, settings);
  return toProviderView(id, settings);
}

/** A removed provider is no longer the default. */
export async function removeProvider({ config }: Paths, id: string): Promise<ProviderView> {
  const settings = configOf(id, loadConfig(config).providers, 'cannot be removed');
  await removeEntry(config, id);
  await saveModelChoices(config, (choices) =>
    choices.provider === id ? { ...choices, provider: null } : choices,
  );
  return { ...toProviderView(id, settings), state: 'removed' };
}

export async function useProvider(paths: Paths, id: string): Promise<ProviderView> {
  const config = loadConfig(paths.config);
  if (id !== 'local') configOf(id, config.providers, '');
  refuseConfigured(config, 'default_provider', 'The default provider');
  await saveModelChoices(paths.config, (choices) => ({ ...choices, provider: id }));
  return configuredProviders(paths).find((each) => each.id === id) as ProviderView;
}

type Settings = Pick<ProviderConfig, 'kind' | 'key'> & { adapter: string; base_url: string | null };

export function toProviderView(
  id: string,
  { kind, adapter, base_url, key }: Settings,
): ProviderView {
  return {
    id,
    kind,
    adapter,
    state: 'unknown',
    reason: 'The daemon is not running.',
    since: null,
    retry_at: null,
    transitions: [],
    base_url,
    credential: key ?? 'none',
    models: null,
    faulty_models: [],
    default: false,
  };
}

/** The tool servers of `mcp.json`. None runs. */
export function configuredServers({ config }: Paths) {
  const { servers, problems } = readMcpFile(mcpFile(config));
  const all = [
    ...[...servers].map(([name, server]) => ({
      name,
      state: server.disabled ? 'disabled' : 'stopped',
      reason: null,
      tools: null,
      trusted: server.trusted,
      policy: server.policy,
      target: targetOf(server),
    })),
    ...[...problems].map(([name, reason]) => ({
      name,
      state: 'invalid',
      reason,
      tools: null,
      trusted: false,
      policy: null,
      target: '',
    })),
  ];
  return { servers: all, problem: null };
}
