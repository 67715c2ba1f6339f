import * as v from 'valibot';
import type { StopReport } from '../../../machines/daemon/context.ts';
import { SCOPES } from '../../config/settings.ts';
import type { Given } from '../../contract/check.ts';
import type {
  Aliases,
  EventRecord,
  HealthRecord,
  LifecycleResult,
  LoadedModelRecord,
  LoadedRecord,
  MachinesRecord,
  ModelDetails,
  NextTurn,
  NodeList,
  NodeRecord,
  Probe,
  ProviderRecord,
  ReportRecord,
  RunPage,
  RunRecord,
  RunWait,
  SearchPage,
  StateSnapshot,
  StatusRecord,
  StoredEvent,
  UnloadedModel,
} from '../../contract/contract.ts';
import {
  lifecycleInput,
  loadInput,
  nextInput,
  providerInput,
  pullInput,
  runListInput,
  runSearchInput,
} from '../../contract/inputs.ts';
import type { AppliedSettings } from '../../contract/settings.ts';
import { type UsageRecord, usageInput } from '../../contract/usage.ts';
import { count, flag, name, oneOf, text, wholeFrom } from '../../contract/vocabulary.ts';
import type { ErrorBody } from '../../errors.ts';
import type { FoundModel } from '../../models/port.ts';
import type { ModelRecord, PartialModel } from '../../providers/port.ts';
import type { PullRecord } from '../../runtime/pulls/record.ts';
import type { RecordBytes } from '../../runtime/runs/record-bytes.ts';
import type { NamedToken } from '../auth/named-tokens.ts';
import type { StatusWork } from './status-work.ts';

/**
 * The protocol of the local socket: one JSON object a line, each way. The file mode of the socket
 * is the authentication.
 *
 * A request is `{id, method, params}`. Its answer is any number of `{id, event}` lines, then one of
 * `{id, result}` or `{id, error}`. Several requests may be open on one connection. `{id, cancel:
 * true}` cancels one. A connection that closes cancels all of its requests. Runs continue, and can
 * be attached again.
 *
 * A connection that begins with a capital letter speaks HTTP. It has every route of the HTTP
 * listener, without a token.
 */

export interface Request {
  id: number;
  method: Method;
  params: Record<string, unknown>;
}

export type Response =
  | { id: number; event: unknown }
  | { id: number; result: unknown }
  | { id: number; error: ErrorBody };

/** A method: its parameters, and the types of its result and of its events. */
interface Declared<P extends v.GenericSchema, R, E> {
  params: P;
  /** How its texts of runs are counted: as a stream of pages, or as one answer in memory. */
  counted?: 'stream' | 'whole';
  readonly types?: { result: R; event: E };
}

/** The type arguments say what the method answers. */
function answers<R, E = never>() {
  return <P extends v.GenericSchema>(
    params: P,
    counted?: 'stream' | 'whole',
  ): Declared<P, R, E> => ({ params, ...(counted === undefined ? {} : { counted }) });
}

/** Most requests a minute, and most at one time, that a token can be bounded to. */
const RATE_MAX = 1_000_000;

/** What the command line shows besides the state. A daemon of an older version does not send it. */
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
}

const none = v.object({});
const one = v.object({ id: name() });
const page = { from_seq: count, limit: count };

export const methods = {
  health: answers<HealthRecord & Probe>()(none),
  /** One record now and one at each change. */
  'health.watch': answers<HealthRecord & Probe, HealthRecord & Probe>()(none),
  report: answers<ReportRecord>()(none),
  status: answers<StatusRecord & StatusWork & { warning: string | null } & Partial<StatusMore>>()(
    none,
  ),
  why: answers<{ events: EventRecord[] }>()(none),
  lifecycle: answers<LifecycleResult>()(lifecycleInput),
  /** Answers when the daemon has stopped; null when it failed. */
  stopped: answers<StopReport | null>()(none),
  /**
   * A RunInput. With `stream`: the record, then events, positions in the queue, and how far its
   * model is loaded. The result is the final record. `traceparent` is the span of the client.
   */
  'run.start': answers<RunRecord, { run: RunRecord } | RunWait | EventRecord>()(
    v.looseObject({ stream: v.nullish(flag), traceparent: v.nullish(text) }),
  ),
  'run.follow': answers<RunRecord, RunWait | EventRecord>()(
    v.object({ id: name(), from_seq: v.nullish(count, 0) }),
    'stream',
  ),
  'run.cancel': answers<RunRecord>()(one),
  /** The whole id of a run. Each method with the id of a run takes what this one takes. */
  'run.find': answers<{ id: string }>()(one),
  /** Who would answer a run that asks so, and the conversation that it would continue. */
  'run.next': answers<NextTurn>()(v.object(nextInput)),
  /** Removes a finished run from the log. */
  'run.remove': answers<{ removed: string; trouble?: string }>()(one),
  'run.get': answers<RunRecord>()(one, 'whole'),
  'run.list': answers<RunPage>()(v.object(runListInput), 'whole'),
  /** Finished runs with these words, newest first. */
  'run.search': answers<SearchPage>()(v.object(runSearchInput)),
  'model.list': answers<{ models: ModelRecord[]; partial: PartialModel[]; folder: string }>()(none),
  usage: answers<UsageRecord>()(v.object(usageInput)),
  'model.show': answers<ModelDetails>()(one),
  'model.remove': answers<ModelRecord>()(one),
  /** Puts a file of this machine into the models folder. */
  'model.import': answers<ModelRecord>()(v.object({ path: name(4096), name: v.nullish(name()) })),
  /** Makes it the default model of the local engine. */
  'model.use': answers<ModelRecord>()(one),
  'model.aliases': answers<{ aliases: Aliases }>()(none),
  /** Without a model the alias is removed. */
  'model.alias': answers<{ aliases: Aliases }>()(
    v.object({ name: name(128), model: v.nullish(name()) }),
  ),
  /** Local models in memory. */
  'model.ps': answers<LoadedRecord>()(none),
  'model.load': answers<LoadedModelRecord>()(loadInput),
  'model.unload': answers<Partial<UnloadedModel> & { unloaded: string }>()(
    v.object({ model: name() }),
  ),
  /** The most downloaded models of the hub with these words. */
  'model.search': answers<{ models: FoundModel[] }>()(v.object({ words: name(255) })),
  /** The record now and at each change. The result is the model. */
  'model.pull': answers<ModelRecord | null, PullRecord>()(pullInput),
  /** `cancelled` is false when the pull continues for other clients. */
  'model.pull_cancel': answers<{ cancelled: boolean }>()(one),
  'provider.list': answers<{ providers: ProviderRecord[] }>()(none),
  'provider.add': answers<ProviderRecord>()(providerInput),
  /** Changes the given settings; null removes a header or an option. */
  'provider.set': answers<ProviderRecord>()(providerInput),
  /** Makes it the provider of runs that name none. */
  'provider.use': answers<ProviderRecord>()(one),
  'provider.remove': answers<ProviderRecord>()(one),
  /** The stored key changed: the daemon reads it again. The key is not in the request. */
  'provider.key': answers<ProviderRecord>()(one),
  'provider.test': answers<ProviderRecord>()(one),
  /** The daemons that share the log of this one. Empty: there are none. */
  'node.list': answers<NodeList>()(none),
  'node.drain': answers<NodeRecord>()(one),
  machines: answers<MachinesRecord>()(none),
  /** The state of the whole daemon, now or after the event at that position. */
  state: answers<StateSnapshot>()(v.object({ at: v.nullish(count) }), 'whole'),
  /** A page is shorter than `limit` when its events are large, and empty after the end. */
  'log.read': answers<{ events: StoredEvent[] }>()(v.object(page), 'whole'),
  'log.stream': answers<{ events: StoredEvent[] }>()(
    v.object({ stream: name(), from_version: count, limit: count }),
    'whole',
  ),
  /**
   * The address of the console, good for one sign-in. With `file`: a page on disk that leads there.
   */
  console: answers<{ url: string; file: string | null }>()(v.object({ file: v.nullish(flag) })),
  /** What the daemon runs with: values and sources. */
  config: answers<unknown>()(none),
  /** Reads the configuration file again: what changed now, and what changes with the next start. */
  'config.apply': answers<AppliedSettings>()(none),
  /** The token for the TCP listeners. */
  token: answers<{ token: string }>()(none),
  /** The tokens of programs, without the tokens themselves. */
  'token.list': answers<{ tokens: NamedToken[] }>()(none),
  /** The only answer with this token. */
  'token.create': answers<NamedToken & { token: string }>()(
    v.object({
      name: name(64),
      scope: oneOf(SCOPES),
      rate: v.nullish(wholeFrom(1, RATE_MAX)),
      concurrent: v.nullish(wholeFrom(1, RATE_MAX)),
    }),
  ),
  /** What the token admitted ends with it, and its runs are cancelled unless they are kept. */
  'token.revoke': answers<NamedToken & { cancelled: number }>()(
    v.object({ name: name(64), keep_runs: v.nullish(flag) }),
  ),
  /** A new token. Connections of the old one end, and the runs of the home as above. */
  'token.rotate': answers<{ token: string; cancelled: number }>()(
    v.object({ keep_runs: v.nullish(flag) }),
  ),
};

/** Earlier names of methods, which still answer. */
export const renamed: Readonly<Record<string, Method>> = { picture: 'state' };

export type Methods = typeof methods;
export type Method = keyof Methods;
export type Params<M extends Method> = Given<v.InferOutput<Methods[M]['params']>>;
type TypesOf<D> =
  D extends Declared<v.GenericSchema, infer R, infer E> ? { result: R; event: E } : never;
/** What each method answers. */
export type Results = { [M in Method]: TypesOf<Methods[M]>['result'] };
/** What each streaming method sends before its result. */
export type Events = {
  [M in Method as TypesOf<Methods[M]>['event'] extends never ? never : M]: TypesOf<
    Methods[M]
  >['event'];
};
/** A record of a run may come as bytes that clients share. */
export type Answered<M extends Method> =
  | Results[M]
  | (RunRecord extends Results[M] ? RecordBytes : never);
/** The runtime file: which daemon runs and where it listens. It stays after a crash. */
export interface RuntimeFile {
  pid: number;
  /** The start time of the process, so that a reused pid is recognised. Null if unknown. */
  process_start: string | null;
  /** Where the file was written: not in a copy of it. Daemons of older versions say nothing. */
  folder?: { path: string; device: string; inode: string };
  boot_id: string;
  version: string;
  started_at: string;
  program: string;
  node: string;
  addresses: { http: string | null; grpc: string | null; socket: string | null };
}
