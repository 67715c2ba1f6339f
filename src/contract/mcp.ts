import * as v from 'valibot';
import { flag, named, object, oneOf, text, time, whole } from './vocabulary.ts';
import { TOOL_POLICIES } from './words.ts';

/** Tool servers as users see them, without the values of variables and headers. */

const policy = oneOf(TOOL_POLICIES);

export const mcpServer = named(
  'ToolServer',
  object({
    name: text,
    /** `svc`: tools of svc itself. */
    transport: oneOf(['stdio', 'http', 'svc']),
    /**
     * `stopped`, `starting`, `ready.idle`, `ready.busy`, `stopping`, `failing`, `open`; `disabled`;
     * `invalid`: its configuration has a mistake.
     */
    state: text,
    since: v.nullable(time),
    /** Why it does not work, or did not when it was started last. */
    reason: v.nullable(text),
    /** The code of that error, such as `mcp_login_needed`. */
    code: v.nullable(text),
    /** When a failing server may be started again. Null: no wait helps, as before a login. */
    retry_at: v.nullable(time),
    /** The program, the address, or what the tools of svc may reach. */
    target: text,
    trusted: flag,
    policy: v.nullable(policy),
    /** Its tools, as it listed them last. Null: it was not started yet. */
    tools: v.nullable(whole),
    /** Tools over a bound, which no run can use. */
    left_out: whole,
    /** Its name and version, as it says. */
    server: v.nullable(text),
    protocol: v.nullable(text),
    pid: v.nullable(whole),
  }),
);
export type McpServerRecord = v.InferOutput<typeof mcpServer>;

export const mcpServers = named(
  'ToolServers',
  object({
    servers: v.array(mcpServer),
    /** Why the file cannot be read. Null: it can. */
    problem: v.nullable(text),
  }),
);
export type McpServersRecord = v.InferOutput<typeof mcpServers>;

export const mcpTool = object({
  name: text,
  description: v.nullable(text),
  schema: v.record(v.string(), v.unknown()),
  read_only: flag,
  idempotent: flag,
  destructive: flag,
  digest: text,
  /** The policy for its calls. */
  policy,
  /** The tool was allowed, and has changed since. It needs a new approval. */
  changed: flag,
});

export const mcpServerTools = named(
  'ToolServerTools',
  object({
    ...mcpServer.entries,
    /** The names of its variables and headers. */
    env: v.array(text),
    headers: v.array(text),
    tools: v.array(mcpTool),
    /** Why tools are left out. */
    problems: v.array(text),
    /** From the request to the list of its tools. */
    took_ms: whole,
  }),
);
export type McpServerTools = v.InferOutput<typeof mcpServerTools>;
