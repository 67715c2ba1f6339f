import type {
  Metadata,
  ServerUnaryCall,
  sendUnaryData,
  UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { anySignal } from '../async/signals.ts';
import { checkWithoutNull, invalidRequest, withoutNull } from '../contract/check.ts';
import type { RunWait } from '../contract/contract.ts';
import { parseRunInput, spanOf } from '../contract/inputs.ts';
import { CLIENT_MAX } from '../contract/run.ts';
import { asSvcError, SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { rows } from '../operations/operations.ts';
import type { Runtime } from '../operations/port.ts';
import { ACCESS, type HomeCall } from '../operations/row.ts';
import type { Log } from '../ports/log.ts';
import type { NeededScope } from '../runtime/principal/principal.ts';
import { cancelWhenGone } from '../transport/cancel-when-gone.ts';
import { eventData, followWithWaits } from '../transport/stream/event-forms.ts';
import { textLength } from '../transport/stream/json-pieces.ts';
import type { UnsentBytes } from '../transport/stream/unsent-bytes.ts';
import { messageOf, RunUpdates } from './answer.ts';
import { CallStream, type Streaming } from './call-stream.ts';
import { statusOf } from './status.ts';

/** The methods of `svc.runtime.v1.Runtime`. `runtime.proto` says what they do. */
export interface RuntimeCallsOptions extends CallParts {
  limits: Limits;
  /** Aborted when the listener closes. Streams send a last update and end. */
  closing: AbortSignal;
}

const CLIENT = 'grpc';
const methods = rows.flatMap(([, row]) =>
  row.grpc === undefined ? [] : [{ ...row, ...row.grpc }],
);

/** The scope that a token needs for each method. */
export const methodScopes: Readonly<Record<string, NeededScope>> = Object.fromEntries(
  methods.map(({ rpc, access = 'admin' }) => [rpc, ACCESS[access]]),
);

export function createRuntimeCalls(options: RuntimeCallsOptions): UntypedServiceImplementation {
  const streams = streamsOf(options);
  return Object.fromEntries(
    methods.map((row) => {
      const { rpc } = row;
      const stream = streams[rpc];
      if (stream !== undefined) return [rpc, streamHandler(options, stream)];
      const answer = async (runtime: Runtime, request: object, signal: AbortSignal) => {
        const params = paramsOf(row, request);
        const call = { runtime, by: CLIENT, signal } as HomeCall;
        return messageOf(row, await (ways[rpc]?.(runtime, params) ?? row.call?.(call, params)));
      };
      return [rpc, unaryHandler(options, row.large === true, answer)];
    }),
  );
}

type Method = (typeof methods)[number];
type Way = (runtime: Runtime, params: never) => Promise<unknown>;

const health = (runtime: Runtime) => ({ ...runtime.health(), ...runtime.probe() });

/** Answers that have another form here. */
const ways: Readonly<Record<string, Way>> = {
  // The record, not its JSON.
  Get: (runtime, { id }: { id: string }) => runtime.runs.get(id),
  Models: async (runtime) => ({ models: await runtime.models.list() }),
  Status: async (runtime) => ({ ...runtime.status(), health: health(runtime) }),
};

/** Throws invalid_request. */
function paramsOf({ rpc, params }: Method, sent: object): never {
  return checkWithoutNull(params, requests[rpc]?.(sent) ?? sent) as never;
}

/** Requests that have other fields here. */
const requests: Readonly<Record<string, (request: object) => object>> = {
  List: ({ whole_texts = false, ...query }: { whole_texts?: boolean }) => ({
    ...query,
    texts: whole_texts ? 'whole' : 'short',
  }),
  Stop: (request) => ({ type: 'stop_requested', ...request }),
};

function streamsOf({
  limits,
  closing,
  log,
}: RuntimeCallsOptions): Readonly<Record<string, Parameters<typeof streamHandler>[1]>> {
  return {
    Run: async (runtime, call, stream) => {
      const request = call.request as RunRequest;
      const { detach = false } = request;
      const run = await runtime.runs.start(
        parseRunInput(runInputOf(request), limits),
        clientOf(call.metadata),
        withoutNull({
          within_ms: detach ? undefined : timeLeft(call),
          ...spanOf(call.metadata.get('traceparent')[0]),
        }),
      );
      const { over, leave } = goneSignalOf(call, stream);
      if (!detach) cancelWhenGone(runtime, run.id, over, log);
      const head = call.metadata.clone();
      for (const name of Object.keys(head.getMap())) head.remove(name);
      head.set('svc-run-id', run.id);
      call.sendMetadata(head);
      await streamRun({ runtime, closing }, stream, run.id, 0).finally(leave);
    },
    Attach: async (runtime, { request }, stream) => {
      const { id = '', from_seq = 0 } = request as { id?: string; from_seq?: number };
      const { finished, seq } = await runtime.runs.head(id);
      if (from_seq > seq + 1 && from_seq > (await runtime.runs.lastSeq()) + 1)
        throw invalidRequest('from_seq', 'The log has no such position yet.');
      if (!finished || from_seq <= seq) await streamRun({ runtime, closing }, stream, id, from_seq);
    },
    /** Changes during a write count as one. */
    WatchStatus: watchHandler(closing, async (runtime, stream, signal) => {
      while (!signal.aborted) {
        const changed = runtime.stateChanges.next(signal);
        await stream.send([health(runtime)], { size: HEALTH_BYTES, holders: 0 });
        await changed;
      }
    }),
    WatchApprovals: watchHandler(closing, async (runtime, stream, signal) => {
      for await (const changes of runtime.approvals.watch(signal))
        await stream.send([changes], { size: textLength(changes), holders: 0 });
    }),
  };
}

/** A stream that only ends when its client leaves, or with the daemon. */
function watchHandler(
  closing: AbortSignal,
  send: (runtime: Runtime, stream: CallStream, signal: AbortSignal) => Promise<void>,
) {
  return async (runtime: Runtime, _: Streaming, stream: CallStream): Promise<void> => {
    await send(runtime, stream, anySignal([stream.over, closing]));
    if (!stream.over.aborted) throw new SvcError('daemon_stopping', STOPS);
  };
}

/** Sends the run from a position to its end. Throws the error of a run that does not complete. */
async function streamRun(
  { runtime, closing }: { runtime: Runtime; closing: AbortSignal },
  stream: CallStream,
  id: string,
  from_seq: number,
): Promise<void> {
  const updates = new RunUpdates();
  const signal = anySignal([stream.over, closing]);
  const report = (wait: RunWait) => stream.offer(wait);
  const following = { form: eventData, from_seq, signal, ready: () => stream.reserve() };
  for await (const { page, events } of followWithWaits(runtime, id, following, report)) {
    const { body } = page;
    const messages = events.map((event) => updates.updateOf(body.storedOf(event)));
    await stream.send(messages, body);
  }
  const { outcome: ended } = updates;
  if (ended?.error) throw ended.error;
  if (ended === null && !stream.over.aborted)
    throw new SvcError('daemon_stopping', `${STOPS} Continue with Attach after its next start.`);
}

/**
 * Aborted when the client leaves before the run has ended. At its deadline the run ends by its own
 * time limit, which says more than a cancel.
 */
function goneSignalOf(call: Streaming, { over }: CallStream) {
  const gone = new AbortController();
  const look = () => {
    if ((timeLeft(call) ?? Number.POSITIVE_INFINITY) > DEADLINE_SLACK_MS) gone.abort();
  };
  if (over.aborted) look();
  else over.addEventListener('abort', look);
  return { over: gone.signal, leave: () => over.removeEventListener('abort', look) };
}

/** Milliseconds until the deadline of a call; undefined without one. */
function timeLeft(call: Streaming): number | undefined {
  const left = Number(call.getDeadline()) - Date.now();
  return Number.isFinite(left) ? Math.max(1, left) : undefined;
}

/** The client's name for fair queueing. */
function clientOf(metadata: Metadata): string {
  const [named = ''] = metadata.get('user-agent').map(String);
  const name = named
    .replace(/[^\x20-\x7e]/g, '')
    .slice(0, CLIENT_MAX)
    .trim();
  return name === '' ? CLIENT : name;
}

const STOPS = 'The daemon stops.';
/** A client that ends the call at its deadline may be a little early. */
const DEADLINE_SLACK_MS = 1000;
/** A message about health is shorter. */
const HEALTH_BYTES = 4096;

type Fields = Readonly<Record<string, unknown>>;

interface RunRequest extends Fields {
  messages?: readonly { role?: string; content?: readonly Fields[] }[];
  tools?: readonly Fields[];
  tool_choice?: { mode?: string; name?: string };
  response_format?: Fields;
  model?: string;
  more_models?: readonly string[];
  detach?: boolean;
}

/**
 * A request as the run contract has it. Nothing is checked here that the contract checks. Fields
 * that the client did not set are absent.
 */
function runInputOf(request: RunRequest): object {
  const { detach: _, messages, tools, tool_choice, response_format, ...others } = request;
  const { model, more_models = [], ...rest } = others;
  const models = model === undefined ? more_models : [model, ...more_models];
  return {
    ...rest,
    ...(models.length === 0 ? {} : { model: models.length === 1 ? models[0] : models }),
    ...(messages === undefined ? {} : { messages: messages.map(saidMessage) }),
    ...(tools === undefined ? {} : { tools: tools.map(toolOf) }),
    ...(tool_choice === undefined ? {} : { tool_choice: choiceOf(tool_choice) }),
    ...(response_format === undefined
      ? {}
      : { response_format: withJson(response_format, 'schema', 'response_format') }),
  };
}

function saidMessage({ role = '', content = [] }: { role?: string; content?: readonly Fields[] }) {
  return { role, content: content.map(partOf) };
}

/** The one field that is set says what the part is. */
function partOf(part: Fields): object {
  const [type, value] = Object.entries(part)[0] ?? [];
  switch (type) {
    case 'text':
    case 'reasoning':
    case 'refusal':
      return { type, text: value };
    case 'image':
    case 'audio': {
      const { data, ...rest } = value as { data?: Buffer };
      return { type, media_type: '', ...rest, data: (data ?? Buffer.alloc(0)).toString('base64') };
    }
    case 'tool_call':
      return { type, id: '', name: '', arguments: '', ...(value as object) };
    case 'tool_result':
      return { type, id: '', text: '', ...(value as object) };
    default:
      return {};
  }
}

function toolOf(tool: Fields, index: number): object {
  return withJson({ name: '', ...tool }, 'parameters', `tools.${index}`);
}

function choiceOf({ mode, name }: { mode?: string; name?: string }): unknown {
  return name === undefined ? (mode ?? '') : { name };
}

/** The fields with the value of `<field>_json` as `field`. */
function withJson(fields: Fields, field: string, at: string): object {
  const { [`${field}_json`]: text, ...rest } = fields;
  if (text === undefined) return rest;
  const param = `${at}.${field}_json`;
  try {
    return { ...rest, [field]: JSON.parse(text as string) };
  } catch {
    throw invalidRequest(param, `${param} is not JSON.`);
  }
}

/** The dependencies of all answers. An error of an answer becomes the status of its call. */
interface CallParts {
  /** What the client of a call may see and change. */
  runtimeOf(metadata: Metadata): Runtime;
  log: Log;
  unsent: UnsentBytes;
  /** Closes the connection of a peer. */
  cut(peer: string): void;
}

type Unary<Q> = ServerUnaryCall<Q, object>;

/**
 * Answers a call with one message, whose bytes count until the client has them. `large`: it reads
 * texts of runs, and only a few such answers are made at one time.
 */
function unaryHandler<Q>(
  { log, unsent, cut, runtimeOf }: CallParts,
  large: boolean,
  answer: (runtime: Runtime, request: Q, over: AbortSignal) => Promise<object>,
) {
  return async (call: Unary<Q>, reply: sendUnaryData<object>): Promise<void> => {
    const outflow = unsent.enter(() => cut(call.getPeer()));
    const over = new AbortController();
    const end = () => {
      outflow.leave();
      over.abort(new SvcError('connection_lost'));
    };
    if (call.cancelled) return end();
    call.once('cancelled', end);
    const make = async () => {
      if (call.cancelled) return {};
      const value = await answer(runtimeOf(call.metadata), call.request, over.signal);
      outflow.setOwnBytes(textLength(value));
      return value;
    };
    try {
      reply(null, await (large ? unsent.makeWhole(make) : make()));
    } catch (thrown) {
      reply(toFailedStatus(thrown, log));
    }
  };
}

/** Answers a call with a stream, which ends when `answer` does. */
function streamHandler(
  { log, unsent, cut, runtimeOf }: CallParts,
  answer: (runtime: Runtime, call: Streaming, stream: CallStream) => Promise<void>,
) {
  return async (call: Streaming): Promise<void> => {
    try {
      const stream = new CallStream(call, unsent, () => cut(call.getPeer()));
      await answer(runtimeOf(call.metadata), call, stream);
      call.end();
    } catch (thrown) {
      call.emit('error', toFailedStatus(thrown, log));
    }
  };
}

function toFailedStatus(thrown: unknown, log: Log): ReturnType<typeof statusOf> {
  const error = asSvcError(thrown);
  if (error.code === 'internal') log.error({ err: error.cause ?? error }, 'a gRPC call failed');
  return statusOf(error);
}
