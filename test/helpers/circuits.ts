import { SvcError } from '../../src/errors.ts';
import { bootRuntime } from './runtime.ts';
import { ScriptedProvider } from './scripted-provider.ts';
import { turns } from './turns.ts';
import { waitFor } from './wait.ts';

/** A fault of the connection, so of every model. */
export const failed = () =>
  new SvcError('provider_unreachable', 'far refuses the connection.', { retryable: true });
export const busy = (retryAfterMs: number | null) =>
  new SvcError('provider_busy', 'far: too many requests (status 429).', { retryAfterMs });

/** One cloud and one local provider. A run has one attempt, so its outcome is the attempt's. */
export async function boot(script: ScriptedProvider['script'] = [], run_attempts = 1) {
  const far = new ScriptedProvider('far', script);
  const near = new ScriptedProvider('near', script);
  const world = await bootRuntime({
    local: new ScriptedProvider('local', []),
    remote: { far: { port: far, kind: 'cloud' }, near: { port: near, kind: 'local' } },
    limits: { run_attempts, probe_failures: 3, circuit_wait_ms: 2000, circuit_wait_max_ms: 8000 },
  });
  const start = async (provider = 'far') =>
    (await world.runtime.runs.start({ prompt: 'hi', provider }, 'test')).id;
  const ended = async (id: string) => {
    await waitFor('its end', () => !world.kernel.instances.has(id));
    return world.runtime.runs.get(id);
  };
  const ask = async (provider = 'far') => ended(await start(provider));
  /** A run with several attempts ends. */
  const endedInTime = async (id: string) => {
    await waitFor('its end', async () => {
      if (!world.kernel.instances.has(id)) return true;
      await pass(1000);
      return false;
    });
    return world.runtime.runs.get(id);
  };
  const record = (id = 'far') => world.providers.record(id);
  const faulty = () => record().faulty_models[0];
  const pass = async (ms: number) => {
    world.clock.advance(ms);
    await turns();
  };
  return { ...world, far, near, start, ended, endedInTime, ask, record, faulty, pass };
}
