import type { NewEvent } from '../../../machines/events.ts';
import type { ProviderSnapshot } from '../../../machines/provider/chart.ts';
import { circuitState, type ModelCircuit } from '../../../machines/provider/circuit.ts';
import type { ProviderCreated } from '../../../machines/provider/context.ts';
import { isIn, stateName } from '../../../machines/step.ts';
import { isoTime } from '../../async/clock.ts';
import type { ProviderConfig } from '../../config/providers/provider.ts';
import type { FaultyModel, ProviderRecord } from '../../contract/contract.ts';
import type { ModelRecord } from '../../contract/model-record.ts';
import type { Limits } from '../../limits.ts';
import { PROBE_SLACK_MS } from './probe.ts';

/** The event that creates the machine of a provider. `config` is null for the built-in engine. */
export function toProviderCreated(
  id: string,
  config: ProviderConfig | null,
  { probe_failures, probe_every_ms, probe_ms }: Limits,
): NewEvent<ProviderCreated> {
  return {
    type: 'provider.configured',
    provider_id: id,
    kind: config?.kind ?? 'local',
    adapter: config?.adapter ?? 'llama.cpp',
    base_url: config?.base_url ?? null,
    failure_limit: probe_failures,
    probe_every_ms: config === null || config.kind === 'cloud' ? null : probe_every_ms,
    probe_timeout_ms: probe_ms + PROBE_SLACK_MS,
  };
}

/** A provider as users see it. */
export function providerRecord(
  snapshot: ProviderSnapshot,
  settings: Pick<ProviderRecord, 'credential' | 'transitions' | 'default'>,
  now: number,
): ProviderRecord {
  const {
    provider_id: id,
    kind,
    adapter,
    error,
    since,
    base_url,
    models,
    retry_at,
  } = snapshot.context;
  const unknown = isIn(snapshot, 'unknown');
  return {
    id,
    kind,
    adapter,
    state: stateName(snapshot),
    reason:
      error?.message ??
      (unknown && kind === 'cloud'
        ? 'Not contacted yet: the daemon contacts a cloud provider only on request.'
        : null),
    since: isoTime(since),
    retry_at: retry_at === null ? null : isoTime(retry_at),
    transitions: settings.transitions,
    base_url,
    credential: settings.credential,
    models: unknown ? null : models.length,
    faulty_models: faultyModels(snapshot, now),
    default: settings.default,
  };
}

/** The models that get no requests, or only a trial. The latest fault comes last. */
export function faultyModels({ context }: ProviderSnapshot, now: number): FaultyModel[] {
  return context.circuits.flatMap((circuit) => {
    const { model, error, failed_at, retry_at } = circuit;
    if (retry_at === null) return [];
    const state = circuitState(circuit, now) === 'refusing' ? kindOf(circuit) : 'half_open';
    const times = { since: isoTime(failed_at), retry_at: isoTime(retry_at) };
    return [{ model, state, reason: error.message, ...times }];
  });
}

function kindOf({ limited, error }: ModelCircuit): FaultyModel['state'] {
  if (limited) return 'rate_limited';
  return error.code === 'provider_unauthorised' ? 'unauthorised' : 'unavailable';
}

/** A model known only by its name. */
export function nameAlone(provider: string, name: string): ModelRecord {
  return {
    id: `${provider}/${name}`,
    provider,
    name,
    state: 'available',
    size_bytes: null,
    digest: null,
    quantization: null,
    parameters: null,
    context_length: null,
    capabilities: [],
    path: null,
    default: false,
    built_in: false,
  };
}

/** The models that a cloud provider listed at its last probe, and its default one. */
export function knownModels(
  id: string,
  config: ProviderConfig,
  listed: readonly string[],
): ModelRecord[] {
  const names = new Set(listed);
  if (config.model !== null) names.add(config.model);
  return [...names].map((name) => ({ ...nameAlone(id, name), default: name === config.model }));
}
