import { hasEnded, type ToolCall } from '../../../../machines/tool-call.ts';
import type { RunRequest } from '../../../contract/messages/parts.ts';
import { toolOfCall } from '../../served-calls.ts';
import type { Item } from './items.ts';

/**
 * Items of the calls that svc carries out. Their ids come from the run and the number of the call,
 * so that an approval names its call after any restart.
 */

export function servedId(
  prefix: 'mcp' | 'mcpa' | 'mcpl' | 'mcpr',
  run_id: string,
  place: number,
): string {
  return `${prefix}_${run_id.slice('run_'.length)}_${place}`;
}

interface Of {
  run_id: string;
  request: RunRequest;
}

/** The tools of each server that the model gets. */
export function listItems({ run_id, request: { tools = [] } }: Of): Item[] {
  const servers = [...new Set(tools.flatMap(({ server }) => server ?? []))];
  return servers.map((server_label, place) => ({
    type: 'mcp_list_tools',
    id: servedId('mcpl', run_id, place),
    server_label,
    tools: tools
      .filter(({ server }) => server === server_label)
      .map(({ name, tool, description, parameters, annotations = null }) => ({
        name: tool ?? name,
        description,
        input_schema: parameters,
        annotations,
      })),
    error: null,
  }));
}

export function approvalItem({ run_id, request }: Of, call: ToolCall): Item {
  const { server, tool } = toolOfCall(request, call);
  return {
    type: 'mcp_approval_request',
    id: servedId('mcpr', run_id, call.call),
    server_label: server,
    name: tool,
    arguments: call.arguments,
  };
}

/** How the approval of a call was decided. */
export function answerItem({ run_id }: Of, { call, state, reason }: ToolCall): Item {
  return {
    type: 'mcp_approval_response',
    id: servedId('mcpa', run_id, call),
    approval_request_id: servedId('mcpr', run_id, call),
    approve: state !== 'denied',
    reason,
  };
}

export function callItem({ run_id, request }: Of, call: ToolCall): Item {
  const { server, tool } = toolOfCall(request, call);
  const { is_error = false, text = '' } = call.result ?? {};
  const ended = hasEnded(call);
  const isAsked = call.approval === 'ask';
  return {
    type: 'mcp_call',
    id: servedId('mcp', run_id, call.call),
    server_label: server,
    name: tool,
    arguments: call.arguments,
    approval_request_id: isAsked ? servedId('mcpr', run_id, call.call) : null,
    output: ended && !is_error ? text : null,
    error:
      ended && is_error
        ? { type: 'mcp_tool_execution_error', content: [{ type: 'text', text }] }
        : null,
    status: ended ? endOf(call) : call.state === 'abandoned' ? 'incomplete' : 'in_progress',
  };
}

/** How a call ended, in the words of the API. */
export function endOf({ result }: ToolCall): 'completed' | 'failed' {
  return result?.is_error === true ? 'failed' : 'completed';
}
