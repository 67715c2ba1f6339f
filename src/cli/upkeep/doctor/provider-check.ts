import { splitReference } from '../../../config/key-reference.ts';
import type { ProviderRecord } from '../../../contract/contract.ts';
import { type Check, type DoctorContext, fail, ok, warn } from './check.ts';
import { findServers, offer } from './discover.ts';

export function checkProviders({ running, config }: DoctorContext): Check[] {
  if (running !== null) {
    return running.providers.flatMap((provider) => [
      checkProvider(provider),
      ...(provider.faulty_models ?? []).map(({ model, reason }) => {
        const name = `model ${provider.id}/${model}`;
        return warn(name, reason, `To ask it now: svc provider test ${provider.id}`);
      }),
    ]);
  }
  return Object.entries(config?.providers ?? {}).flatMap(([id, { key }]) => {
    const { kind, place } = splitReference(key ?? '');
    if (kind !== 'env' || process.env[place]) return [];
    return [
      warn(
        `provider ${id}`,
        `The variable ${place} is not set here; a daemon that is started here has no key ` +
          'for this provider.',
        `Set ${place}, then start the daemon.`,
      ),
    ];
  });
}

function checkProvider({ id, state, reason, transitions }: ProviderRecord): Check {
  const name = `provider ${id}`;
  // One request may try the key again. Until then it is the refused one.
  const isRefused = transitions.at(-1)?.code === 'provider_unauthorised';
  if (state === 'unauthorised' || (state === 'half_open' && isRefused))
    return fail(
      name,
      reason ?? 'It refused the credentials.',
      `Store its key: svc provider key ${id}`,
    );
  if (state === 'unavailable')
    return warn(
      name,
      reason ?? 'It does not answer.',
      `Start it, or check its address with: svc provider test ${id}`,
    );
  return state === 'degraded' || state === 'rate_limited' || state === 'half_open'
    ? warn(name, reason ?? 'It failed recently.', `See: svc provider test ${id}`)
    : ok(name, state);
}

/** Whether the providers of runs that name none are there. */
export function checkDefaults({ inForce, running }: DoctorContext): Check[] {
  if (inForce === null) return [];
  const { default_provider, default_cloud_provider: cloud } = inForce;
  const providers = new Map<string, string>([
    ['local', 'local'],
    ...Object.entries(inForce.providers).map(([id, { kind }]) => [id, kind] as const),
    ...(running?.providers ?? []).map(({ id, kind }) => [id, kind] as const),
  ]);
  const missing = (key: string, id: string, what: string) =>
    fail(
      'defaults',
      `The setting ${key} names ${JSON.stringify(id)}, and there is no such ${what}.`,
      `Add it: svc provider add ${id}. Or change the setting: svc config set ${key} --remove`,
    );
  return [
    ...(providers.has(default_provider)
      ? []
      : [missing('default_provider', default_provider, 'provider')]),
    ...(cloud === null || providers.get(cloud) === 'cloud'
      ? []
      : [missing('default_cloud_provider', cloud, 'cloud provider')]),
  ];
}

/** The model servers of this machine that no provider has. */
export async function checkServers({ paths, config }: DoctorContext): Promise<Check[]> {
  if (config === null) return [];
  const servers = await findServers(paths);
  return servers
    .filter(({ provider }) => provider === null)
    .map((server) => ({
      ...ok('server', `${server.name} answers at ${server.base_url}. No provider uses it.`),
      hint: offer(server),
    }));
}
