import { approvalId } from '../../../../machines/messages.ts';
import { awaitsApproval, type ToolCall } from '../../../../machines/tool-call.ts';
import { wrong } from '../../../contract/check.ts';
import { hasCode, SvcError } from '../../../errors.ts';
import type { Runtime } from '../../../runtime/port.ts';
import { CLIENT } from '../../http/run-request.ts';
import type { ResponseInput } from './input.ts';
import { runOfItem } from './items.ts';
import { type ResponseRequest, responseId } from './object.ts';
import { ALL, foldOf, requestOfResponse } from './read.ts';
import { servedId } from './served-items.ts';

/**
 * A request that ends with approval responses. The run that asked for them goes on, and the
 * response has what follows. So of the request only these responses count.
 *
 * A decision that is there already is no new one. So a client may send its request again, also one
 * whose token decides nothing, once a person has decided.
 */
export async function continuedBy(
  runtime: Pick<Runtime, 'runs' | 'approvals'>,
  { input, previous_response_id, background }: ResponseInput,
): Promise<ResponseRequest | null> {
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
  const { all, asked } = (await foldOf(runtime, { ...source, part: ALL })).served;
  const part = asked.findIndex((calls) =>
    calls.some(({ call }) => servedId('mcpr', run_id, call) === first.approval_request_id),
  );
  const wanted = asked[part]?.map(({ call }) => call) ?? [];
  const decided = answers.map((answer, index) => {
    const isOf = (call: number) => servedId('mcpr', run_id, call) === answer.approval_request_id;
    const call = all[(wanted.find(isOf) ?? 0) - 1];
    if (call === undefined) throw unknownRequest(at(index), answer);
    return { ...answer, call };
  });
  const left = wanted.filter((each) => !decided.some(({ call }) => call.call === each));
  if (left.length > 0) throw unanswered(left.map((each) => servedId('mcpr', run_id, each)));
  const asking = { ...source, part };
  if (previous_response_id != null && previous_response_id !== responseId(asking))
    throw wrong(
      'previous_response_id',
      `previous_response_id must be ${responseId(asking)}: that response has the requests.`,
    );
  const wasBackground = source.fields.background === true;
  if (background != null && background !== wasBackground)
    throw wrong('background', `background must be ${wasBackground}: the same run goes on.`);
  // What is denied begins nothing, so the run still waits until all is decided.
  for (const answer of decided.toSorted((a, b) => Number(a.approve) - Number(b.approve)))
    await decide(runtime, run_id, answer);
  return { ...asking, part: part + 1 };
}

/** Throws approval_decided for another decision before, and scope_insufficient. */
async function decide(
  runtime: Pick<Runtime, 'approvals'>,
  run_id: string,
  {
    call,
    approve,
    reason,
  }: { call: ToolCall; approve: boolean; reason?: string | null | undefined },
): Promise<void> {
  if (!awaitsApproval(call)) {
    if (approve === (call.state !== 'denied')) return;
    throw new SvcError('approval_decided');
  }
  const decision = approve ? 'allow' : 'deny';
  const id = approvalId(run_id, call.call);
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
  return wrong(
    `${at}.approval_request_id`,
    `${at}.approval_request_id ${shown} names no approval request of a response of svc.`,
  );
}
type Named = { approval_request_id: string };

/** Requests of a response that its client has to answer. */
export function unanswered(ids: readonly string[]): SvcError {
  return wrong(
    'input',
    `input must end with an mcp_approval_response for each of: ${ids.join(', ')}.`,
  );
}
