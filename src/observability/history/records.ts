import type { EngineSnapshot } from '../../../machines/engine.ts';
import type { ProviderSnapshot } from '../../../machines/provider/chart.ts';
import { isIn, stateName, statePath } from '../../../machines/step.ts';
import { isoTime } from '../../async/clock.ts';
import type {
  EngineRecord,
  EngineState,
  ProviderState,
  RunRecord,
  ShortenedRun,
} from '../../contract/contract.ts';
import { recordLength, SHORT_CHARACTERS, shortRecord } from '../../kernel/store/short-run.ts';
import { faultyModels } from '../../runtime/providers/records.ts';
import { engineRecord, mainEngine, presentEngines } from '../health/engines.ts';

/** How long a finished run is shown. */
export const SHOWN_AFTER_MS = 60_000;

/** The engines with a process, and the one of them that is shown first. */
export function engineStates(
  engines: readonly EngineSnapshot[],
  now: number,
): { engine: EngineState; engines: EngineState[] } {
  return {
    engine: stateOf(engineRecord(mainEngine(engines), now)),
    engines: presentEngines(engines).map((engine) => stateOf(engineRecord(engine, now))),
  };
}

function stateOf(record: EngineRecord): EngineState {
  return { ...record, state: record.state.split('.')[0] ?? '', state_path: record.state };
}

export function providerState(snapshot: ProviderSnapshot, at: number): ProviderState {
  const { provider_id, kind, adapter, base_url, error, since, models } = snapshot.context;
  return {
    id: provider_id,
    kind,
    adapter,
    base_url,
    state: stateName(snapshot),
    state_path: statePath(snapshot),
    reason: error?.message ?? null,
    since: isoTime(since),
    models: isIn(snapshot, 'unknown') ? null : models.length,
    faulty_models: faultyModels(snapshot, at),
  };
}

/** Complete records while their texts fit. The rest is shortened. */
export function withinBytes(runs: readonly RunRecord[], bytes_max: number): ShortenedRun[] {
  let room = bytes_max;
  return runs.map((run) => {
    const length = recordLength(run);
    room -= length;
    if (room >= 0 || length <= 3 * SHORT_CHARACTERS) return run;
    return shortRecord(run);
  });
}
