import {
  Client,
  InsufficientScopeError,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import type { Failure } from '../../machines/events.ts';
import type { McpServerInfo } from '../../machines/mcp-server.ts';
import { SvcError } from '../errors.ts';
import { asRecord } from '../json.ts';
import type { Log } from '../kernel/port.ts';
import type { Limits } from '../limits.ts';
import { oneLine } from '../logs/plain.ts';
import { boundedFetch } from './bounded-fetch.ts';
import { ChildTransport, type Exit, NotSent } from './child-transport.ts';
import { type Launch, withoutSecrets } from './launch.ts';
import type { Login } from './login.ts';
import type { Call, ToolResult } from './port.ts';
import { anyResult, resultOf } from './result.ts';
import { cutBytes, type ToolList, ToolLister } from './tool-list.ts';

export interface ConnectionOptions {
  name: string;
  version: string;
  launch: Launch;
  /** Null: the server is a process, or the configuration has its token. */
  login: Login | null;
  limits: Limits;
  log: Log;
  /** Called once, when the process has exited or the session is over. */
  onEnd(end: { exit_code: number | null; signal: string | null; error?: Failure }): void;
  /** The server says that its tools are others now. */
  onToolsChanged(): void;
}

/**
 * One connection to a server of tools, with the official client. It speaks the protocol that starts
 * with `initialize`: every server knows it.
 */
export class Connection {
  private readonly options: ConnectionOptions;
  private readonly client: Client;
  private readonly child: ChildTransport | null;
  private isOver = false;

  constructor(options: ConnectionOptions) {
    const { name, version, launch, limits, log } = options;
    this.options = options;
    // No capabilities: a server cannot ask for a model, for a person, or for folders.
    this.client = new Client({ name: 'svc', version }, { capabilities: {} });
    this.client.onerror = (error) =>
      log.debug({ server: name }, `an error of MCP: ${this.clean(error.message)}`);
    this.client.setNotificationHandler('notifications/tools/list_changed', () =>
      options.onToolsChanged(),
    );
    const { command } = launch;
    this.child =
      command === null
        ? null
        : new ChildTransport({
            name,
            launch: { ...launch, command },
            limits,
            log,
            onExit: (exit) => this.end(exit, this.causeOf(exit)),
          });
  }

  /** Connects, and lists the tools. Throws SvcError. */
  async open(signal: AbortSignal): Promise<ToolList> {
    const { launch, limits, login } = this.options;
    const fetch = boundedFetch(limits, (why) => this.lose(why));
    const transport =
      this.child ??
      new StreamableHTTPClientTransport(new URL(launch.url ?? ''), {
        requestInit: { headers: launch.headers },
        fetch: login?.around(fetch) ?? fetch,
        reconnectionOptions: RECONNECTION,
      });
    try {
      await this.client.connect(transport, { signal, timeout: limits.mcp_start_ms });
      return await this.list(signal);
    } catch (thrown) {
      signal.throwIfAborted();
      throw this.unavailable(thrown);
    }
  }

  async list(signal: AbortSignal): Promise<ToolList> {
    const { name, limits } = this.options;
    const lister = new ToolLister(name, limits);
    const options = { signal, timeout: limits.mcp_start_ms };
    if (this.client.getServerCapabilities()?.tools === undefined) return lister.list;
    let cursor: string | undefined;
    // Pages without a tool are bounded too.
    for (let page = 0; page < limits.mcp_tools; page += 1) {
      const params = cursor === undefined ? {} : { cursor };
      const listed = await this.client.request({ method: 'tools/list', params }, options);
      for (const tool of listed.tools) lister.add(tool);
      cursor = listed.nextCursor;
      if (cursor === undefined || lister.isFull) break;
    }
    return lister.list;
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

  /** Throws tool_lost, mcp_unavailable, or the signal's reason. */
  async call(tool: string, args: unknown, { id, signal, timeout_ms }: Call): Promise<ToolResult> {
    signal.throwIfAborted();
    if (this.isOver) throw this.unavailable(new NotSent());
    const params = { name: tool, arguments: asRecord(args), _meta: { 'svc/call_id': id } };
    try {
      const result = await this.client.request({ method: 'tools/call', params }, anyResult, {
        signal,
        timeout: timeout_ms,
      });
      return resultOf(result, this.options.limits);
    } catch (thrown) {
      signal.throwIfAborted();
      const { mcp_result_bytes } = this.options.limits;
      // The server has answered, so the result is known.
      if (ProtocolError.isInstance(thrown))
        return { text: cutBytes(thrown.message, mcp_result_bytes), is_error: true };
      if (isUnsent(thrown)) throw this.unavailable(thrown);
      throw this.lost(thrown, timeout_ms);
    }
  }

  /** Asks the server to end. */
  stop(): void {
    if (this.child !== null) {
      this.child.stop();
      return;
    }
    const transport = this.client.transport as StreamableHTTPClientTransport | undefined;
    const gone = transport?.terminateSession().catch(() => {}) ?? Promise.resolve();
    void gone.then(() => this.client.close()).catch(() => {});
    this.end({ exit_code: null, signal: null });
  }

  kill(): void {
    if (this.child !== null) {
      this.child.kill();
      return;
    }
    void this.client.close().catch(() => {});
    this.end({ exit_code: null, signal: null });
  }

  private end({ exit_code, signal }: Pick<Exit, 'exit_code' | 'signal'>, error?: Failure): void {
    if (this.isOver) return;
    this.isOver = true;
    this.options.onEnd({ exit_code, signal, ...(error === undefined ? {} : { error }) });
  }

  private causeOf({ exit_code, signal, last, ended_for }: Exit): Failure {
    const how = signal === null ? `with exit code ${exit_code}` : `by ${signal}`;
    const said = last === null ? 'It printed nothing.' : `It printed last: ${last}`;
    const isMissing = exit_code === 126 || exit_code === 127;
    const message = isMissing
      ? `The program of ${this.options.name} cannot be started. ${said}`
      : ended_for === null
        ? `The server of tools ${this.options.name} ended ${how}. ${said}`
        : `The server of tools ${this.options.name} was ended: ${ended_for}.`;
    return { code: 'mcp_unavailable', message, retryable: !isMissing };
  }

  private unavailable(thrown: unknown): SvcError {
    if (thrown instanceof SvcError) return thrown;
    const { name, login } = this.options;
    const status = statusOf(thrown);
    const isScope = InsufficientScopeError.isInstance(thrown);
    if (login !== null && (status === 401 || isScope)) {
      const error = login.refusal(isScope ? (thrown.requiredScope ?? '') : null, thrown);
      // Where only a scope is missing, the other tools still work.
      if (!isScope) this.endSession(error.summary());
      return error;
    }
    if (status === 401 || status === 403)
      return new SvcError(
        'mcp_unavailable',
        `The server of tools ${name} refuses svc (HTTP ${status}).`,
        { hint: `Give it a token: svc mcp set ${name} ${HEADER}`, retryable: false, cause: thrown },
      );
    if (status !== undefined) this.lose(`it answered HTTP ${status}`);
    return new SvcError('mcp_unavailable', `The server of tools ${name} ${this.why(thrown)}.`, {
      cause: thrown,
    });
  }

  private lost(thrown: unknown, timeout_ms: number): SvcError {
    const { name } = this.options;
    const isLate = codeOf(thrown) === SdkErrorCode.RequestTimeout;
    const why = isLate ? `did not answer within ${timeout_ms} ms` : this.why(thrown);
    // A session that broke is begun again; a server that is slow is not.
    if (!isLate && this.child === null) this.lose(why);
    return new SvcError(
      'tool_lost',
      `The tool was called, and then the server of tools ${name} ${why}. Its result is unknown.`,
      { cause: thrown },
    );
  }

  /** A session over HTTP that does not work. */
  private lose(why: string): void {
    const message = `The session with the server of tools ${this.options.name} is over: ${why}.`;
    this.endSession({ code: 'mcp_unavailable', message, retryable: true });
  }

  private endSession(error: Failure): void {
    if (this.child !== null) return;
    this.end({ exit_code: null, signal: null }, error);
    void this.client.close().catch(() => {});
  }

  private why(thrown: unknown): string {
    const code = codeOf(thrown);
    if (code === SdkErrorCode.RequestTimeout) return 'did not answer in time';
    const isGone = thrown instanceof NotSent && this.child !== null;
    if (code === SdkErrorCode.ConnectionClosed || isGone) return 'ended';
    if (code === SdkErrorCode.InvalidResult) return 'answered in a wrong form';
    if (SdkHttpError.isInstance(thrown)) return `answered HTTP ${thrown.status}`;
    const text = thrown instanceof Error ? thrown.message : String(thrown);
    return `cannot be reached: ${this.clean(text)}`;
  }

  private clean(text: string): string {
    const { launch, login } = this.options;
    const secrets = [...launch.secrets, ...(login?.secrets ?? [])];
    return oneLine(withoutSecrets(text, { secrets })).slice(0, SAID_MAX);
  }
}

const RECONNECTION = {
  maxReconnectionDelay: 10_000,
  initialReconnectionDelay: 500,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 2,
};
const HEADER = '--header "Authorization: Bearer \u0024{env:NAME}"';
const SAID_MAX = 200;

function codeOf(thrown: unknown): SdkErrorCode | null {
  return SdkError.isInstance(thrown) ? thrown.code : null;
}

/** A token without enough scopes is an error of another kind. */
function statusOf(thrown: unknown): number | undefined {
  if (InsufficientScopeError.isInstance(thrown)) return 403;
  return SdkHttpError.isInstance(thrown) ? thrown.status : undefined;
}

/** Whether the call surely did not reach the tool. */
function isUnsent(thrown: unknown): boolean {
  const status = statusOf(thrown);
  if (status !== undefined) return status >= 400 && status < 500 && status !== 408;
  for (let error = thrown; error instanceof Error; error = error.cause)
    if (error instanceof NotSent) return true;
  return false;
}
