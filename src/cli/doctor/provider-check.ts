import { splitReference } from '../../config/key-reference.ts';
import { findServers, offer } from '../provider/discover.ts';
import { type Check, type DoctorContext, fail, ok, warn } from './check.ts';

export function checkProviders({ running, config }: DoctorContext): Check[] {
  if (running !== null) {
    return running.providers.map(({ id, state, reason }) => {
      const name = `provider ${id}`;
      if (state === 'unauthorised')
        return fail(
          name,
          reason ?? 'It refused the credentials.',
          `Set its key where the daemon runs, then: svc restart`,
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
    });
  }
  return Object.entries(config?.providers ?? {}).flatMap(([id, { key }]) => {
    const { kind, place } = splitReference(key ?? '');
    if (kind !== 'env' || process.env[place]) return [];
    return [
      warn(
        `provider ${id}`,
        `The variable ${place} is not set here; a daemon that is started here has no key for this provider.`,
        `Set ${place}, then start the daemon.`,
      ),
    ];
  });
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
