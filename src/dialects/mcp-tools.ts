import * as v from 'valibot';
import { invalidRequest, withoutNull } from '../contract/check.ts';
import type { ToolFilter, ToolNarrowing } from '../contract/contract.ts';
import { firstTwice } from '../contract/inputs.ts';
import { flag, object, oneOf, text } from '../contract/vocabulary.ts';

/**
 * Tool servers in the requests of other APIs. A request names servers of the configuration. It may
 * leave out tools and ask for more approvals, and never allows a call.
 */

const CONFIGURED =
  'must be absent or empty: svc reaches only the servers of its configuration. Add the server ' +
  'with svc mcp add, and send its name.';
/** Fields with an address, or with data for the server at that address. */
export const foreign = v.nullish(v.literal('', CONFIGURED));
/** `/` would name a single tool. */
export const serverName = v.pipe(
  text,
  v.regex(/^[^/]{1,100}$/, 'must be the name of a server: svc mcp list.'),
);

const filter = object({
  tool_names: v.nullish(v.array(text, 'must be a list of names.')),
  read_only: v.nullish(flag),
});
type Filter = v.InferOutput<typeof filter> | null | undefined;

/** The tool `mcp` of OpenAI's API. */
export const mcpTool = object({
  type: v.literal('mcp'),
  server_label: serverName,
  allowed_tools: v.nullish(
    v.union([v.array(text), filter], 'must be a list of names or a filter.'),
  ),
  require_approval: v.nullish(
    v.union(
      [oneOf(['always', 'never']), object({ always: v.nullish(filter), never: v.nullish(filter) })],
      'must be always, never, or an object with filters for them.',
    ),
  ),
  /** The tools of a server have descriptions of their own. */
  server_description: v.nullish(text),
  server_url: foreign,
  connector_id: foreign,
  tunnel_id: foreign,
  headers: foreign,
  authorization: foreign,
});
export type McpTool = v.InferOutput<typeof mcpTool>;

/**
 * The servers among the tools of a run. Throws invalid_request for a server that is named twice.
 */
export function namedServers(narrowings: readonly ToolNarrowing[]): string[] {
  const names = narrowings.map(({ server }) => server);
  const twice = firstTwice(names);
  if (twice !== undefined) throw invalidRequest('tools', `tools has the server ${twice} twice.`);
  return names.map(namedTool);
}

/** A server, or `server/tool`, among the tools of a request. */
export function namedTool(name: string): string {
  return `mcp:${name}`;
}

/** As in OpenAI's API, a tool that is not named needs an approval. */
export function narrowingOf({ server_label, allowed_tools, require_approval }: McpTool) {
  const asked = require_approval ?? 'always';
  const { always = null, never = null } =
    typeof asked === 'string' ? { never: asked === 'never' ? {} : null } : asked;
  return {
    server: server_label,
    allowed: Array.isArray(allowed_tools) ? { tool_names: allowed_tools } : filterOf(allowed_tools),
    asked: always === null ? null : filterOf(always),
    unasked: never === null ? null : filterOf(never),
  } satisfies ToolNarrowing;
}

function filterOf(sent: Filter): ToolFilter {
  return withoutNull({ ...sent });
}
