import { targetName } from '../../../machines/failover.ts';
import { checkWithoutNull } from '../../contract/check.ts';
import type { RunRecord, RunWait } from '../../contract/contract.ts';
import { parseRunInput, spanOf } from '../../contract/inputs.ts';
import { SvcError } from '../../errors.ts';
import { build } from '../../home/build.ts';
import type { EventSlice } from '../../kernel/event-pages.ts';
import type { Limits } from '../../limits.ts';
import type { StatusMore } from '../../operations/daemon.ts';
import {
  type Events,
  type OperationName,
  operations,
  type Params,
  type Results,
} from '../../operations/operations.ts';
import type { Runtime } from '../../operations/port.ts';
import type { Access, HomeCall, Operation } from '../../operations/row.ts';
import type { RecordBytes } from '../../runtime/runs/record-bytes.ts';
import { cancelWhenGone } from '../cancel-when-gone.ts';
import { eventJson, type Frames, followWithWaits } from '../stream/event-forms.ts';

/** How a method sends events before its result. */
export interface Reply {
  /** Aborted when the client cancels the request or disconnects. */
  signal: AbortSignal;
  /** Resolves when the client has read enough to get more. */
  event(event: unknown): Promise<void>;
  /** The same for events of the log. */
  slice(slice: EventSlice<Frames>): Promise<void>;
}

/** Finds the method, checks its parameters and answers. Throws invalid_request. */
export type CallMethod = (method: string, params: unknown, reply: Reply) => Promise<unknown>;

export interface MethodsOptions {
  runtime: Runtime;
  limits: Limits;
  home: HomeCall['home'];
  /** The kind of client, for the log. */
  by?: string;
}

/** Earlier names of methods, which still answer. */
const RENAMED: Readonly<Record<string, OperationName>> = { picture: 'state' };

/** Here a run may be named by `last`, or by the beginning of its id. */
const NAMES_RUN: ReadonlySet<Access | undefined> = new Set(['sees run', 'changes run']);

export function findMethod(method: string): OperationName | null {
  const name = Object.hasOwn(RENAMED, method) ? RENAMED[method] : method;
  return name !== undefined && Object.hasOwn(operations, name) ? (name as OperationName) : null;
}

/** The operations of the contract as methods of the local socket. */
export function createMethods(options: MethodsOptions): CallMethod {
  const { runtime, home, by = 'command line' } = options;
  const ways = waysOf({ ...options, by });
  return async (method, params, reply) => {
    const name = findMethod(method);
    if (name === null)
      throw new SvcError(
        'invalid_request',
        `There is no method ${JSON.stringify(method.slice(0, 80))}.`,
        { param: 'method', details: { unknown: 'method' } },
      );
    const row: Operation = operations[name];
    const checked = checkWithoutNull(row.params, params);
    const values = NAMES_RUN.has(row.access)
      ? { ...checked, id: await runtime.runs.find((checked as { id: string }).id) }
      : checked;
    return row.call === undefined
      ? (ways as Ways)[name]?.(values, reply)
      : row.call({ runtime, home, by, signal: reply.signal }, values);
  };
}

type Ways = Partial<Record<OperationName, (params: unknown, reply: Reply) => Promise<unknown>>>;
/** The operations that each transport does its way. */
type Own = keyof Events | 'status';

function waysOf({ runtime, limits, home, by }: Required<MethodsOptions>) {
  const follow = async (
    id: string,
    from_seq: number,
    reply: Reply,
  ): Promise<RunRecord | RecordBytes> => {
    const following = { form: eventJson, from_seq, signal: reply.signal };
    const report = (wait: RunWait) => reply.event(wait);
    for await (const slice of followWithWaits(runtime, id, following, report))
      await reply.slice(slice);
    return runtime.runs.show(id);
  };
  return {
    'run.start': async ({ stream = false, traceparent, ...params }, reply) => {
      const input = parseRunInput(params, limits);
      const run = await runtime.runs.start(input, by, spanOf(traceparent));
      if (!stream) return run;
      if (input.cancel_on_disconnect === true) cancelWhenGone(runtime, run.id, reply.signal);
      await reply.event({ run });
      return follow(run.id, 0, reply);
    },
    'run.follow': ({ id, from_seq }, reply) => follow(id, from_seq, reply),
    /** Changes during a read count as one. */
    'health.watch': async (_, reply) => {
      const read = () => ({ ...runtime.health(), ...runtime.probe() });
      while (!reply.signal.aborted) {
        const changed = runtime.stateChanges.next(reply.signal);
        await reply.event(read());
        await changed;
      }
      return read();
    },
    'approval.watch': async (_, reply) => {
      for await (const changes of runtime.approvals.watch(reply.signal)) await reply.event(changes);
      return null;
    },
    'model.pull': async ({ reference, name = null, sha256 = null, anyway }, reply) => {
      let model: Results['model.pull'] = null;
      const input = { reference, name, sha256, ...(anyway === true ? { anyway } : {}) };
      for await (const record of runtime.pulls.pull(input, by, reply.signal)) {
        await reply.event(record);
        model = record.model;
      }
      return model;
    },
    status: async () => {
      const { keys, problem } = home.configChanges();
      return {
        ...runtime.status(),
        ...statusWork(runtime),
        warning: home.warning(),
        started_at: new Date(performance.timeOrigin).toISOString(),
        build,
        reason: runtime.health().reason,
        not_in_force: keys,
        config_problem: problem,
      };
    },
  } satisfies {
    [N in Own]: (params: Params<N>, reply: Reply) => Promise<Results[N] | RecordBytes>;
  };
}

export function statusWork({
  approvals,
  loads,
  mcp,
  providers,
}: Pick<Runtime, 'approvals' | 'loads' | 'mcp' | 'providers'>): Pick<
  StatusMore,
  'waiting' | 'models' | 'tools' | 'failing'
> {
  return {
    waiting: approvals.list().length,
    models: loads
      .list()
      .models.map(({ id, purpose, state, runs, memory_bytes, gpu, warning }) => ({
        id,
        purpose,
        state,
        runs,
        memory_bytes,
        gpu,
        ...(warning === undefined ? {} : { warning }),
      })),
    tools: mcp
      .list()
      .servers.filter(({ state, reason }) => reason !== null || !AT_REST.has(state))
      .map(({ name, state, reason, code }) => ({ name, state, reason, code })),
    failing: providers
      .list()
      .flatMap(({ id, state, reason, retry_at, faulty_models }) => [
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

/** A tool server starts when it is needed. */
const AT_REST: ReadonlySet<string> = new Set(['stopped', 'disabled']);

/** A cloud provider that was not called yet is `unknown`, which is not a fault. */
const FAILING: ReadonlySet<string> = new Set([
  'degraded',
  'unavailable',
  'rate_limited',
  'half_open',
  'unauthorised',
]);
