import { invalidRequest } from '../../../contract/check.ts';
import { approvalId } from '../../../contract/messages/parts.ts';
import { hasCode, SvcError } from '../../../errors.ts';
import type { Runtime } from '../../../operations/port.ts';
import { CLIENT } from '../../../transport/http/run-request.ts';
import { ResponseEvents } from './events.ts';
import type { ResponseInput } from './input.ts';
import { runOfItem } from './items.ts';
import { responseId } from './object.ts';
import { ALL, foldOf, requestOfResponse } from './read.ts';
import { servedId } from './served-items.ts';

/**
 * A request that ends with approval responses. The run that asked for them continues, and the
 * response has what follows. Other items of the request have no effect.
 *
 * A repeated decision is not a new one, so a client may send its request again. Once a person has
 * decided, so may a client whose token cannot decide.
 */
export async function continueWithApprovals(
  runtime: Pick<Runtime, 'runs' | 'approvals'>,
  { input, previous_response_id, background }: ResponseInput,
): Promise<ResponseEvents | null> {
  const items = typeof input === 'string' ? [] : (input ?? []);
  const isAnswer = (item: (typeof items)[number]) => item.type === 'mcp_approval_response';
  const answers = items.slice(items.findLastIndex((item) => !isAnswer(item)) + 1).filter(isAnswer);
  const [first] = answers;
  const at = (index: number) => `input.${items.length - answers.length + index}`;
  if (first === undefined) return null;
  const run_id = runOfItem(first.approval_request_id) ?? '';
  const source = await requestOfResponse(runtime, run_id.replace(/^run_/, 'resp_')).catch(
    (error: unknown) => {
      throw hasCode(error, 'run_unknown') ? unknownRequest(at(0), first) : error;
    },
  );
  const idOf = (call: number) => servedId('mcpr', run_id, call);
  const wantedIdsOf = ({ served }: ResponseEvents) => {
    const ids = served.asked.at(-1)?.map(({ call }) => idOf(call)) ?? [];
    return ids.includes(first.approval_request_id) ? ids : [];
  };
  const all = new ResponseEvents({ ...source, part: ALL });
  const response = await foldOf(runtime, all, (now) => wantedIdsOf(now).length > 0);
  const wanted = wantedIdsOf(response);
  const { tool_calls = [] } = await runtime.runs.get(run_id);
  const decided = answers.map((answer, index) => {
    const { approval_request_id: id } = answer;
    const call = wanted.includes(id) && tool_calls.find((each) => idOf(each.call) === id);
    if (!call) throw unknownRequest(at(index), answer);
    return { ...answer, call };
  });
  const undecided = wanted.filter((id) => !decided.some(({ call }) => idOf(call.call) === id));
  if (undecided.length > 0) throw unansweredError(undecided);
  const asking = responseId({ run_id, part: response.served.asked.length - 1 });
  if (previous_response_id != null && previous_response_id !== asking)
    throw invalidRequest(
      'previous_response_id',
      `previous_response_id must be ${asking}: that response has the requests.`,
    );
  const wasBackground = source.fields.background === true;
  if (background != null && background !== wasBackground)
    throw invalidRequest(
      'background',
      `background must be ${wasBackground}: the same run continues.`,
    );
  // A denied call begins nothing, so the run still waits until all is decided.
  for (const answer of decided.toSorted((a, b) => Number(a.approve) - Number(b.approve)))
    await decide(runtime, run_id, answer);
  response.beginNext();
  return response;
}

interface Decided {
  call: { call: number; state: string };
  approve: boolean;
  reason?: string | null | undefined;
}

/** Throws approval_decided for another decision before, and scope_insufficient. */
async function decide(
  runtime: Pick<Runtime, 'approvals'>,
  run_id: string,
  { call: { call, state }, approve, reason }: Decided,
): Promise<void> {
  if (state !== 'requested') {
    if (approve === (state !== 'denied')) return;
    throw new SvcError('approval_decided');
  }
  const decision = approve ? 'allow' : 'deny';
  const id = approvalId(run_id, call);
  try {
    await runtime.approvals.decide(id, { decision, ...(reason ? { reason } : {}) }, CLIENT);
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== 'scope_insufficient') throw error;
    const hint =
      `A person decides with: svc approvals allow ${id}. Then send the same request again. Or a ` +
      'token with the scope admin sends it.';
    throw error.with({ param: 'input', hint });
  }
}

function unknownRequest(at: string, { approval_request_id: id }: Named): SvcError {
  const shown = JSON.stringify(id.slice(0, 80));
  return invalidRequest(
    `${at}.approval_request_id`,
    `${at}.approval_request_id ${shown} names no approval request of a response of svc.`,
  );
}
type Named = { approval_request_id: string };

/** Requests of a response that its client has to answer. */
export function unansweredError(ids: readonly string[]): SvcError {
  return invalidRequest(
    'input',
    `input must end with an mcp_approval_response for each of: ${ids.join(', ')}.`,
  );
}
