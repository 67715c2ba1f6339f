import type { Life } from './daemon.ts';
import { BUILT_IN, isHostile, markIn, SERVERS, type ServerName } from './tool-servers.ts';

/** What the torture of tools compares in the end, and its result. */

export const TERMINAL = /^run\.(completed|failed|cancelled|timed_out|interrupted)$/;

export interface ToolsResult {
  daemon: number;
  engine: number;
  server: number;
  runs: number;
  calls: number;
  executions: number;
  /** Approvals and other decisions that the daemon confirmed. */
  decisions: number;
  /** Calls that were cut off, and that a person decided about. */
  cut_off: number;
  /** Calls that the engine of the daemon asked for. */
  of_engine: number;
  /** Calls of tools that svc has itself, and those of them that began more than once. */
  of_svc: number;
  of_svc_again: number;
  /** Executions of these. */
  by_svc: number;
  /** Calls of hostile servers. */
  of_hostile: number;
  twice: number;
  lost: number;
  /** By what was killed, and after which event. */
  kills: Record<string, number>;
  /** What `/livez` was asked of daemons that were up, and how it answered. */
  livez_asked: number;
  livez_worst_ms: number;
  problems: string[];
}

export function newResult(): ToolsResult {
  return {
    daemon: 0,
    engine: 0,
    server: 0,
    runs: 0,
    calls: 0,
    executions: 0,
    decisions: 0,
    cut_off: 0,
    of_engine: 0,
    of_svc: 0,
    of_svc_again: 0,
    by_svc: 0,
    of_hostile: 0,
    twice: 0,
    lost: 0,
    kills: {},
    livez_asked: 0,
    livez_worst_ms: 0,
    problems: [],
  };
}

/** What the person said about a call. */
export interface Decision {
  decision: string;
  /** The daemon confirmed it. */
  confirmed: boolean;
}

interface Seen {
  life: Life;
  accepted: readonly string[];
  decisions: ReadonlyMap<string, readonly Decision[]>;
}

interface CallEvent {
  type: string;
  data: Record<string, unknown>;
}

/**
 * Compares the log with the executions and with the decisions that were confirmed. `left`: what the
 * executions left, the id or the mark of their calls.
 */
export async function compareCalls(
  seen: Seen,
  left: readonly string[],
  result: ToolsResult,
): Promise<void> {
  const problem = (text: string) => void result.problems.push(text);
  const executed = new Map<string, number>();
  for (const key of left) {
    result.executions += 1;
    executed.set(key, (executed.get(key) ?? 0) + 1);
  }
  for (const run_id of seen.accepted) {
    result.runs += 1;
    const { events } = await seen.life.ask((client) =>
      client.call('log.stream', { stream: run_id, from_version: 0, limit: 1000 }),
    );
    const ends = events.filter(({ type }) => TERMINAL.test(type));
    if (ends.length !== 1) problem(`${run_id} has ${ends.length} ends`);
    const request = events[0]?.data.request as { provider: string } | undefined;
    const numbers = events.map(({ data }) => data.call).filter((call) => typeof call === 'number');
    for (const call of new Set(numbers)) {
      result.calls += 1;
      if (request?.provider === 'local') result.of_engine += 1;
      const id = `${run_id}.${call}`;
      const own = events.filter(({ data }) => data.call === call);
      const asked = own.find(({ type }) => type === 'run.tool_requested')?.data;
      const server = asked?.server as ServerName | undefined;
      const isOwn = server !== undefined && BUILT_IN.includes(server);
      const key = isOwn ? markIn(asked?.arguments) : id;
      if (isOwn) result.of_svc += 1;
      if (server !== undefined && isHostile(server)) result.of_hostile += 1;
      const starts = own.filter(({ type }) => type === 'run.tool_started').length;
      if (isOwn && starts > 1) result.of_svc_again += 1;
      const made = { id, server, executions: executed.get(key) ?? 0 };
      if (isOwn) result.by_svc += made.executions;
      compareCall(made, own, seen.decisions.get(id) ?? [], result);
      executed.delete(key);
    }
  }
  for (const id of executed.keys()) problem(`${id} was executed, and no run has it`);
}

function compareCall(
  made: { id: string; server: ServerName | undefined; executions: number },
  events: readonly CallEvent[],
  decisions: readonly Decision[],
  result: ToolsResult,
): void {
  const { id, server, executions } = made;
  const problem = (text: string) => void result.problems.push(`${id} ${text}`);
  const of = (type: string) => events.filter((event) => event.type === `run.tool_${type}`);
  const [allowed, denied, started, decided] = [
    of('allowed'),
    of('denied'),
    of('started'),
    of('decided'),
  ];
  const repeats = decided.filter(({ data }) => data.decision === 'repeat').length;
  if (allowed.length + denied.length > 1) problem('was decided more than once');
  if (started.length > 0 && allowed.length === 0) problem('began without an approval');
  // A hostile server has no row, and its calls are never repeated.
  const mayRepeat = server !== undefined && SERVERS[server]?.mayRepeat === true;
  if (!mayRepeat && started.length > 1 + repeats) {
    result.twice += 1;
    problem(`began ${started.length} times, with ${repeats} repeats`);
  }
  if (executions > started.length) {
    result.twice += 1;
    problem(`was executed ${executions} times, and began ${started.length} times`);
  }
  const finished = of('finished').filter(({ data }) => data.is_error !== true);
  if (finished.length > 0 && executions === 0) {
    result.lost += 1;
    problem('has a result, and was never executed');
  }
  if (decided.length > 0) result.cut_off += 1;
  const recorded = [
    ...allowed.map(() => 'allow'),
    ...denied.map(() => 'deny'),
    ...decided.map(({ data }) => String(data.decision)),
  ];
  for (const { decision } of decisions.filter(({ confirmed }) => confirmed)) {
    const at = recorded.indexOf(decision);
    if (at < 0) {
      result.lost += 1;
      problem(`has not the decision ${decision} in the log, which was confirmed`);
    } else recorded.splice(at, 1);
  }
}
