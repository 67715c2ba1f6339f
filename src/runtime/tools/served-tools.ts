import type { Tool } from '../../../machines/messages.ts';
import { wrong } from '../../contract/check.ts';
import type { RunInput } from '../../contract/contract.ts';
import {
  boundConversation,
  checkSize,
  firstTwice,
  type InputLimits,
} from '../../contract/inputs.ts';
import { SvcError } from '../../errors.ts';
import type { ToolInfo, ToolServers } from '../../mcp/port.ts';

type Servers = Pick<ToolServers, 'tools' | 'policy'>;

/**
 * A request with the tools of the servers that it names: those that the configuration does not
 * deny. They count against the bounds of a request like tools of the client. Throws tool_unknown,
 * mcp_unknown, mcp_unavailable, invalid_request, prompt_too_large.
 */
export async function withServedTools(
  { tool_servers, ...input }: RunInput,
  servers: Servers,
  limits: InputLimits,
  signal: AbortSignal,
): Promise<RunInput> {
  if (tool_servers == null || tool_servers.length === 0) return input;
  const all = await Promise.all(tool_servers.map((name) => toolsOf(name, servers, signal)));
  const tools = [...(input.tools ?? []), ...withoutDoubles(all.flat())];
  const names = tools.map(({ name }) => name);
  const twice = firstTwice(names);
  if (twice !== undefined) throw wrong('tool_servers', `Two tools have the name ${twice}.`);
  const { tool_choice } = input;
  if (typeof tool_choice === 'object' && !names.includes(tool_choice?.name ?? ''))
    throw wrong('tool_choice', `tool_choice names ${tool_choice?.name}, which is no tool.`);
  const whole = { ...input, tools };
  boundConversation(whole, limits);
  checkSize(whole, limits);
  return whole;
}

/** A tool that comes twice, as with its whole server, is one. */
function withoutDoubles(tools: readonly Tool[]): Tool[] {
  return [...new Map(tools.map((tool) => [`${tool.server}/${tool.tool}`, tool])).values()];
}

/** The tools of `server`, or the one of `server/tool`. */
async function toolsOf(name: string, servers: Servers, signal: AbortSignal): Promise<Tool[]> {
  const [server = '', ...rest] = name.split('/');
  const tools = await servers.tools(server, signal);
  if (rest.length === 0)
    return tools.filter((tool) => servers.policy(server, tool) !== 'deny').map(toolOf);
  const tool = tools.find((one) => one.tool === rest.join('/'));
  if (tool === undefined)
    throw new SvcError('tool_unknown', `The server ${server} has no tool ${rest.join('/')}.`, {
      param: 'tool_servers',
    });
  return [toolOf(tool)];
}

function toolOf({ server, tool, description, schema }: ToolInfo): Tool {
  return { name: nameOf(server, tool), description, parameters: schema, server, tool };
}

/** The name for the model. The APIs of providers take letters, digits, `_` and `-`, at most 64. */
function nameOf(server: string, tool: string): string {
  return `${server}__${tool}`.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64);
}
