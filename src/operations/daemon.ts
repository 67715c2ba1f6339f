import * as v from 'valibot';
import type { StopReport } from '../../machines/daemon/context.ts';
import type {
  HealthRecord,
  LoadedModelRecord,
  Probe,
  ProviderRecord,
  StatusRecord,
} from '../contract/contract.ts';
import { machines, stateSnapshot } from '../contract/history.ts';
import { lifecycleInput } from '../contract/inputs.ts';
import type { McpServerRecord } from '../contract/mcp.ts';
import { node, nodeList } from '../contract/nodes.ts';
import { anyReport, lifecycleResult } from '../contract/records.ts';
import { appliedSettings } from '../contract/settings.ts';
import { usageInput, usageRecord } from '../contract/usage.ts';
import { count, flag, name, oneOf, text, wholeFrom } from '../contract/vocabulary.ts';
import { SCOPES } from '../contract/words.ts';
import { SvcError } from '../errors.ts';
import { atQuery, usageQuery } from './query.ts';
import { type HomeCall, homeOperation, operation, transportOperation } from './row.ts';

/** The operations on the daemon (its state, log and nodes) and on its home (the tokens). */

/** Details for the command line besides the state. Older daemons omit this field. */
export interface StatusMore {
  started_at: string;
  /** Identifies the build that it runs; null if it runs from its sources. */
  build: string | null;
  /** Why it takes no runs; null if it does. */
  reason: string | null;
  /** Settings of the configuration file that are not in force. */
  not_in_force: string[];
  /** Why the configuration file cannot be read; null if it can. */
  config_problem: string | null;
  /** Local models in memory, and those on their way. */
  models: Pick<
    LoadedModelRecord,
    'id' | 'purpose' | 'state' | 'runs' | 'memory_bytes' | 'gpu' | 'warning'
  >[];
  /** Calls that wait for a person. Older daemons omit this field. */
  waiting?: number;
  /** Tool servers that run, or fail. Older daemons omit this field. */
  tools?: Pick<McpServerRecord, 'name' | 'state' | 'reason' | 'code'>[];
  /** The providers, and the models of providers, that do not work as they should. */
  failing: Pick<ProviderRecord, 'id' | 'state' | 'reason' | 'retry_at'>[];
}

/** Most requests a minute, and most at one time, that a token can be bounded to. */
const RATE_MAX = 1_000_000;
const PID_MAX = 2 ** 32;
/** Events in one answer. The store bounds their bytes. */
const PAGE_EVENTS = 1000;

const one = v.object({ id: name() });
const keepRuns = v.nullish(flag);

/** Cancels the runs of the token of this name, or of the home, unless they are kept. */
async function cancelRuns({ runtime }: HomeCall, asked_by: string | null, keep = false) {
  return { cancelled: keep ? 0 : await runtime.runs.cancelAll(asked_by, 'token') };
}

export const daemonOperations = {
  health: operation({
    answers: 'health, with `live` and `ready`',
    access: 'any',
    method: 'health',
    call: ({ runtime }) => ({ ...runtime.health(), ...runtime.probe() }),
  }),
  'health.watch': transportOperation<HealthRecord & Probe, HealthRecord & Probe>()({
    summary: 'The health now and at each change. Changes during a write count as one.',
    answers: 'one health event now and one at each change',
    streams: true,
    access: 'any',
    grpc: { rpc: 'WatchStatus', answer: 'HealthRecord', request: {} },
  }),
  report: operation({
    summary:
      'The report: state, since when, what would make it ready, counts. ' +
      'With the token also addresses, reasons, paths and times.',
    answers: 'the whole health report',
    result: anyReport,
    access: 'any',
    method: 'report',
    http: 'GET /v1/runtime/health',
    tool: { name: 'status', says: 'The state of the daemon: since when, why, and counts.' },
    call: ({ runtime }) => runtime.report(),
  }),
  status: transportOperation<StatusRecord & { warning: string | null } & Partial<StatusMore>>()({
    summary: 'The daemon: its health, addresses and counts.',
    answers: 'state, addresses, runs, position of the log',
    access: 'any',
    method: 'status',
    grpc: { rpc: 'Status', answer: 'StatusRecord', request: {} },
  }),
  why: operation({
    answers: '`events`: the events that led to the present state',
    access: 'read',
    method: 'why',
    call: ({ runtime }) => ({ events: runtime.why() }),
  }),
  lifecycle: operation({
    summary: 'Proposes a lifecycle event, such as {"type":"stop_requested"}.',
    answers: 'the state after a lifecycle event such as `stop_requested`',
    params: lifecycleInput,
    result: lifecycleResult,
    access: 'admin',
    method: 'lifecycle',
    http: 'POST /v1/runtime/events',
    grpc: {
      rpc: 'Stop',
      answer: 'StopAnswer',
      request: {
        mode: { id: 1, says: '`drain` lets runs end, `force` does not wait. Absent: `drain`.' },
        timeout_ms: { id: 2, says: 'Milliseconds for the runs to end.' },
      },
      says: ['Stops the daemon. Answers when the stop has begun.'],
    },
    call: ({ runtime, by }, event) => runtime.lifecycle(event, by),
  }),
  stopped: operation({
    answers: 'the stop report once the daemon has stopped; null when it failed',
    access: 'admin',
    method: 'stopped',
    call: ({ runtime }): Promise<StopReport | null> => runtime.stopped(),
  }),
  usage: operation({
    summary: 'Runs, tokens and cost, by model, provider, client or day; and the budget of the day.',
    answers: 'what runs used, and what is left of the budget',
    params: v.object(usageInput),
    result: usageRecord,
    access: 'own',
    method: 'usage',
    http: 'GET /v1/usage',
    query: usageQuery,
    tool: { name: 'usage' },
    call: ({ runtime }, query) => runtime.usage(query),
  }),
  'node.list': operation({
    summary: 'Nodes of the fleet, with their leases. Empty: the daemon is not in a fleet.',
    answers: '`nodes` of the fleet, with their leases; none without a fleet',
    result: nodeList,
    access: 'any',
    method: 'nodes.list',
    http: 'GET /v1/nodes',
    grpc: { rpc: 'Nodes', answer: 'NodeList', request: {} },
    call: ({ runtime }) => runtime.nodes.list(),
  }),
  'node.drain': operation({
    summary: 'Asks a node to finish its work and stop.',
    answers: 'the node, which finishes its runs and stops',
    params: one,
    result: node,
    access: 'admin',
    method: 'nodes.drain',
    http: 'POST /v1/nodes/:id/drain',
    grpc: { rpc: 'DrainNode', answer: 'Node', request: { id: 1 } },
    call: ({ runtime }, { id }) => runtime.nodes.drain(id),
  }),
  machines: operation({
    summary: 'The machines: states, transitions, diagram, and the states of the live ones.',
    answers: 'machines, diagrams and present states',
    result: machines,
    access: 'read',
    method: 'history.machines',
    http: 'GET /v1/machines',
    call: ({ runtime }) => runtime.history.machines(),
  }),
  state: operation({
    summary:
      'The whole state: daemon, machines, runs, queue, providers, engine; ' +
      'with `?at=<seq>` as it was after that event.',
    answers:
      'the state of everything, now or after an event. Its earlier name `picture` still answers',
    params: v.object({ at: v.nullish(count) }),
    result: stateSnapshot,
    large: true,
    access: 'read',
    method: 'history.snapshot',
    http: 'GET /v1/runtime/state',
    query: atQuery,
    call: ({ runtime }, query) => runtime.history.snapshot(query),
  }),
  'log.read': operation({
    answers: '`events`; fewer than `limit` when they are large, and none after the end',
    params: v.object({ from_seq: count, limit: count }),
    large: true,
    access: 'read',
    method: 'history.readLog',
    call: async ({ runtime }, { from_seq, limit }) => ({
      events: await runtime.history.readLog(from_seq, Math.min(limit, PAGE_EVENTS)),
    }),
  }),
  'log.stream': operation({
    answers: '`events` of one stream',
    params: v.object({ stream: name(), from_version: count, limit: count }),
    large: true,
    access: 'read',
    method: 'history.readStream',
    call: async ({ runtime }, { stream, from_version, limit }) => ({
      events: await runtime.history.readStream(stream, from_version, Math.min(limit, PAGE_EVENTS)),
    }),
  }),
  console: homeOperation({
    answers: '`url` for one sign-in; `file`: a page on disk that leads there',
    params: v.object({ file: v.nullish(flag) }),
    call: async ({ runtime, home }, { file = false }) => {
      const { http } = runtime.status().addresses;
      if (http === null) throw new SvcError('not_ready', 'The daemon does not listen on HTTP yet.');
      let page: Awaited<ReturnType<typeof home.signInPage>> | null = null;
      const ticket = home.ticket(() => page?.remove());
      const reachable = http.replace(/(?<=^https?:\/\/)(0\.0\.0\.0|\[::\])(?=:)/, '127.0.0.1');
      // No server sees the fragment, and the page removes it.
      const url = `${reachable}/#ticket=${ticket}`;
      if (file) page = await home.signInPage(url);
      return { url, file: page === null ? null : page.path };
    },
  }),
  config: homeOperation({
    answers: 'settings in force, and where each comes from',
    call: ({ home }) => home.config(),
  }),
  'config.apply': homeOperation({
    summary: 'Reads the configuration file again, and applies what may change at once.',
    answers: '`applied`: settings that changed; `after_restart`: those that wait',
    result: appliedSettings,
    access: 'admin',
    http: 'POST /v1/settings/apply',
    call: ({ home }) => home.applyConfig(),
  }),
  token: homeOperation({
    answers: '`token` for the TCP listeners',
    call: ({ home }) => ({ token: home.token() }),
  }),
  'token.list': homeOperation({
    answers: '`tokens` of programs, without the tokens themselves',
    call: ({ home }) => ({ tokens: home.tokens.list() }),
  }),
  'token.create': homeOperation({
    answers: 'the token of a program; only this answer has `token` itself',
    params: v.object({
      name: name(64),
      scope: oneOf(SCOPES),
      rate: v.nullish(wholeFrom(1, RATE_MAX)),
      concurrent: v.nullish(wholeFrom(1, RATE_MAX)),
      /** The token ends with this process of the same machine. */
      process: v.nullish(v.object({ pid: wholeFrom(1, PID_MAX), process_start: v.nullable(text) })),
    }),
    call: ({ home }, { rate = null, concurrent = null, ...token }) =>
      home.tokens.create({ ...token, rate, concurrent }),
  }),
  'token.revoke': homeOperation({
    answers: 'the token that was removed; what it admitted ends',
    params: v.object({ name: name(64), keep_runs: keepRuns }),
    call: async (call, { name, keep_runs }) => ({
      ...(await call.home.tokens.revoke(name)),
      ...(await cancelRuns(call, name, keep_runs)),
    }),
  }),
  'token.rotate': homeOperation({
    answers: 'a new `token`; what the old one admitted ends',
    params: v.object({ keep_runs: keepRuns }),
    call: async (call, { keep_runs }) => ({
      token: await call.home.changeToken(),
      ...(await cancelRuns(call, null, keep_runs)),
    }),
  }),
};
