import { targetName } from '../../../machines/failover.ts';
import type { LoadedModelRecord, ProviderRecord } from '../../contract/contract.ts';
import type { Runtime } from '../../runtime/port.ts';

/** What `svc status` says beside the state of the daemon. An older daemon does not say it. */
export interface StatusWork {
  /** Local models in memory, and those on their way. */
  models?: Pick<LoadedModelRecord, 'id' | 'purpose' | 'state' | 'runs' | 'memory_bytes'>[];
  /** The providers, and the models of providers, that do not work as they should. */
  failing?: Pick<ProviderRecord, 'id' | 'state' | 'reason' | 'retry_at'>[];
}

export function statusWork({ loads, providers }: Pick<Runtime, 'loads' | 'providers'>): StatusWork {
  return {
    models: loads.list().models.map(({ id, purpose, state, runs, memory_bytes }) => ({
      id,
      purpose,
      state,
      runs,
      memory_bytes,
    })),
    failing: providers.list().flatMap(({ id, state, reason, retry_at, faulty_models }) => [
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

/** A cloud provider that was not asked yet is `unknown`, which is no fault. */
const FAILING: ReadonlySet<string> = new Set([
  'degraded',
  'unavailable',
  'rate_limited',
  'half_open',
  'unauthorised',
]);
