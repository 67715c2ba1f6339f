import { type Check, fail, ok, type Patient, warn } from './check.ts';

export function checkProviders({ alive, config }: Patient): Check[] {
  if (alive !== null) {
    return alive.providers.map(({ id, state, reason }) => {
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
          `Start it, or look at its address with: svc provider test ${id}`,
        );
      return state === 'degraded'
        ? warn(name, reason ?? 'It failed lately.', `See: svc provider test ${id}`)
        : ok(name, state);
    });
  }
  return Object.entries(config?.providers ?? {}).flatMap(([id, { key_env }]) => {
    if (key_env === null || process.env[key_env]) return [];
    return [
      warn(
        `provider ${id}`,
        `The variable ${key_env} is not set here; a daemon started from here could not ask this provider.`,
        `Set ${key_env}, then start the daemon.`,
      ),
    ];
  });
}
