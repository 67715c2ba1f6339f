/** What a tool server with a bomb answers else, and where its lists are. */

export const TOOL = 'fine';

export interface Asked {
  id?: number | undefined;
  method: string;
  params?: { protocolVersion?: string; _meta?: Record<string, unknown> };
}

/** A right answer. */
export function answerOf({ id, method, params }: Asked): object {
  const answer = (result: object) => ({ jsonrpc: '2.0', id, result });
  if (method === 'initialize')
    return answer({
      protocolVersion: params?.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: 'bomb', version: '1' },
    });
  if (method === 'tools/list')
    return answer({ tools: [{ name: TOOL, inputSchema: { type: 'object' } }] });
  return answer({ content: [{ type: 'text', text: 'fine' }] });
}

/** The answer to a method with these items in its list. */
export function listOf(method: string, id: unknown, items: string): string {
  const name = method === 'tools/list' ? 'tools' : 'content';
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"${name}":[${items}]}}`;
}
