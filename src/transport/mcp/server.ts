import { type CallToolResult, ProtocolError, Server } from '@modelcontextprotocol/server';
import { anySignal } from '../../async/signals.ts';
import { asSvcError } from '../../errors.ts';
import { cutBytes } from '../../tools/index.ts';
import type { OfferedTool } from './tools.ts';

export interface McpServerOptions {
  version: string;
  tools: readonly OfferedTool[];
  /** Aborted when nothing can read an answer any more. */
  gone?: AbortSignal;
  /** Longest text of one result, in bytes. */
  result_bytes: number;
}

/**
 * An MCP server for one connection, or for one request over HTTP. It owns nothing: the tools are
 * operations of the daemon. An error of an operation is a result that the model can read.
 */
export function mcpServer({ version, tools, gone, result_bytes }: McpServerOptions): Server {
  const server = new Server(
    { name: 'svc', version },
    { capabilities: { tools: {} }, instructions: INSTRUCTIONS },
  );
  server.setRequestHandler('tools/list', () => ({
    tools: tools.map(({ call: _, ...tool }) => tool),
  }));
  server.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
    const tool = tools.find(({ name }) => name === params.name);
    if (tool === undefined) throw new ProtocolError(INVALID_PARAMS, `There is no ${params.name}.`);
    const token = mcpReq._meta?.progressToken;
    const signal = gone === undefined ? mcpReq.signal : anySignal([mcpReq.signal, gone]);
    const progress = async (characters: number) => {
      if (token === undefined) return;
      const state = { progressToken: token, progress: characters };
      await mcpReq.notify({ method: 'notifications/progress', params: state });
    };
    try {
      const text = await tool.call(params.arguments, { signal, progress });
      return textResult(cutBytes(text, result_bytes));
    } catch (thrown) {
      const { message, code, hint } = asSvcError(thrown);
      return { ...textResult(`${message} (${code}) ${hint ?? ''}`.trim()), isError: true };
    }
  });
  return server;
}

const INSTRUCTIONS =
  'svc answers prompts with the models of this machine and of configured providers, and keeps a ' +
  'history of all runs.';
const INVALID_PARAMS = -32602;

function textResult(text: string): CallToolResult {
  return { content: [{ type: 'text', text }] };
}
