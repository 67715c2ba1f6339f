import { invalidRequest } from '../../../contract/check.ts';
import type { Message } from '../../../contract/messages/parts.ts';
import { hasCode, SvcError } from '../../../errors.ts';
import type { Runtime } from '../../../operations/port.ts';
import { unansweredError } from './approvals.ts';
import { keptMessages, sealSummary, summaryPart } from './compaction.ts';
import { fieldsOf, placeOfResponse } from './object.ts';
import { servedId } from './served-items.ts';
import { NO_TOOLS, type Toolbox } from './tools.ts';

/** A conversation that a request continues, and the tools that it brought along. */
export interface Earlier {
  messages: readonly Message[];
  toolbox: Toolbox;
}
export const NOTHING: Earlier = { messages: [], toolbox: NO_TOOLS };

/**
 * The conversation of an earlier response. `unstored`: also finds a response with `store: false`.
 * Throws previous_response_not_found.
 */
export async function conversationOf(
  runtime: Pick<Runtime, 'runs'>,
  id: string,
  { unstored = false } = {},
): Promise<Earlier> {
  let run_id: string;
  try {
    run_id = placeOfResponse(id).run_id;
  } catch {
    throw notFoundError(id);
  }
  const earlier = await runtime.runs.readRequest(run_id).catch((error: unknown) => {
    throw hasCode(error, 'run_unknown') ? notFoundError(id) : error;
  });
  const fields = fieldsOf(earlier.asked_as);
  if (fields === null || (fields.unstored === true && !unstored)) throw notFoundError(id);
  const { messages: all, tools = [] } = earlier.request;
  const {
    ended_at,
    state,
    turns = [],
    tool_calls = [],
    ...said
  } = await runtime.runs.answer(run_id);
  if (state === 'awaiting_approval') {
    const waiting = tool_calls.filter((call) => call.state === 'requested');
    throw unansweredError(waiting.map(({ call }) => servedId('mcpr', run_id, call)));
  }
  if (ended_at === null) throw invalidRequest(PREVIOUS, `The response ${id} has not ended yet.`);
  if (all.length === 0)
    throw invalidRequest(PREVIOUS, `The log does not keep the input of the response ${id}.`);
  const answer = said.output_parts ?? [{ type: 'text' as const, text: said.output }];
  // A turn that also calls functions of the client ends the run. svc carries out none of its calls.
  const isServed = (called: string) => tools.some((tool) => tool.name === called && tool.server);
  const content = answer.filter((part) =>
    part.type === 'tool_call' ? !isServed(part.name) : part.text !== '' || part.opaque,
  );
  const messages = all.slice(fields.instructions === true ? 1 : 0);
  const { names = {}, brought = [], strict = {} } = fields;
  const toolbox = { names, strict, tools: tools.filter(({ name }) => brought.includes(name)) };
  if (fields.compaction === true) {
    const summary: Message = {
      role: 'user',
      content: [summaryPart(sealSummary(content), PREVIOUS)],
    };
    return { toolbox, messages: [...keptMessages(messages), summary] };
  }
  const last: Message[] = content.length === 0 ? [] : [{ role: 'assistant', content }];
  return { toolbox, messages: [...messages, ...(turns as Message[]), ...last] };
}

function notFoundError(id: string): SvcError {
  const shown = JSON.stringify(id.slice(0, 80));
  return new SvcError('previous_response_not_found', `There is no response ${shown}.`, {
    param: PREVIOUS,
  });
}

const PREVIOUS = 'previous_response_id';
