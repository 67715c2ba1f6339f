import type { AnyMachineSnapshot } from 'xstate';
import type { EngineSnapshot } from '../../../machines/engine.ts';
import { statePath } from '../../../machines/step.ts';
import { isoTime } from '../../async/clock.ts';
import type { EngineRecord } from '../../contract/contract.ts';
import { isEngine } from '../../kernel/stream.ts';

/** The states of the engine machines, oldest first. */
export function engineSnapshots(
  instances: Iterable<{ stream: string; snapshot: AnyMachineSnapshot }>,
): EngineSnapshot[] {
  return [...instances]
    .filter(({ stream }) => isEngine(stream))
    .map(({ snapshot }) => snapshot as unknown as EngineSnapshot);
}

/** Engines with a process, and those that crashed. */
export function presentEngines(engines: readonly EngineSnapshot[]): EngineSnapshot[] {
  return engines.filter((engine) => !engine.hasTag('absent'));
}

/** The engine whose state changed last, of those that are present if there are any. */
export function mainEngine(engines: readonly EngineSnapshot[]): EngineSnapshot | undefined {
  const candidates = presentEngines(engines).length > 0 ? presentEngines(engines) : engines;
  return candidates.reduce<EngineSnapshot | undefined>(
    (latest, engine) =>
      latest === undefined || engine.context.since >= latest.context.since ? engine : latest,
    undefined,
  );
}

export function engineRecord(engine: EngineSnapshot | undefined, now: number): EngineRecord {
  if (engine === undefined)
    return {
      state: 'cold',
      since: isoTime(now),
      model: null,
      pid: null,
      threads: null,
      context_length: null,
      parallel: null,
      error: null,
    };
  const { context } = engine;
  const { info } = context;
  return {
    state: statePath(engine),
    since: isoTime(context.since),
    model: context.model,
    pid: info?.pid ?? null,
    threads: info?.threads ?? null,
    context_length: info?.context_length ?? null,
    parallel: info?.parallel ?? null,
    error: context.error?.message ?? null,
  };
}
