import { globSync, readFileSync } from 'node:fs';

/**
 * What one machine causes in another: the picture that opens docs/machines.md.
 *
 * The code says which file of `src/` appends which event, and `appendedBy` reads it there. On whose
 * behalf a file does so is said here, once for each file. A test fails when a file appends an event
 * that no row has, or a row has one that its file does not append.
 */

/** Clients also ask at another node. The host is the start, the disk, the clock, the database. */
type Source =
  | 'client'
  | 'host'
  | 'daemon'
  | 'run'
  | 'provider'
  | 'engine'
  | 'pull'
  | 'mcp'
  | 'lease'
  | 'conversation';

interface Row {
  file: string;
  from: Source;
  /** An effect of `from`, `events` if the file hears those of `from`, or words for a reader. */
  by: string;
  events: readonly string[];
}

const row = (file: string, from: Source, by: string, events: string): Row => ({
  file: `src/${file}`,
  from,
  by,
  events: events.split(' '),
});

export const rows: readonly Row[] = [
  row('daemon/parts.ts', 'host', 'start', 'daemon.boot_started'),
  row(
    'daemon/start.ts',
    'host',
    'start',
    'daemon.listening daemon.store_opened daemon.recovery_progressed daemon.runs_recovered ' +
      'daemon.providers_probed daemon.run_settled',
  ),
  row('daemon/stop.ts', 'daemon', 'closeDaemon', 'run.interrupt_requested engine.stop_requested'),
  row('daemon/stop.ts', 'daemon', 'closeDaemon', 'daemon.stopped daemon.failed'),
  row('daemon/work.ts', 'run', 'startAttempt', 'engine.created'),
  row('daemon/work.ts', 'client', 'request', 'mcp.created'),
  row('fleet/runs.ts', 'client', 'another node', 'run.cancel_requested'),
  row('fleet/claims.ts', 'lease', 'shared queue', 'run.interrupted run.recovered'),
  row('fleet/claims.ts', 'lease', 'shared queue', 'run.cancel_requested daemon.run_admitted'),
  row('fleet/lease-keeper.ts', 'daemon', 'events', 'lease.leave_requested'),
  row(
    'fleet/lease-keeper.ts',
    'host',
    'database',
    'lease.requested lease.granted lease.renewed lease.renewal_failed lease.lost lease.left',
  ),
  row(
    'tools/server.ts',
    'client',
    'request',
    'mcp.start_requested mcp.call_started mcp.call_finished mcp.tools_listed',
  ),
  row('tools/server.ts', 'daemon', 'closeDaemon', 'mcp.stop_requested'),
  row('tools/server.ts', 'mcp', 'startToolServer', 'mcp.ready mcp.start_failed mcp.ended'),
  row(
    'models/puller.ts',
    'pull',
    'startPull',
    'pull.resolved pull.progressed pull.downloaded pull.hashed pull.verified pull.completed ' +
      'pull.failed pull.cancelled pull.attempt_failed',
  ),
  row(
    'providers/local/engine-child.ts',
    'engine',
    'startEngine',
    'engine.load_failed engine.exited',
  ),
  row(
    'providers/local/engine-process.ts',
    'engine',
    'startEngine',
    'engine.process_started engine.model_loaded engine.stop_requested',
  ),
  row(
    'providers/local/servers/server-process.ts',
    'engine',
    'startEngine',
    'engine.process_started engine.model_loaded',
  ),
  row(
    'providers/local/engines.ts',
    'run',
    'startAttempt',
    'engine.load_requested engine.stop_requested',
  ),
  row(
    'providers/local/engine.ts',
    'run',
    'startAttempt',
    'engine.work_started engine.work_finished engine.stop_requested',
  ),
  row('providers/local/engine.ts', 'engine', 'startEngine', 'engine.load_failed engine.exited'),
  row(
    'runtime/conversations/made-conversations.ts',
    'client',
    'request',
    'conversation.created conversation.items_added conversation.item_removed ' +
      'conversation.described conversation.deleted',
  ),
  row(
    'runtime/conversations/made-conversations.ts',
    'run',
    'same commit',
    'conversation.run_added',
  ),
  row('operations/create.ts', 'client', 'request', 'daemon.stop_requested'),
  row(
    'runtime/disk/disk-monitor.ts',
    'host',
    'disk',
    'daemon.disk_resumed daemon.store_filled daemon.disk_stalled daemon.store_freed',
  ),
  row('runtime/disk/retention.ts', 'host', 'clock', 'daemon.history_pruned'),
  row(
    'runtime/embeddings/embeddings.ts',
    'client',
    'request',
    'provider.embedding_sent provider.embedding_counted',
  ),
  row(
    'runtime/providers/admission.ts',
    'run',
    'startAttempt',
    'provider.trial_started provider.answered provider.faulted provider.trial_abandoned',
  ),
  row('runtime/providers/probe.ts', 'run', 'startAttempt', 'provider.probe_started'),
  row('runtime/providers/providers.ts', 'client', 'request', 'provider.removed'),
  row('runtime/providers/providers.ts', 'client', 'request', 'provider.key_changed'),
  row('runtime/providers/providers.ts', 'client', 'request', 'provider.probe_started'),
  row(
    'runtime/providers/providers.ts',
    'provider',
    'probeProvider',
    'provider.probe_succeeded provider.probe_failed provider.faulted',
  ),
  row('runtime/providers/records.ts', 'host', 'start', 'provider.configured'),
  row('runtime/pulls/pulls.ts', 'client', 'request', 'pull.requested pull.cancel_requested'),
  row('runtime/runs/acceptance.ts', 'client', 'request', 'run.accepted'),
  row('runtime/runs/acceptance.ts', 'host', 'disk', 'run.cancel_requested'),
  row('runtime/runs/acceptance.ts', 'run', 'same commit', 'daemon.run_admitted'),
  row('runtime/runs/answer-form.ts', 'run', 'startAttempt', 'run.asked_again'),
  row(
    'runtime/runs/executor.ts',
    'run',
    'startAttempt',
    'run.completed run.turn_completed run.sent_to_cloud run.attempt_failed run.suspended run.interrupted run.failed',
  ),
  row(
    'runtime/tools/tool-calls.ts',
    'run',
    'callTools',
    'run.tool_requested run.tool_allowed run.tool_denied run.tool_started run.tool_finished ' +
      'run.tool_reported run.tool_lost run.failed',
  ),
  row(
    'runtime/tools/approvals.ts',
    'client',
    'request',
    'run.tool_allowed run.tool_denied run.tool_decided',
  ),
  row('runtime/runs/executor.ts', 'run', 'stopAttempt', 'run.cancelled run.timed_out'),
  row('runtime/runs/output-recorder.ts', 'run', 'startAttempt', 'run.output_appended'),
  row('runtime/runs/recover.ts', 'host', 'start', 'run.interrupted run.recovered'),
  row('runtime/runs/remove.ts', 'client', 'request', 'daemon.history_pruned'),
  row('runtime/runs/runs.ts', 'client', 'request', 'run.cancel_requested'),
  row('runtime/runs/scheduler.ts', 'run', 'events', 'daemon.run_settled'),
  row('runtime/runs/scheduler.ts', 'daemon', 'events', 'run.started'),
];

/** The events that each file of `src/` appends, itself or by a function of `machines/`. */
export function appendedBy(): Map<string, string[]> {
  const functions = functionsWithEvents();
  const found = globSync(
    'src/{daemon,runtime,observability,operations,fleet,tools,models,providers}/**/*.ts',
  ).map((file) => {
    const text = readFileSync(file, 'utf8');
    const called = [...functions].filter(([name]) => new RegExp(`\\b${name}\\(`).test(text));
    const events = [...eventsIn(text), ...called.flatMap(([, all]) => all)];
    return [file.replaceAll('\\', '/'), [...new Set(events)].sort()] as const;
  });
  return new Map(found.filter(([, events]) => events.length > 0).map(([f, e]) => [f, [...e]]));
}

function functionsWithEvents(): Map<string, string[]> {
  const parts = globSync('machines/**/*.ts').flatMap((file) =>
    readFileSync(file, 'utf8').split(/^(?=(?:export )?(?:function|const|type|interface) )/m),
  );
  return new Map(
    parts.flatMap((part): [string, string[]][] => {
      const name = /^export function (\w+)/.exec(part)?.[1];
      const events = eventsIn(part);
      return name === undefined || events.length === 0 ? [] : [[name, events]];
    }),
  );
}

function eventsIn(text: string): string[] {
  const event = /\btype: '((?:run|daemon|provider|engine|pull|mcp|lease|conversation)\.[a-z_]+)'/g;
  return [...text.matchAll(event)].map(([, type = '']) => type);
}

/** An arrow leads from a machine to another one, and has the events by what leads to them. */
export function picture(): string {
  const between = rows.flatMap(({ from, by, events }) =>
    events
      .filter((event) => !event.startsWith(`${from}.`))
      .map((event) => ({ from, by, to: event.split('.')[0] ?? '', name: event.split('.')[1] })),
  );
  const arrows = Map.groupBy(between, ({ from, to }) => `${from} ${to}`);
  const lines = [...arrows].map(([ends, all]) => {
    const [from, to] = ends.split(' ');
    const label = [...Map.groupBy(all, ({ by }) => by)].map(
      ([by, some]) => `${by}: ${[...new Set(some.map(({ name }) => name))].join(', ')}`,
    );
    return `  ${from} -- "${label.join('<br>')}" --> ${to}`;
  });
  const outside = ['  client([clients])', '  host([start, disk, clock, database])'];
  return ['flowchart LR', ...outside, ...lines].join('\n');
}
