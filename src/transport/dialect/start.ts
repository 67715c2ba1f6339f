import { given, wrong } from '../../runtime/contract/check.ts';
import { parseRunInput } from '../../runtime/contract/inputs.ts';
import { spanOf } from '../../runtime/contract/span.ts';
import type { Asked, RunInput, RunRecord } from '../../runtime/contract.ts';
import { cancelWhenGone } from '../cancel-when-gone.ts';
import type { Context } from '../http/route.ts';
import { clientGone, clientOf, withKey } from '../http/run-request.ts';

/** How an API asked. `fields` is plain JSON: what the API needs to describe the run later. */
export interface AskedIn {
  api: string;
  fields?: Readonly<Record<string, unknown>>;
  /** The run continues when its client disconnects, whatever the headers say. */
  survives?: boolean;
  /** The conversation that the run belongs to. */
  joins?: Asked['joins'];
}

/**
 * Starts the run of a request in another API. It resolves when the run is durable, and the answer
 * has the header `X-Svc-Run-Id` from then on.
 *
 * 1. `input` has the fields of RunInput, and is checked as any request is. A field that is
 *    undefined or null counts as not given.
 * 2. The headers `Idempotency-Key` and `X-Svc-Client` mean what they mean for POST /v1/runs.
 * 3. The run is cancelled when its client disconnects. A request with an idempotency key is not:
 *    its client can ask for the same answer again. `X-Svc-On-Disconnect: cancel` or `continue`
 *    says it for any request.
 */
export async function startFor(
  context: Context,
  input: RunInput,
  { api, fields = {}, survives = false, joins }: AskedIn,
): Promise<RunRecord> {
  const { req, res, runtime, limits, log, caller } = context;
  const cancels = cancelsOnDisconnect(req.headers);
  const parsed = parseRunInput(withKey(given(input), req.headers['idempotency-key']), limits);
  const asked = { ...caller, ...spanOf(req.headers.traceparent), asked_as: { api, fields } };
  const joining = joins === undefined ? asked : { ...asked, joins };
  const run = await runtime.runs.start(parsed, clientOf(req), joining);
  if (cancels && !survives) cancelWhenGone(runtime, run.id, clientGone(context), log);
  if (!res.headersSent) res.setHeader('X-Svc-Run-Id', run.id);
  return run;
}

function cancelsOnDisconnect(headers: Context['req']['headers']): boolean {
  const wish = headers['x-svc-on-disconnect'] ?? null;
  if (wish === null) return headers['idempotency-key'] === undefined;
  if (wish === 'cancel' || wish === 'continue') return wish === 'cancel';
  throw wrong('X-Svc-On-Disconnect', 'X-Svc-On-Disconnect must be cancel or continue.');
}
