import { invalidRequest, withoutNull } from '../contract/check.ts';
import type { RequestSource, RunInput, RunRecord } from '../contract/contract.ts';
import { parseRunInput, spanOf } from '../contract/inputs.ts';
import { cancelWhenGone } from '../transport/cancel-when-gone.ts';
import type { Context } from '../transport/http/route.ts';
import { clientGoneSignal, clientOf, withKey } from '../transport/http/run-request.ts';

/** The API of a request. `fields`: plain JSON that the API needs to describe the run later. */
export interface ApiRequest {
  api: string;
  fields?: Readonly<Record<string, unknown>>;
  /**
   * Its place among the runs of one request. The key of each is derived from the key of the
   * request.
   */
  choice?: number;
  /** How many runs the request has. A key belongs to this number. */
  choices?: number;
  /** The client reads the answer as it comes, so the answer must not begin again. */
  streams?: boolean;
  /** The run continues when its client disconnects, whatever the headers say. */
  survives?: boolean;
  /** The conversation that the run belongs to. */
  joins?: RequestSource['joins'];
  narrowings?: RequestSource['narrowings'];
}

/** A request of another API, over HTTP or in a message of a WebSocket. */
export interface Asking extends Pick<Context, 'runtime' | 'limits' | 'log'> {
  headers: Context['req']['headers'];
  /** Aborted when the client disconnects before the answer is complete. */
  goneSignal(): AbortSignal;
}

/**
 * Starts the run of a request in another API. It resolves when the run is durable, and the answer
 * has the header `X-Svc-Run-Id` from then on.
 */
export async function startFor(
  context: Context,
  input: RunInput,
  request: ApiRequest,
): Promise<RunRecord> {
  const { headers } = context.req;
  const run = await startRun(
    { ...context, headers, goneSignal: () => clientGoneSignal(context) },
    input,
    request,
  );
  if (!context.res.headersSent && !request.choice) context.res.setHeader('X-Svc-Run-Id', run.id);
  return run;
}

/**
 * The same without an HTTP answer.
 *
 * 1. `input` has the fields of RunInput, and is checked as any request is. A field that is
 *    undefined or null counts as not given.
 * 2. The headers `Idempotency-Key` and `X-Svc-Client` mean what they mean for POST /v1/runs.
 * 3. The run is cancelled when its client disconnects. A request with an idempotency key is not:
 *    its client can ask for the same answer again. `X-Svc-On-Disconnect: cancel` or `continue`
 *    says it for any request.
 */
export async function startRun(
  { headers, goneSignal: gone, runtime, limits, log }: Asking,
  input: RunInput,
  {
    api,
    fields = {},
    choice = 0,
    choices = 1,
    streams = false,
    survives = false,
    joins,
    narrowings = [],
  }: ApiRequest,
): Promise<RunRecord> {
  const cancels = shouldCancelOnDisconnect(headers);
  const key = headers['idempotency-key'];
  const ownKey = key === undefined || choice === 0 ? key : `${key}/${choice}`;
  const parsed = parseRunInput(withKey(withoutNull(input), ownKey), limits);
  const run = await runtime.runs.start(parsed, clientOf({ headers }), {
    ...spanOf(headers.traceparent),
    asked_as: { api, fields },
    ...(choices === 1 ? {} : { choices }),
    ...(streams ? { streams } : {}),
    ...(joins === undefined ? {} : { joins }),
    ...(narrowings.length === 0 ? {} : { narrowings }),
  });
  if (cancels && !survives) cancelWhenGone(runtime, run.id, gone(), log);
  return run;
}

/** Whether the run of a request ends with its connection. Throws invalid_request. */
export function shouldCancelOnDisconnect(headers: Context['req']['headers']): boolean {
  const wish = headers['x-svc-on-disconnect'] ?? null;
  if (wish === null) return headers['idempotency-key'] === undefined;
  if (wish === 'cancel' || wish === 'continue') return wish === 'cancel';
  throw invalidRequest('X-Svc-On-Disconnect', 'X-Svc-On-Disconnect must be cancel or continue.');
}
