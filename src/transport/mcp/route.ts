import * as v from 'valibot';
import { named, text } from '../../contract/vocabulary.ts';
import { operations } from '../../operations/operations.ts';
import type { Operation } from '../../operations/row.ts';
import { RecordBytes } from '../../runtime/runs/record-bytes.ts';
import { createMethods, type Reply } from '../control/methods.ts';
import { sendBytes } from '../http/reply.ts';
import { type Context, route } from '../http/route.ts';
import { answerEndSignal, clientOf } from '../http/run-request.ts';
import { sendLive } from '../stream/live.ts';
import type { Perform } from './tools.ts';

/** POST /mcp: svc as an MCP server over streamable HTTP, without sessions. */
export const mcpRoute = route({
  method: 'POST',
  path: '/mcp',
  access: 'token',
  // Each tool needs what its operation needs.
  scope: 'any',
  summary: 'A message of the Model Context Protocol: svc as a tool server.',
  headers: ['Mcp-Protocol-Version'],
  body: v.looseObject({}),
  answers: { 200: [{ type: 'application/json' }, { type: 'text/event-stream' }], 202: null },
  // The listener refuses in svc's form, and the protocol in that of JSON-RPC.
  errorSchema: named('McpError', v.looseObject({ error: v.looseObject({ message: text }) })),
  answer: answerMessage,
});

async function answerMessage(context: Context<unknown, object>): Promise<void> {
  const { req, res, runtime, limits, unsent } = context;
  const parsedBody = await context.body();
  // Loaded here: no daemon needs the protocol to start.
  const [{ createMcpHandler }, { mcpServer }, { toolsOver }] = await Promise.all([
    import('@modelcontextprotocol/server'),
    import('./server.ts'),
    import('./tools.ts'),
  ]);
  const call = createMethods({ runtime, limits, home: null as never, by: clientOf(req) });
  const perform: Perform = async (name, params, { event, signal }) => {
    const slice: Reply['slice'] = async ({ page: { body }, events }) => {
      for (const one of events) await event(JSON.parse(String(body.bytesOf([one]))));
    };
    const { large, streams }: Operation = operations[name];
    const make = () => call(name, params, { signal, event, slice });
    const result = await (large && !streams ? unsent.makeWhole(make) : make());
    return result instanceof RecordBytes ? JSON.parse(String(Buffer.from(result.bytes))) : result;
  };
  const gone = answerEndSignal(context);
  const { fetch } = createMcpHandler(() =>
    mcpServer({
      version: runtime.health().version,
      tools: toolsOver(perform),
      gone,
      result_bytes: limits.mcp_result_bytes,
    }),
  );
  const headers = new Headers();
  for (const [name, value] of Object.entries(req.headers))
    if (typeof value === 'string') headers.set(name, value);
  const request = new Request('http://localhost/mcp', { method: 'POST', headers });
  const answer = await fetch(request, { parsedBody });
  const type = answer.headers.get('content-type') ?? '';
  if (!type.startsWith('text/event-stream') || answer.body === null) {
    const bytes = Buffer.from(await answer.arrayBuffer());
    if (bytes.length === 0) return void res.writeHead(answer.status).end();
    return sendBytes(res, answer.status, bytes, type);
  }
  const { body } = answer;
  const heartbeat = ': \n\n';
  await sendLive(
    context,
    { type: 'text/event-stream', run_id: null, heartbeat, begin: 'now', failure: () => '' },
    async ({ write }) => {
      for await (const bytes of body) await write(bytes);
      return null;
    },
  );
}
