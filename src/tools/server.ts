import type { McpServerEvent, McpServerSnapshot } from '../../machines/mcp-server.ts';
import type { LoginStore } from '../config/keys/port.ts';
import { type McpServerConfig, startOf } from '../config/mcp-file.ts';
import { asSvcError, fromBody, SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Log, StreamPort } from '../ports/log.ts';
import type { Call, ToolResult } from '../ports/tools.ts';
import type { ServerConnection } from './built-in-connection.ts';
import type { ConnectionOptions } from './connection.ts';
import { isAuthorized, type Launch, launchOf, type References } from './launch.ts';
import type { Login } from './login.ts';
import { digestOf, type ToolList } from './tool-list.ts';

export interface McpServerOptions {
  name: string;
  number: number;
  version: string;
  config: McpServerConfig;
  machine: StreamPort<McpServerSnapshot, McpServerEvent>;
  references: References;
  login: LoginStore;
  /** Its working folder. */
  folder: string;
  closed: readonly string[];
  limits: Limits;
  log: Log;
  now(): number;
}

type End = Parameters<ConnectionOptions['onEnd']>[0];

/** One start of the server. */
interface Attempt {
  number: number;
  ended: AbortController;
  connection: ServerConnection | null;
  list: ToolList;
  /** The server reported that its tools have changed. */
  isStale: boolean;
}

/** One tool server: it performs the effects of its machine, and appends their outcomes. */
export class McpServer {
  readonly options: McpServerOptions;
  private attempt: Attempt | null = null;
  private calls = 0;
  private login: Login | null = null;

  constructor(options: McpServerOptions) {
    this.options = options;
  }

  get snapshot(): McpServerSnapshot {
    return this.options.machine.snapshot();
  }

  /** The tools as they were listed last. */
  get list(): ToolList {
    return this.attempt?.list ?? NOTHING;
  }

  /**
   * The tools, once the server is ready. `isTest`: a person asks, so it is started at once. Throws
   * mcp_unavailable, the error of the log, or the signal's reason.
   */
  async tools(signal: AbortSignal, isTest = false): Promise<ToolList> {
    const attempt = await this.waitUntilReady(signal, isTest);
    if (attempt.isStale) await this.listAgain(attempt, signal);
    return attempt.list;
  }

  /** As `tools`, but queries the server: it may have changed them without a notification. */
  async toolsNow(signal: AbortSignal): Promise<ToolList> {
    const attempt = await this.waitUntilReady(signal);
    await this.listAgain(attempt, signal);
    return attempt.list;
  }

  /** Throws tool_lost, mcp_unavailable, the error of the log, or the signal's reason. */
  async call(tool: string, args: unknown, call: Call): Promise<ToolResult> {
    const { connection } = await this.waitUntilReady(call.signal);
    const { machine } = this.options;
    this.calls += 1;
    // While it has calls, it is not stopped for being idle.
    if (this.calls === 1) await machine.tryAppend({ type: 'mcp.call_started' });
    try {
      return await (connection as ServerConnection).call(tool, args, call);
    } catch (thrown) {
      throw thrown instanceof SvcError ? this.withServerName(thrown) : thrown;
    } finally {
      this.calls -= 1;
      // The result does not wait for its commit: a deadline of the run could pass meanwhile.
      if (this.calls === 0) machine.tryAppend({ type: 'mcp.call_finished' }).catch(() => false);
    }
  }

  /** Resolves when the server has no process. Throws the signal's reason. */
  async stop(
    reason: 'changed' | 'requested' | 'daemon_stopping',
    signal: AbortSignal,
  ): Promise<void> {
    const { machine } = this.options;
    await machine.waitFor(async (snapshot) => {
      if (snapshot.hasTag('absent')) return true;
      if (!snapshot.hasTag('leaving'))
        await machine.tryAppend({ type: 'mcp.stop_requested', reason });
      return null;
    }, signal);
  }

  /** Kills the process without the machine, for when no event can be appended. */
  close(): void {
    this.attempt?.ended.abort();
    this.attempt?.connection?.kill();
  }

  /** The effect `startToolServer`. */
  async begin(number: number): Promise<void> {
    const attempt: Attempt = {
      number,
      ended: new AbortController(),
      connection: null,
      list: NOTHING,
      isStale: false,
    };
    this.attempt = attempt;
    const { machine, log, name } = this.options;
    try {
      const connection = await this.connectionFor(attempt);
      attempt.list = this.boundToServer(await connection.open(attempt.ended.signal));
      const { left_out } = attempt.list;
      if (left_out.length > 0)
        log.warn({ server: name }, `tools are left out: ${left_out.slice(0, SHOWN).join('; ')}`);
      const info = connection.info(attempt.list);
      await machine.tryAppend({ type: 'mcp.ready', attempt: number, info });
    } catch (thrown) {
      const { code, message, retryable, hint, spec } = asSvcError(thrown, 'mcp_unavailable');
      const own = hint === spec.hint ? {} : { hint };
      const error = { code, message, retryable, ...own };
      const isTaken = await machine
        .tryAppend({ type: 'mcp.start_failed', attempt: number, error })
        .catch(() => false);
      // The server was asked to stop before it had a process.
      if (!isTaken && attempt.connection === null) this.noteEnd(attempt, NO_EXIT);
    }
  }

  /** The effect `stopToolServer`. */
  end(number: number): void {
    const { attempt } = this;
    if (attempt?.number !== number) this.noteEnd({ number }, NO_EXIT);
    else {
      attempt.ended.abort();
      attempt.connection?.stop();
    }
  }

  /** The effect `killToolServer`. */
  kill(number: number): void {
    const { attempt } = this;
    if (attempt?.number !== number) return;
    attempt.ended.abort();
    attempt.connection?.kill();
  }

  private async connectionFor(attempt: Attempt): Promise<ServerConnection> {
    const { name, version, config, references, folder, closed, limits, log } = this.options;
    const launch = await launchOf(config, references, folder);
    const shared = { name, version, limits, onEnd: (end: End) => this.noteEnd(attempt, end) };
    // Both are large, and an idle daemon does not need them.
    const make = async (): Promise<ServerConnection> => {
      if (config.built_in !== null) {
        const { builtInConnection } = await import('./built-in-connection.ts');
        return builtInConnection(config.built_in, { ...shared, closed });
      }
      const [{ Connection }, login] = await Promise.all([
        import('./connection.ts'),
        this.loginFor(launch),
      ]);
      const onToolsChanged = () => {
        attempt.isStale = true;
      };
      return new Connection({ ...shared, launch, login, log, onToolsChanged });
    };
    const connection = await make();
    attempt.ended.signal.throwIfAborted();
    attempt.connection = connection;
    return connection;
  }

  /** One for all attempts, so that no two refresh at one time. */
  private async loginFor(launch: Launch): Promise<Login | null> {
    const { name, login: store, limits, now } = this.options;
    const { url: server } = launch;
    if (server === null || isAuthorized(launch)) return null;
    const { Login } = await import('./login.ts');
    if (this.login?.server !== server) this.login = new Login({ name, server, store, limits, now });
    return this.login;
  }

  private noteEnd({ number }: Pick<Attempt, 'number'>, end: End): void {
    const { machine, log, name } = this.options;
    machine.tryAppend({ type: 'mcp.ended', attempt: number, ...end }).catch((error: unknown) => {
      log.debug({ err: error, server: name }, 'the end of a tool server is not recorded');
    });
  }

  private async listAgain(attempt: Attempt, signal: AbortSignal): Promise<void> {
    const { machine } = this.options;
    const { connection, number } = attempt;
    if (connection === null) return;
    // A change during the list makes it stale again.
    attempt.isStale = false;
    try {
      attempt.list = this.boundToServer(await connection.list(signal));
    } catch (thrown) {
      attempt.isStale = true;
      throw thrown;
    }
    const info = connection.info(attempt.list);
    await machine.tryAppend({ type: 'mcp.tools_listed', attempt: number, info });
  }

  /** Who decides about a tool decides about the program or the address that has it, too. */
  private boundToServer({ tools, left_out }: ToolList): ToolList {
    const start = startOf(this.options.config);
    const bound = tools.map((tool) => ({ ...tool, digest: digestOf([start, tool.digest]) }));
    return { tools: bound, left_out };
  }

  /** Starts the server if needed, and waits for it. */
  private async waitUntilReady(signal: AbortSignal, isTest = false): Promise<Attempt> {
    const { machine } = this.options;
    const before = this.snapshot.context.attempt;
    return machine.waitFor(async (snapshot) => {
      const { attempt, error } = snapshot.context;
      if (snapshot.hasTag('ready')) return this.attempt;
      if (!snapshot.hasTag('absent')) return null;
      const hasTried = attempt > before;
      if (hasTried && (error !== null || snapshot.hasTag('failing'))) throw this.refusal(snapshot);
      if (snapshot.hasTag('open') && !isTest) throw this.refusal(snapshot);
      // A failed server is tried again after its wait.
      if (snapshot.hasTag('failing') && !isTest) return null;
      await machine.tryAppend({ type: 'mcp.start_requested', attempt: attempt + 1 });
      return null;
    }, signal);
  }

  private refusal({ context }: McpServerSnapshot): SvcError {
    const { error, due_at } = context;
    const retryable = error?.retryable ?? true;
    // A log of another version may have an error that this one does not know.
    const { code } = fromBody({ code: 'mcp_unavailable', ...error });
    return this.withServerName(
      new SvcError(code, error?.message, {
        retryable,
        hint: error?.hint,
        ...(retryable ? { retryAfterMs: Math.max(0, due_at - this.options.now()) } : {}),
      }),
    );
  }

  /** The hints of the table, and those of parts that know no name, have a place for it. */
  private withServerName(error: SvcError): SvcError {
    return error.with({ hint: error.hint.replaceAll('<name>', this.options.name) });
  }
}

const NOTHING: ToolList = { tools: [], left_out: [] };
const NO_EXIT = { exit_code: null, signal: null };
/** Reasons in one log line. */
const SHOWN = 5;
