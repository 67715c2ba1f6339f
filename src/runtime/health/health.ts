import { type DaemonSnapshot, readyWhen } from '../../../machines/daemon.ts';
import type { EngineSnapshot } from '../../../machines/engine.ts';
import type { AnyEvent } from '../../../machines/events.ts';
import { isIn, stateName, statePath } from '../../../machines/step.ts';
import { isoTime } from '../../kernel/clock.ts';
import type { VerifiedReport } from '../../store/port.ts';
import type {
  EngineRecord,
  HealthRecord,
  ProviderRecord,
  PublicReport,
  ReportRecord,
  StatusRecord,
  VerifiedRecord,
} from '../contract.ts';
import { type MemoryUse, memoryUse } from './memory-use.ts';

/** Everything health is read from; nothing of it waits for a disk. */
export interface HealthSources {
  daemon: DaemonSnapshot;
  engine: EngineSnapshot | undefined;
  providers: ProviderRecord[];
  since: number;
  transitions: ReportRecord['transitions'];
  runs: ReportRecord['runs'];
  seq: number;
  backlog: number;
  last_commit_ms: number | null;
  store_bytes: number | null;
  /** What the slow check of the log has found; null before it began. */
  verified: VerifiedReport | null;
  /** Why the log cannot be written now; null when it can. */
  stalled: string | null;
  /** What else is wrong with the log, which goes on being written. */
  store_trouble?: string | null;
  /** Why the process can open nothing now; null when it can. */
  descriptor_trouble?: string | null;
  service_id: string;
  now: number;
}

const DOWN = new Set(['unavailable', 'unauthorised']);

export function healthRecord(sources: HealthSources): HealthRecord {
  const { daemon } = sources;
  const ready = daemon.hasTag('ready');
  const warning = ready
    ? (sources.stalled ??
      sources.store_trouble ??
      sources.descriptor_trouble ??
      damaged(sources.verified) ??
      providersDown(sources.providers))
    : null;
  const reason = ready ? null : notReady(daemon);
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
    queue: { length: sources.runs.queued, capacity: daemon.context.capacity },
    providers: sources.providers,
    engine: engineRecord(sources.engine, sources.now),
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

/** What anybody may see: states and counts. Messages may name paths, so the reason of a failure stays behind. */
export function publicHealth({ reason, output, ...record }: HealthRecord): HealthRecord {
  const said = record.state === 'failed' ? 'The daemon has failed; its log says why.' : null;
  return {
    ...record,
    reason: said ?? reason,
    ...(output === undefined ? {} : { output: said ?? output }),
  };
}

/** The report without addresses, names of keys, words of providers, paths, processes, and the times of runs. */
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
    queue,
    providers,
    engine,
    log,
    memory,
    last_boot,
    checks,
  } = report;
  return {
    ...health,
    ...{ ready_when, runs, queue, memory, last_boot },
    log: { ...log, verified: { ...log.verified, problems: [] } },
    transitions: transitions.filter(({ event }) => !RUN_EVENTS.has(event)),
    providers: providers.map(({ id, kind, state }) => ({ id, kind, state })),
    engine: { state: engine.state },
    checks: Object.fromEntries(
      Object.entries(checks).map(([name, found]) => [
        name,
        found.map(({ output: _, ...check }) => check),
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

function notReady(daemon: DaemonSnapshot): string {
  if (isIn(daemon, 'disk_full'))
    return 'The disk is full: no new run is taken until there is space.';
  if (isIn(daemon, 'disk_stalled'))
    return 'The disk does not answer: no new run is taken until it does.';
  return `The daemon is ${stateName(daemon)}${daemon.context.error === null ? '' : `: ${daemon.context.error.message}`}`;
}

function damaged(verified: VerifiedReport | null): string | null {
  if (verified === null || verified.damaged === 0) return null;
  return `The event log is damaged in ${verified.damaged} place${verified.damaged === 1 ? '' : 's'}: svc doctor names them.`;
}

function verifiedRecord(verified: VerifiedReport | null): VerifiedRecord {
  if (verified === null) return { seq: 0, at: null, damaged: 0, problems: [] };
  const { seq, at, damaged: places, problems } = verified;
  return { seq, at: at === null ? null : isoTime(at), damaged: places, problems };
}

function providersDown(providers: ProviderRecord[]): string | null {
  return providers.length > 0 && providers.every(isDown) ? 'No provider can be asked.' : null;
}

/** One that failed and is being probed again is down until it answers. */
function isDown({ state, reason }: ProviderRecord): boolean {
  return DOWN.has(state) || (state === 'probing' && reason !== null);
}

/** The checks of the health draft, each with the time it was read. */
function checks(sources: HealthSources, memory: MemoryUse): ReportRecord['checks'] {
  const at = isoTime(sources.now);
  const value = (componentType: string, observedValue: unknown, observedUnit: string) => [
    { status: 'pass' as const, componentType, observedValue, observedUnit, time: at },
  ];
  const found: ReportRecord['checks'] = {
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
        status: isIn(sources.engine, 'crashed') ? 'warn' : 'pass',
        componentType: 'component',
        observedValue: sources.engine === undefined ? 'cold' : statePath(sources.engine),
        time: at,
      },
    ],
  };
  for (const provider of sources.providers) {
    const down = isDown(provider) || provider.state === 'degraded';
    found[`provider:${provider.id}`] = [
      {
        status: down ? 'warn' : 'pass',
        componentType: 'component',
        observedValue: provider.state,
        time: at,
        ...(down && provider.reason !== null ? { output: provider.reason } : {}),
      },
    ];
  }
  return found;
}
