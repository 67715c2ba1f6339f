import { setTimeout as wait } from 'node:timers/promises';
import { ProtocolError, SdkErrorCode } from '@modelcontextprotocol/client';
import type { Failure } from '../../machines/events.ts';
import type { McpServerInfo } from '../../machines/mcp-server.ts';
import { timeoutSignal } from '../async/timers.ts';
import { SvcError } from '../errors.ts';
import { oneLine } from '../logs/plain.ts';
import type { Call, ToolResult } from '../ports/tools.ts';
import { type Exit, NotSent } from './child-transport.ts';
import { BadAnswer, HttpRefusal } from './http-transport.ts';
import { withoutSecrets } from './launch.ts';
import { Excess } from './message-gate.ts';
import { codeOf, isUnsent, pauseOf, statusOf, TOO_MANY } from './refusals.ts';
import { resultOf } from './result.ts';
import { Session, type SessionOptions } from './session.ts';
import { cutBytes, type ToolList } from './tool-list.ts';

export interface ConnectionOptions extends SessionOptions {
  /** Called once, when the process has exited or the session is over. */
  onEnd(end: { exit_code: number | null; signal: string | null; error?: Failure }): void;
}

/**
 * One connection to a tool server: its session, and the meaning of a failure. A server over HTTP
 * that has forgotten the session gets another one, and the refused request is sent again.
 */
export class Connection {
  private readonly options: ConnectionOptions;
  private session: Session;
  /** The tools that the caller knows. A session may have begun after that. */
  private known: ToolList = { tools: [], left_out: [] };
  /** The next session, while it begins. */
  private next: Promise<Session> | null = null;
  private ended_for: string | null = null;
  private isReady = false;
  private isOver = false;

  constructor(options: ConnectionOptions) {
    this.options = options;
    this.session = this.newSession();
  }

  /** Connects, and lists the tools. Throws SvcError. */
  async open(signal: AbortSignal): Promise<ToolList> {
    const until = performance.now() + this.options.limits.mcp_start_ms;
    for (;;) {
      try {
        this.known = await this.session.open(signal);
        this.isReady = true;
        return this.known;
      } catch (thrown) {
        signal.throwIfAborted();
        const pause = pauseOf(thrown);
        if (pause === null || performance.now() + pause > until)
          throw this.unavailableError(thrown);
        this.session.close();
        await wait(pause, undefined, { signal });
        this.session = this.newSession();
      }
    }
  }

  /** Throws SvcError, or the signal's reason. */
  async list(signal: AbortSignal): Promise<ToolList> {
    try {
      this.known = await this.ask((session) => session.list(signal), signal);
      return this.known;
    } catch (thrown) {
      signal.throwIfAborted();
      throw this.unavailableError(thrown);
    }
  }

  info(list: ToolList): McpServerInfo {
    return this.session.info(list);
  }

  /** Throws tool_lost, mcp_unavailable, or the signal's reason. */
  async call(tool: string, args: unknown, call: Call): Promise<ToolResult> {
    const { signal, timeout_ms } = call;
    const { limits } = this.options;
    signal.throwIfAborted();
    if (this.isOver) throw this.unavailableError(new NotSent());
    try {
      const result = await this.ask((session) => {
        if (digestIn(session.tools, tool) !== digestIn(this.known, tool))
          throw this.changedError(tool);
        return session.call(tool, args, call);
      }, signal);
      return resultOf(result, limits);
    } catch (thrown) {
      signal.throwIfAborted();
      if (thrown instanceof SvcError) throw thrown;
      // The server has answered, so the result is known.
      if (ProtocolError.isInstance(thrown))
        return { text: cutBytes(thrown.message, limits.mcp_result_bytes), is_error: true };
      if (isUnsent(thrown)) throw this.unavailableError(thrown);
      throw this.lostError(thrown, timeout_ms);
    }
  }

  /** Asks the server to end. */
  stop(): void {
    const { child } = this.session;
    if (child !== null) child.stop();
    else {
      this.session.leave();
      this.end(NO_EXIT);
    }
  }

  kill(): void {
    const { child } = this.session;
    if (child !== null) child.kill();
    else {
      this.session.close();
      this.end(NO_EXIT);
    }
  }

  /** Asks again in another session, if the server refuses because it has forgotten this one. */
  private async ask<T>(work: (session: Session) => Promise<T>, signal: AbortSignal): Promise<T> {
    const { session } = this;
    try {
      return await work(session);
    } catch (thrown) {
      if (!(thrown instanceof HttpRefusal && thrown.isSessionGone)) throw thrown;
      const aborted = new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
      signal.throwIfAborted();
      const next = await Promise.race([this.sessionAfter(session), aborted]);
      if (this.isOver) throw new NotSent();
      return work(next);
    }
  }

  /** One new session for all calls that find the old one gone. Its tools may differ. */
  private async sessionAfter(old: Session): Promise<Session> {
    if (this.session !== old) return this.session;
    this.next ??= this.beginNext(old).finally(() => {
      this.next = null;
    });
    return this.next;
  }

  private async beginNext(old: Session): Promise<Session> {
    const { name, limits, log, onToolsChanged } = this.options;
    const next = this.newSession();
    try {
      await next.open(timeoutSignal(limits.mcp_start_ms));
    } catch (thrown) {
      next.close();
      throw this.unavailableError(thrown);
    }
    log.info({ server: name }, 'a tool server forgot its session, so another one has begun');
    old.close();
    if (this.isOver) next.close();
    this.session = next;
    onToolsChanged();
    return next;
  }

  private newSession(): Session {
    const { name, log } = this.options;
    return new Session(this.options, {
      onExit: (exit) => this.end(exit, this.causeOf(exit)),
      onExcess: (excess) => this.noteExcess(excess),
      onError: ({ message }) =>
        log.debug({ server: name }, `an error of MCP: ${this.clean(message)}`),
    });
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
        ? `The tool server ${this.options.name} ended ${how}. ${said}`
        : `The tool server ${this.options.name} was ended: ${ended_for}.`;
    return { code: 'mcp_unavailable', message, retryable: !isMissing };
  }

  private unavailableError(thrown: unknown): SvcError {
    if (thrown instanceof SvcError) return thrown;
    const { name, login } = this.options;
    const status = statusOf(thrown);
    const scope = thrown instanceof HttpRefusal ? thrown.scope : null;
    if (login !== null && (status === 401 || scope !== null)) {
      const error = login.refusal(scope, thrown);
      // Where only a scope is missing, the other tools still work.
      if (scope === null) this.endSession(error.summary());
      return error;
    }
    if (status === 401 || status === 403)
      return new SvcError(
        'mcp_unavailable',
        `The tool server ${name} refuses svc (HTTP ${status}).`,
        { hint: `Give it a token: svc mcp set ${name} ${HEADER}`, retryable: false, cause: thrown },
      );
    if (thrown instanceof Excess) this.noteExcess(thrown);
    const why = this.describeFailure(thrown);
    // A server that is called too often keeps its session.
    if (status !== undefined && status !== TOO_MANY) this.lose(why);
    return new SvcError('mcp_unavailable', `The tool server ${name} ${why}.`, { cause: thrown });
  }

  private lostError(thrown: unknown, timeout_ms: number): SvcError {
    const { name } = this.options;
    if (thrown instanceof Excess) this.noteExcess(thrown);
    const isLate = codeOf(thrown) === SdkErrorCode.RequestTimeout;
    const why = isLate ? `did not answer within ${timeout_ms} ms` : this.describeFailure(thrown);
    // A session that broke is begun again; a server that is slow is not.
    if (!isLate && !(thrown instanceof BadAnswer)) this.lose(why);
    const advice = this.excess === null ? '' : ' Ask the tool for less at a time.';
    return new SvcError(
      'tool_lost',
      `The tool was called, and then the tool server ${name} ${why}. ` +
        `Its result is unknown.${advice}`,
      { cause: thrown },
    );
  }

  private changedError(tool: string): SvcError {
    return new SvcError(
      'mcp_unavailable',
      `The tool server ${this.options.name} began another session, in which ${tool} is not ` +
        'the tool that was decided about. It was not called.',
    );
  }

  /** The bound for which svc ended the session. Null: it did not. */
  private get excess(): string | null {
    return this.session.child?.excess ?? this.ended_for;
  }

  private noteExcess({ message }: Excess): void {
    this.ended_for ??= message;
    this.lose(`was ended: ${message}`);
    this.session.close();
  }

  /** A session over HTTP that does not work. */
  private lose(why: string): void {
    const message = `The session with the tool server ${this.options.name} ${why}.`;
    this.endSession({ code: 'mcp_unavailable', message, retryable: true });
  }

  /** The failure of a start says why by itself. */
  private endSession(error: Failure): void {
    if (this.session.child !== null || !this.isReady) return;
    this.end(NO_EXIT, error);
    this.session.close();
  }

  private describeFailure(thrown: unknown): string {
    const code = codeOf(thrown);
    if (code === SdkErrorCode.RequestTimeout) return 'did not answer in time';
    if (code === SdkErrorCode.ConnectionClosed)
      return this.excess === null ? 'ended' : `was ended: ${this.excess}`;
    if (code === SdkErrorCode.InvalidResult) return 'answered in a wrong form';
    if (thrown instanceof NotSent && thrown.message === '') return 'ended';
    if (thrown instanceof HttpRefusal) return this.clean(thrown.message).replace(/\.$/, '');
    if (thrown instanceof BadAnswer) return thrown.message;
    if (ProtocolError.isInstance(thrown)) return `refuses: ${this.clean(thrown.message)}`;
    if (thrown instanceof Excess) return `was ended: ${thrown.message}`;
    const text = thrown instanceof Error ? thrown.message : String(thrown);
    return `cannot be reached: ${this.clean(text)}`;
  }

  private clean(text: string): string {
    const { launch, login } = this.options;
    const secrets = [...launch.secrets, ...(login?.secrets ?? [])];
    const start = text.slice(0, CLEANED_MAX);
    return oneLine(withoutSecrets(start, { secrets })).slice(0, SAID_MAX);
  }
}

const NO_EXIT = { exit_code: null, signal: null };
const HEADER = '--header "Authorization: Bearer \u0024{env:NAME}"';
const SAID_MAX = 200;
const CLEANED_MAX = 65_536;

function digestIn({ tools }: ToolList, name: string): string | null {
  return tools.find(({ tool }) => tool === name)?.digest ?? null;
}
