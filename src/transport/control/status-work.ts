import { targetName } from '../../../machines/failover.ts';
import type { StatusMore } from '../../contract/operations/daemon.ts';
import type { Runtime } from '../../runtime/port.ts';

export function statusWork({
  loads,
  mcp,
  providers,
}: Pick<Runtime, 'loads' | 'mcp' | 'providers'>): Pick<StatusMore, 'models' | 'tools' | 'failing'> {
  return {
    models: loads
      .list()
      .models.map(({ id, purpose, state, runs, memory_bytes, gpu, warning }) => ({
        id,
        purpose,
        state,
        runs,
        memory_bytes,
        gpu,
        ...(warning === undefined ? {} : { warning }),
      })),
    tools: mcp
      .list()
      .servers.filter(({ state, reason }) => reason !== null || !AT_REST.has(state))
      .map(({ name, state, reason, code }) => ({ name, state, reason, code })),
    failing: providers
      .list()
      .flatMap(({ id, state, reason, retry_at, faulty_models }) => [
        ...(FAILING.has(state) || (state === 'probing' && reason !== null)
          ? [{ id, state, reason, retry_at }]
          : []),
        ...faulty_models.map(({ model, state, reason, retry_at }) => ({
          id: targetName({ provider: id, model }),
          state,
          reason,
          retry_at,
        })),
      ]),
  };
}

/** A server of tools starts when it is asked for. */
const AT_REST: ReadonlySet<string> = new Set(['stopped', 'disabled']);

/** A cloud provider that was not asked yet is `unknown`, which is no fault. */
const FAILING: ReadonlySet<string> = new Set([
  'degraded',
  'unavailable',
  'rate_limited',
  'half_open',
  'unauthorised',
]);
