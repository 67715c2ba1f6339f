import { Client } from '@modelcontextprotocol/client';
import type { McpServerInfo } from '../../machines/mcp-server.ts';
import { anySignal } from '../async/signals.ts';
import { TIMER_MAX_MS, timeoutSignal } from '../async/timers.ts';
import { asRecord } from '../json.ts';
import type { Limits } from '../limits.ts';
import { oneLine } from '../logs/plain.ts';
import type { Log } from '../ports/log.ts';
import type { Call } from '../ports/tools.ts';
import { nearFetch } from './bounded-fetch.ts';
import { ChildTransport, type Exit } from './child-transport.ts';
import { BadAnswer, HttpTransport } from './http-transport.ts';
import type { Launch } from './launch.ts';
import type { Login } from './login.ts';
import { type Excess, MessageGate } from './message-gate.ts';
import { Reports } from './reports.ts';
import { anyResult } from './result.ts';
import { refusalOf } from './server-requests.ts';
import { type ToolList, ToolLister } from './tool-list.ts';

export interface SessionOptions {
  name: string;
  version: string;
  launch: Launch;
  /** Null: the server is a process, or the configuration has its token. */
  login: Login | null;
  limits: Limits;
  log: Log;
  /** The server reports that its tools have changed. */
  onToolsChanged(): void;
}

interface Ends {
  /** The process has exited. */
  onExit(exit: Exit): void;
  /** A server over HTTP exceeds a bound. */
  onExcess(excess: Excess): void;
  /** An error that no caller hears of. */
  onError(error: Error): void;
}

/**
 * One session with a tool server, with the official client. It speaks the protocol that starts with
 * `initialize`: every server knows it. Its methods throw the errors of the client.
 */
export class Session {
  /** The tools as they were listed last. */
  tools: ToolList = { tools: [], left_out: [] };
  readonly child: ChildTransport | null;
  private readonly http: HttpTransport | null;
  private readonly client: Client;
  private readonly options: SessionOptions;
  private readonly reports = new Reports();

  constructor(options: SessionOptions, { onExit, onExcess, onError }: Ends) {
    const { name, version, launch, login, limits, log } = options;
    this.options = options;
    const gate = new MessageGate(limits);
    // No capabilities: a server cannot ask for a model, for a person, or for folders.
    this.client = new Client({ name: 'svc', version }, { capabilities: {} });
    this.client.onerror = onError;
    this.client.setNotificationHandler('notifications/tools/list_changed', () =>
      options.onToolsChanged(),
    );
    this.client.setNotificationHandler('notifications/progress', ANY, (params) =>
      this.reports.takeProgress(params),
    );
    this.client.setNotificationHandler('notifications/message', ANY, (params) =>
      this.reports.takeMessage(params),
    );
    this.client.fallbackRequestHandler = async ({ method }) => {
      const refusal = refusalOf(method);
      // The person who looks at the run sees why the tool fails.
      this.reports.takeMessage({ level: 'refused', data: refusal.message });
      throw refusal;
    };
    const { command, url, headers } = launch;
    const fetch = nearFetch();
    const shared = { gate, limits };
    this.child =
      command === null
        ? null
        : new ChildTransport({ ...shared, name, launch: { ...launch, command }, log, onExit });
    this.http =
      command !== null
        ? null
        : new HttpTransport({
            ...shared,
            url: new URL(url ?? ''),
            headers,
            fetch: login?.wrapFetch(fetch) ?? fetch,
            onExcess,
          });
  }

  /** Begins it, and lists the tools. */
  async open(signal: AbortSignal): Promise<ToolList> {
    const transport = this.child ?? (this.http as HttpTransport);
    await this.client.connect(
      transport,
      toRequestOptions(this.options.limits.mcp_start_ms, signal),
    );
    return this.list(signal);
  }

  async list(signal: AbortSignal): Promise<ToolList> {
    const { name, limits } = this.options;
    const lister = new ToolLister(name, limits);
    const cursors = new Set<unknown>();
    let cursor: unknown;
    // Pages without a tool are bounded too.
    for (let page = 0; page < limits.mcp_tools && this.hasTools && !lister.isFull; page += 1) {
      const listed = await this.client.request(
        { method: 'tools/list', params: typeof cursor === 'string' ? { cursor } : {} },
        anyResult,
        toRequestOptions(limits.mcp_start_ms, signal),
      );
      const { tools, nextCursor } = asRecord(listed);
      if (tools != null && !Array.isArray(tools))
        throw new BadAnswer('lists its tools in a wrong form');
      for (const tool of tools ?? []) lister.add(tool);
      cursor = nextCursor;
      // A cursor that comes again leads to a page that is known.
      if (typeof cursor !== 'string' || cursor === '' || cursors.has(cursor)) break;
      cursors.add(cursor);
    }
    this.tools = lister.list;
    return this.tools;
  }

  /** The result, as it came. */
  async call(tool: string, args: unknown, call: Call): Promise<unknown> {
    const { id, signal, timeout_ms, report = () => {} } = call;
    const _meta = { 'svc/call_id': id, progressToken: id };
    const params = { name: tool, arguments: asRecord(args), _meta };
    const options = toRequestOptions(timeout_ms, signal);
    const end = this.reports.begin(id, report);
    try {
      return await this.client.request({ method: 'tools/call', params }, anyResult, options);
    } finally {
      end();
    }
  }

  info({ tools, left_out }: ToolList): McpServerInfo {
    const { name, version } = this.client.getServerVersion() ?? {};
    const said = oneLine([name, version].filter(Boolean).join(' ')).slice(0, SAID_MAX);
    return {
      pid: this.child?.pid ?? null,
      server: said === '' ? null : said,
      protocol: this.client.getNegotiatedProtocolVersion()?.slice(0, SAID_MAX) ?? null,
      tools: tools.length,
      left_out: left_out.length,
    };
  }

  /** Ends a session over HTTP, also at the server. */
  leave(): void {
    const gone = this.http?.leave().catch(() => {}) ?? Promise.resolve();
    void gone.then(() => this.close());
  }

  close(): void {
    this.client.close().catch(() => {});
  }

  private get hasTools(): boolean {
    return this.client.getServerCapabilities()?.tools !== undefined;
  }
}

/** The client of MCP would count the time in which svc was stopped. */
function toRequestOptions(ms: number, signal: AbortSignal) {
  return { signal: anySignal([signal, timeoutSignal(ms)]), timeout: TIMER_MAX_MS };
}

/** A field of another form than that of MCP hides no words of the server. */
const ANY = { params: anyResult };
const SAID_MAX = 200;
