import { type DaemonSnapshot, readyWhen } from '../../../machines/daemon/chart.ts';
import type { EngineSnapshot } from '../../../machines/engine.ts';
import type { AnyEvent } from '../../../machines/events.ts';
import { stateName, statePath } from '../../../machines/step.ts';
import { isoTime } from '../../async/clock.ts';
import type {
  HealthRecord,
  ProviderRecord,
  PublicReport,
  ReportRecord,
  StatusRecord,
  VerifiedRecord,
} from '../../contract/contract.ts';
import { gpuWarning } from '../../contract/loaded-models.ts';
import type { VerifiedReport } from '../../kernel/store/port.ts';
import type { PlacementHealth } from '../../runtime/placement.ts';
import { engineRecord, mainEngine, presentEngines } from './engines.ts';
import { type MemoryUse, memoryUse } from './memory-use.ts';

/** Everything that health depends on. It is in memory, so health never waits for a disk. */
export interface HealthSources {
  daemon: DaemonSnapshot;
  engines: readonly EngineSnapshot[];
  providers: ProviderRecord[];
  since: number;
  transitions: ReportRecord['transitions'];
  runs: ReportRecord['runs'];
  embeddings: ReportRecord['embeddings'];
  seq: number;
  backlog: number;
  last_commit_ms: number | null;
  store_bytes: number | null;
  /** The result of the slow check of the log. Null before the check begins. */
  verified: VerifiedReport | null;
  /** Why the log cannot be written now. */
  stalled: string | null;
  /** The database of the log. Null or absent: a disk. */
  place?: string | null | undefined;
  /** Problems of the log that do not stop writes. */
  store_trouble?: string | null;
  placement: PlacementHealth;
  /** Why the process cannot open files now. */
  descriptor_trouble?: string | null;
  service_id: string;
  now: number;
}

const DOWN = new Set(['unavailable', 'rate_limited', 'half_open', 'unauthorised']);

export function healthRecord(sources: HealthSources): HealthRecord {
  const { daemon } = sources;
  const ready = daemon.hasTag('ready');
  const warning = ready
    ? (sources.stalled ??
      sources.store_trouble ??
      sources.placement.trouble ??
      sources.descriptor_trouble ??
      damageWarning(sources.verified) ??
      engineWarning(sources.engines) ??
      providersWarning(sources.providers))
    : null;
  const reason = ready ? null : reasonNotReady(daemon, sources.place ?? null);
  const output = reason ?? warning;
  return {
    status: ready ? (warning === null ? 'pass' : 'warn') : 'fail',
    version: daemon.context.version,
    service_id: sources.service_id,
    state: stateName(daemon),
    state_path: statePath(daemon),
    since: isoTime(sources.since),
    reason,
    ...(output === null ? {} : { output }),
  };
}

export function reportRecord(sources: HealthSources): ReportRecord {
  const { daemon } = sources;
  const memory = memoryUse();
  const health = healthRecord(sources);
  return {
    ...health,
    ...(memory.trouble !== null && health.status === 'pass'
      ? { status: 'warn', output: memory.trouble }
      : {}),
    ready_when: readyWhen(daemon),
    transitions: sources.transitions,
    runs: sources.runs,
    embeddings: sources.embeddings,
    queue: { length: sources.runs.queued, capacity: daemon.context.capacity },
    providers: sources.providers,
    engine: engineRecord(mainEngine(sources.engines), sources.now),
    engines: presentEngines(sources.engines).map((engine) => engineRecord(engine, sources.now)),
    log: {
      seq: sources.seq + sources.backlog,
      durable_seq: sources.seq,
      lag: sources.backlog,
      last_commit_ms: sources.last_commit_ms,
      size_bytes: sources.store_bytes,
      verified: verifiedRecord(sources.verified),
    },
    memory: { rss_bytes: memory.rss_bytes, heap_used_bytes: memory.heap_used_bytes },
    last_boot: lastBoot(daemon),
    checks: checks(sources, memory),
  };
}

/**
 * Health for clients without a token: no reason of a failure, since it may contain paths, and no
 * address of a database.
 */
export function publicHealth({ reason, output, ...record }: HealthRecord): HealthRecord {
  const publicReason =
    record.state === 'failed'
      ? 'The daemon has failed; its log says why.'
      : [reason, output].some((text) => text?.startsWith('The database '))
        ? noAnswer('The database')
        : output?.startsWith('The model ')
          ? 'A model has fewer layers on the GPU than it could.'
          : null;
  return {
    ...record,
    reason: publicReason ?? reason,
    ...(output === undefined ? {} : { output: publicReason ?? output }),
  };
}

/**
 * The report for clients without a token: no addresses, names of keys, messages of providers,
 * paths, process ids or times of runs.
 */
export function publicReport(report: ReportRecord): PublicReport {
  const { status, version, service_id, state, state_path, since, reason, output } = report;
  const health = publicHealth({
    status,
    version,
    service_id,
    state,
    state_path,
    since,
    reason,
    ...(output === undefined ? {} : { output }),
  });
  const {
    ready_when,
    transitions,
    runs,
    embeddings,
    queue,
    providers,
    engine,
    engines,
    log,
    memory,
    last_boot,
    checks,
  } = report;
  return {
    ...health,
    ready_when,
    runs,
    embeddings,
    queue,
    memory,
    last_boot,
    log: { ...log, verified: { ...log.verified, problems: [] } },
    transitions: transitions.filter(({ event }) => !RUN_EVENTS.has(event)),
    providers: providers.map(({ id, kind, state }) => ({ id, kind, state })),
    engine: { state: engine.state },
    engines: engines.map(({ state }) => ({ state })),
    checks: Object.fromEntries(
      Object.entries(checks).map(([name, results]) => [
        name,
        results.map(({ output: _, ...check }) => check),
      ]),
    ),
  };
}

const RUN_EVENTS: ReadonlySet<string> = new Set<AnyEvent['type']>([
  'daemon.run_admitted',
  'daemon.run_settled',
]);

export function lastBoot(daemon: DaemonSnapshot): StatusRecord['last_boot'] {
  const last = daemon.context.last_boot;
  return last === null
    ? null
    : { boot_id: last.boot_id, ending: last.ending, at: isoTime(last.at) };
}

function reasonNotReady(daemon: DaemonSnapshot, place: string | null): string {
  if (daemon.hasTag('store_full'))
    return 'The disk is full: the daemon accepts no new run until there is space.';
  if (daemon.hasTag('store_stalled'))
    return noAnswer(place === null ? 'The disk' : `The database ${place}`);
  const { error } = daemon.context;
  return `The daemon is ${stateName(daemon)}${error === null ? '' : `: ${error.message}`}`;
}

function noAnswer(who: string): string {
  return `${who} does not answer: the daemon accepts no new run until it does.`;
}

function damageWarning(verified: VerifiedReport | null): string | null {
  if (verified === null || verified.damaged === 0) return null;
  return (
    `The event log is damaged in ${verified.damaged} place${verified.damaged === 1 ? '' : 's'}: ` +
    'svc doctor lists them.'
  );
}

/** The first model that is slower than it could be. */
function engineWarning(engines: readonly EngineSnapshot[]): string | null {
  const loaded = engines.filter((engine) => engine.hasTag('loaded'));
  return (
    loaded
      .map(({ context: { info } }) => (info === null ? null : gpuWarning(info)))
      .find((warning) => warning !== null) ?? null
  );
}

function verifiedRecord(verified: VerifiedReport | null): VerifiedRecord {
  if (verified === null) return { seq: 0, at: null, damaged: 0, problems: [] };
  const { seq, at, damaged, problems } = verified;
  return { seq, at: at === null ? null : isoTime(at), damaged, problems };
}

function providersWarning(providers: ProviderRecord[]): string | null {
  return providers.length > 0 && providers.every(isDown) ? 'No provider is available.' : null;
}

/** A provider that failed stays down during its next probe. */
function isDown({ state, reason }: ProviderRecord): boolean {
  return DOWN.has(state) || (state === 'probing' && reason !== null);
}

/** The checks of the health report, as the draft of the health format names them. */
function checks(sources: HealthSources, memory: MemoryUse): ReportRecord['checks'] {
  const at = isoTime(sources.now);
  const value = (componentType: string, observedValue: unknown, observedUnit: string) => [
    { status: 'pass' as const, componentType, observedValue, observedUnit, time: at },
  ];
  const results: ReportRecord['checks'] = {
    'runs:active': value('component', sources.runs.active, 'runs'),
    'queue:length': value('component', sources.runs.queued, 'runs'),
    'log:lag': [
      {
        status: sources.stalled === null ? 'pass' : 'fail',
        componentType: 'datastore',
        observedValue: sources.backlog,
        observedUnit: 'events',
        time: at,
        ...(sources.stalled === null ? {} : { output: sources.stalled }),
      },
    ],
    'log:checkpoint': [
      {
        status: sources.store_trouble == null ? 'pass' : 'warn',
        componentType: 'datastore',
        observedValue: sources.store_trouble == null ? 'done' : 'failing',
        time: at,
        ...(sources.store_trouble == null ? {} : { output: sources.store_trouble }),
      },
    ],
    'memory:rss': [
      {
        status: memory.trouble === null ? 'pass' : 'warn',
        componentType: 'system',
        observedValue: memory.rss_bytes,
        observedUnit: 'bytes',
        time: at,
        ...(memory.trouble === null ? {} : { output: memory.trouble }),
      },
    ],
    'engine:state': [
      {
        status: sources.engines.some((engine) => engine.hasTag('failing')) ? 'warn' : 'pass',
        componentType: 'component',
        observedValue: engineRecord(mainEngine(sources.engines), sources.now).state,
        time: at,
        ...(engineWarning(sources.engines) === null
          ? {}
          : { output: engineWarning(sources.engines) as string }),
      },
    ],
    ...sources.placement.checks,
  };
  for (const provider of sources.providers) {
    const [faulty] = provider.faulty_models;
    const down = isDown(provider) || provider.state === 'degraded' || faulty !== undefined;
    const output = provider.reason ?? (faulty && `${faulty.model}: ${faulty.reason}`) ?? null;
    results[`provider:${provider.id}`] = [
      {
        status: down ? 'warn' : 'pass',
        componentType: 'component',
        observedValue: provider.state,
        time: at,
        ...(down && output !== null ? { output } : {}),
      },
    ];
  }
  return results;
}
