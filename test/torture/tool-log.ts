import { readFileSync } from 'node:fs';
import type { Life } from './daemon.ts';

/** What the torture of tools compares in the end, and its result. */

/** How the calls of each server are decided, and whether they may be repeated. */
export const SERVERS = {
  free: { tool: 'count', svc: { policy: 'allow' }, mayRepeat: false },
  careful: { tool: 'count', svc: { policy: 'ask' }, mayRepeat: false },
  safe: { tool: 'put', svc: { policy: 'allow', trusted: true }, mayRepeat: true },
} as const;

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
  twice: number;
  lost: number;
  /** By what was killed, and after which event. */
  kills: Record<string, number>;
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
    twice: 0,
    lost: 0,
    kills: {},
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

/** Compares the log with the executions and with the decisions that were confirmed. */
export async function compareCalls(seen: Seen, file: string, result: ToolsResult): Promise<void> {
  const problem = (text: string) => void result.problems.push(text);
  const executed = new Map<string, number>();
  for (const line of readFileSync(file, 'utf8').split('\n').filter(Boolean)) {
    result.executions += 1;
    executed.set(line, (executed.get(line) ?? 0) + 1);
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
      compareCall(id, own, executed.get(id) ?? 0, seen.decisions.get(id) ?? [], result);
      executed.delete(id);
    }
  }
  for (const id of executed.keys()) problem(`${id} was executed, and no run has it`);
}

function compareCall(
  id: string,
  events: readonly CallEvent[],
  executions: number,
  decisions: readonly Decision[],
  result: ToolsResult,
): void {
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
  const server = of('requested')[0]?.data.server as keyof typeof SERVERS | undefined;
  const mayRepeat = server !== undefined && SERVERS[server].mayRepeat;
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
