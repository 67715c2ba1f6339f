import type { ErrorBody } from '../../errors.ts';

/**
 * The local socket: one JSON object a line, each way. The file mode of the socket is the authentication.
 *
 * A request is `{id, method, params}`. Its answer is any number of `{id, event}` lines and then one of `{id, result}` or
 * `{id, error}`. Several requests may be open on one connection; `{id, cancel: true}` gives one up. A connection that
 * closes gives up all of its own requests (a run goes on; it can be attached again).
 *
 * A connection that begins with a capital letter speaks HTTP: every route of the HTTP listener answers there, with no token.
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

/** Methods, their parameters and results; those marked stream send events first. */
export type Method =
  | 'health' // {} -> HealthRecord with {live, ready}
  | 'health.watch' // {} stream of HealthRecord, one now and one at each change
  | 'report' // {} -> ReportRecord
  | 'status' // {} -> StatusRecord
  | 'why' // {} -> {events: EventRecord[]}
  | 'lifecycle' // {type, mode?, timeout_ms?} -> LifecycleResult
  | 'stopped' // {} -> StopReport once the daemon has stopped, null when it failed
  | 'run.start' // RunInput & {stream?: boolean} -> RunRecord; stream: first {run: RunRecord}, then EventRecords and, while it waits, {queue_position}; result is the final RunRecord
  | 'run.follow' // {id, from_seq?} stream of EventRecords and {queue_position}, result is the RunRecord
  | 'run.cancel' // {id} -> RunRecord
  | 'run.get' // {id} -> RunRecord
  | 'run.list' // {limit?, before?, state?, provider?, texts?: 'short'} -> RunPage
  | 'model.list' // {} -> {models: ModelRecord[]}
  | 'model.show' // {id} -> ModelRecord & {metadata, metadata_left_out}
  | 'model.remove' // {id} -> ModelRecord
  | 'model.pull' // {reference, name?, sha256?} stream of PullRecord, one now and one at each change, result is the ModelRecord
  | 'model.pull_cancel' // {id} -> {cancelled}: false when others wait for the same pull
  | 'provider.list' // {} -> {providers: ProviderRecord[]}
  | 'provider.add' // ProviderInput -> ProviderRecord
  | 'provider.remove' // {id} -> ProviderRecord
  | 'provider.test' // {id} -> ProviderRecord
  | 'machines' // {} -> MachinesRecord
  | 'picture' // {at?} -> PictureRecord, now or after the event at that position
  | 'log.read' // {from_seq, limit} -> {events: StoredEvent[]}: fewer than `limit` when they are large, none after the end
  | 'log.stream' // {stream, from_version, limit} -> {events: StoredEvent[]}, of one stream
  | 'console' // {file?} -> {url, file} of the console, good for one sign-in; file: a page on disk that leads there, where it was asked for
  | 'config' // {} -> what the daemon runs with, values and sources
  | 'token' // {} -> {token}: the way for the command line to the TCP listeners
  | 'token.rotate'; // {} -> {token}: a new one; what the old one let in ends

/** What the runtime file holds: who runs and where it listens. It is there while a daemon lives and after one that died. */
export interface RuntimeFile {
  pid: number;
  /** Start time of the process as the system tells it, so that a pid used again is not taken for the daemon; null where it cannot be told. */
  process_start: string | null;
  boot_id: string;
  version: string;
  started_at: string;
  program: string;
  node: string;
  addresses: { http: string | null; grpc: string | null; socket: string | null };
}
