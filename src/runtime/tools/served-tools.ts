import { toolsOfServer } from '../../../machines/run/turns.ts';
import { invalidRequest } from '../../contract/check.ts';
import type { RunInput, ToolFilter, ToolNarrowing } from '../../contract/contract.ts';
import {
  boundConversation,
  checkSize,
  firstTwice,
  type InputLimits,
} from '../../contract/inputs.ts';
import type { Tool } from '../../contract/messages/parts.ts';
import { splitServers } from '../../contract/run.ts';
import { SvcError } from '../../errors.ts';
import type { ToolInfo, ToolServers } from '../../ports/tools.ts';

type Servers = Pick<ToolServers, 'tools' | 'policy'>;

/**
 * A request with the tools of the servers that it names: those that the configuration does not
 * deny. They count against the bounds of a request like tools of the client. `until`: how long it
 * waits for servers. Throws tool_unknown, mcp_unknown, mcp_unavailable, invalid_request,
 * prompt_too_large.
 */
export async function withServedTools(
  request: RunInput,
  { servers, narrowings }: { servers: Servers; narrowings: readonly ToolNarrowing[] },
  limits: InputLimits,
  until: () => AbortSignal,
): Promise<RunInput> {
  const { servers: wanted, rest: input } = splitServers(request);
  if (wanted.length === 0) return input;
  const signal = until();
  const all = await Promise.all(
    wanted.map(async (name) => {
      const narrowing = narrowings.find(({ server }) => server === name);
      return toolsOf(name, narrowing, servers, signal);
    }),
  );
  const tools: Tool[] = [...(input.tools ?? []), ...withoutDoubles(all.flat())];
  const names = tools.map(({ name }) => name);
  const twice = firstTwice(names);
  if (twice !== undefined) throw invalidRequest('tools', `Two tools have the name ${twice}.`);
  const { tool_choice } = input;
  const chosen = typeof tool_choice === 'object' ? tool_choice?.name : undefined;
  if (chosen !== undefined && !names.includes(chosen) && toolsOfServer(tools, chosen).length === 0)
    throw invalidRequest('tool_choice', `tool_choice names ${chosen}, which is no tool.`);
  const fullInput = { ...input, tools };
  boundConversation(fullInput, limits);
  checkSize(fullInput, limits);
  return fullInput;
}

/** A tool that comes twice, as with its whole server, is one. */
function withoutDoubles(tools: readonly Tool[]): Tool[] {
  return [...new Map(tools.map((tool) => [`${tool.server}/${tool.tool}`, tool])).values()];
}

/** The tools of `server`, or the one of `server/tool`. */
async function toolsOf(
  name: string,
  { allowed, unasked, asked }: Omit<ToolNarrowing, 'server'> = AS_CONFIGURED,
  servers: Servers,
  signal: AbortSignal,
): Promise<Tool[]> {
  const [server = '', ...rest] = name.split('/');
  const tools = await servers.tools(server, signal);
  const find = (wanted: string): ToolInfo => {
    const tool = tools.find((one) => one.tool === wanted);
    if (tool !== undefined) return tool;
    throw new SvcError('tool_unknown', `The server ${server} has no tool ${wanted}.`, {
      param: 'tools',
    });
  };
  if (rest.length > 0) return [toolOf(find(rest.join('/')))];
  for (const wanted of [...(allowed.tool_names ?? []), ...(allowed.except ?? [])]) find(wanted);
  return tools
    .filter((tool) => isIn(tool, allowed) && servers.policy(server, tool) !== 'deny')
    .map((tool) => {
      const ask = !isIn(tool, unasked) || isIn(tool, asked);
      return ask ? { ...toolOf(tool), ask } : toolOf(tool);
    });
}

const AS_CONFIGURED = { allowed: {}, unasked: {}, asked: null };

function isIn({ tool, read_only }: ToolInfo, wanted: ToolFilter | null): boolean {
  if (wanted === null) return false;
  const isNamed = wanted.tool_names === undefined || wanted.tool_names.includes(tool);
  if (wanted.except?.includes(tool)) return false;
  return isNamed && (wanted.read_only === undefined || wanted.read_only === read_only);
}

function toolOf(info: ToolInfo): Tool {
  const { server, tool, description, schema, read_only, idempotent, destructive } = info;
  return {
    name: servedName(server, tool),
    description,
    parameters: schema,
    server,
    tool,
    annotations: {
      readOnlyHint: read_only,
      idempotentHint: idempotent,
      destructiveHint: destructive,
    },
  };
}

/** The name for the model. The APIs of providers take letters, digits, `_` and `-`, at most 64. */
export function servedName(server: string, tool: string): string {
  return `${server}__${tool}`.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64);
}
