import type { McpServersRecord, McpServerTools } from '../contract/mcp.ts';
import type { MediaPart } from '../contract/messages/parts.ts';
import type { ToolPolicy } from '../contract/words.ts';

/** The port to tool servers. `src/tools/` implements it; only the runtime calls it. */

export interface ToolInfo {
  server: string;
  tool: string;
  /** Null: the tool has no description. A long one is cut. It is third-party text. */
  description: string | null;
  schema: Record<string, unknown>;
  read_only: boolean;
  idempotent: boolean;
  destructive: boolean;
  /** SHA-256 of description, schema and annotations, whole, and of how its server starts. */
  digest: string;
}

export interface ToolResult {
  /** Has a line for each file. */
  text: string;
  is_error: boolean;
  media?: readonly MediaPart[];
}

/** One call of a tool. `id` reaches the server. */
export interface Call {
  id: string;
  signal: AbortSignal;
  timeout_ms: number;
  /** Hears what the server says of the call while it works. */
  report?(text: string): void;
  /** Of the tool that was decided about. */
  digest?: string | null;
  /** A person allowed it. So an answer of the server that is older than a change is not enough. */
  isByPerson?: boolean;
}

export interface ToolServers {
  /** The servers that are configured and switched on. */
  names(): readonly string[];
  /**
   * The tools of a server, which is started if needed. Throws mcp_unknown, mcp_unavailable, or the
   * signal's reason.
   */
  tools(server: string, signal: AbortSignal): Promise<readonly ToolInfo[]>;
  /** Whether a call of the tool is allowed, asked about, or denied. */
  policy(server: string, tool: ToolInfo): ToolPolicy;
  /** Whether the tool was allowed, and has changed since: then `policy` is `ask`. */
  isChanged(server: string, tool: ToolInfo): boolean;
  /**
   * Allows the tool from now on, as it was with this digest; without one, as it is now. Throws
   * mcp_unknown, config_invalid, busy.
   */
  allowAlways(server: string, tool: string, digest?: string | null): Promise<void>;
  /**
   * The program or address of the server, for the person who decides. Null: there is no such
   * server.
   */
  target(server: string): string | null;
  /** What a call changes in files, as a diff. Null: it is not known, or too large. */
  changes(server: string, tool: string, args: unknown): Promise<string | null>;
  /** Whether a call may be repeated when its result is unknown. */
  mayRepeat(server: string, tool: ToolInfo): boolean;
  /**
   * Calls a tool once. The server gets `id` as `_meta["svc/call_id"]`. An error that the server
   * answers is a result. If the tool or its server no longer has this `digest`, that is a result
   * too: the server does not get the call. Throws tool_lost if the call was sent and its result is
   * unknown, mcp_unavailable if it was not sent, or the signal's reason.
   */
  call(server: string, tool: string, args: unknown, options: Call): Promise<ToolResult>;
  close(): Promise<void>;
}

/** The requests of users about the servers. The configuration is changed in `mcp.json`. */
export interface ManagedToolServers extends ToolServers {
  list(): McpServersRecord;
  /**
   * Starts the server if needed, and lists its tools. `isTest`: it does not wait for the end of a
   * backoff. Throws mcp_unknown, mcp_unavailable, or the signal's reason.
   */
  show(name: string, isTest: boolean, signal: AbortSignal): Promise<McpServerTools>;
  /** Stops it, and forgets its failures. The next call starts it. */
  stop(name: string): void;
}
