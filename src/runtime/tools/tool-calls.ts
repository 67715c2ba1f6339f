import { isDeepStrictEqual } from 'node:util';
import type { Effects } from '../../../machines/effects.ts';
import type { NewEvent } from '../../../machines/events.ts';
import type { RunSnapshot } from '../../../machines/run/chart.ts';
import type { RunEvent } from '../../../machines/run/context.ts';
import { isServed } from '../../../machines/run/turns.ts';
import { isIn } from '../../../machines/step.ts';
import { hasEnded, type ToolCall } from '../../../machines/tool-call.ts';
import { timeoutSignal } from '../../async/timers.ts';
import { withoutNull } from '../../contract/check.ts';
import { approvalId } from '../../contract/messages/parts.ts';
import type { ToolPolicy } from '../../contract/words.ts';
import { asSvcError, hasCode, SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { type RunKey, stream } from '../../kernel/stream.ts';
import type { Limits } from '../../limits.ts';
import type { Log } from '../../ports/log.ts';
import type { ToolInfo, ToolServers } from '../../ports/tools.ts';
import type { ArgumentsJudge, Verdict } from '../judge/judge.ts';
import { Reporter } from './reporter.ts';

/** `starts`: which `run.tool_started` of the call began it. */
interface BegunCall {
  run_id: RunKey;
  call: number;
  starts: number;
  abort: AbortController;
}

export interface ToolCallsOptions {
  kernel: Kernel;
  servers: ToolServers;
  judge: ArgumentsJudge;
  limits: Pick<
    Limits,
    'tool_calls_at_once' | 'tool_ms' | 'tool_report_ms' | 'approval_ms' | 'call_losses'
  >;
  log: Log;
}

/**
 * Carries out the calls of runs. It owns the calls that work at the moment.
 *
 * 1. A call begins after the commit of `run.tool_started`, and only if this boot recorded it. It
 *    begins once for each such event, also when its result could not be recorded.
 * 2. The effect `callTools` comes after each event of a call. The machine refuses a second proposal
 *    of the same event.
 * 3. A call whose run has ended, or whose time is over, is given up.
 * 4. After `close` nothing begins and nothing is decided. The next start does both.
 */
export class ToolCalls {
  private readonly options: ToolCallsOptions;
  /** The calls that this boot began, until their runs record how they ended. */
  private readonly begun = new Map<string, BegunCall>();
  private isClosed = false;
  /** Calls whose tool is looked up at its server. */
  private readonly asking = new Set<string>();

  constructor(options: ToolCallsOptions) {
    this.options = options;
    options.kernel.subscribe({ machine: 'run' }, ({ stream: run_id, type }, snapshot) => {
      // The model needs longer for its answer than the judge for its start.
      if (type === 'run.started' && snapshot.context.request.tools?.some(isServed))
        options.judge.warmUp();
      if (this.begun.size > 0) this.forgetEnded(run_id as RunKey, snapshot);
    });
  }

  /** Resumes each call of the run that can continue. */
  go({ run_id: id }: Effects['callTools']): void {
    const run_id = stream.run(id);
    const snapshot = this.options.kernel.snapshot(run_id);
    if (this.isClosed || snapshot === undefined || !isIn(snapshot, 'calling')) return;
    let places =
      this.options.limits.tool_calls_at_once -
      snapshot.context.calls.filter(({ state }) => state === 'started').length;
    for (const call of snapshot.context.calls) {
      if (call.losses >= this.options.limits.call_losses && canBeGivenUp(call)) {
        const error = new SvcError('tool_given_up', lostText(call)).summary();
        this.propose(run_id, { type: 'run.tool_lost', call: call.call, error });
        continue;
      }
      if (call.state === 'made')
        this.runInBackground(run_id, call, () => this.request(run_id, call));
      if (call.state === 'requested' && call.approval !== 'ask')
        this.propose(run_id, decisionOf(call.call, call.approval ?? 'deny'));
      if (call.state === 'allowed' && places > 0) {
        places -= 1;
        const time_limit_at = this.options.kernel.clock.now() + this.options.limits.tool_ms;
        this.propose(run_id, { type: 'run.tool_started', call: call.call, time_limit_at });
      }
      if (call.state === 'started') this.begin(run_id, call);
    }
  }

  /**
   * Gives up all calls: the daemon stops, and has waited for them as long as it may. The next start
   * finds them without a result.
   */
  close(): void {
    this.isClosed = true;
    for (const { abort } of this.begun.values()) abort.abort();
  }

  /** Looks the tool up at its server, and records the decision about the call. */
  private async request(run_id: RunKey, made: ToolCall): Promise<void> {
    const { kernel, servers, limits } = this.options;
    const { call } = made;
    const snapshot = kernel.snapshot(run_id);
    if (snapshot === undefined) return;
    const { request, calls, attempt } = snapshot.context;
    const target = request.tools?.find(({ name, server }) => name === made.name && server);
    const deny = (reason: string) =>
      this.propose(run_id, { type: 'run.tool_denied', call, by: 'svc', reason });
    const fail = (code: string, message: string) =>
      this.propose(run_id, {
        type: 'run.failed',
        attempt,
        error: { code, message, retryable: false },
      });
    const refuse = (problem: string) => {
      const isAgain = calls.some(({ decided_by, call: of }) => decided_by === 'svc' && of < call);
      if (!isAgain) return deny(problem);
      const message = `The model called ${made.name} in a wrong way again. ${problem}`;
      return fail('tool_call_invalid', message);
    };
    if (target?.server === undefined || target.tool === undefined)
      return refuse(`There is no tool ${JSON.stringify(made.name)}.`);
    const { server, tool } = target;
    const found = await this.find(server, tool);
    if (typeof found === 'string') return deny(found);
    const policy = servers.policy(server, found);
    // A tool that is denied costs nothing: neither its schema nor its arguments are looked at.
    if (policy !== 'deny') {
      const { problem, isOfTool } = await this.judgeArguments(
        made.arguments,
        target.parameters,
        found,
      );
      if (problem !== null) return isOfTool === true ? deny(problem) : refuse(problem);
    }
    const same = calls.filter(
      (one) => hasEnded(one) && one.name === made.name && one.arguments === made.arguments,
    );
    const [first, ...others] = same.map(({ result }) => result);
    if (same.length >= SAME_MAX && others.every((one) => isDeepStrictEqual(one, first)))
      return fail(
        'tool_loop',
        `The model called ${made.name} with the same arguments ${same.length + 1} times, and ` +
          'the result was always the same.',
      );
    // A request can only ask for more.
    const approval = policy === 'allow' && target.ask === true ? 'ask' : policy;
    this.propose(run_id, {
      type: 'run.tool_requested',
      call,
      server,
      tool,
      arguments: made.arguments,
      approval,
      digest: found.digest,
      ...(servers.mayRepeat(server, found) ? { repeatable: true } : {}),
      ...(approval === 'ask'
        ? withoutNull({
            approve_until: kernel.clock.now() + limits.approval_ms,
            description: found.description,
          })
        : {}),
    });
    if (approval !== 'ask') this.propose(run_id, decisionOf(call, approval));
  }

  /** A judge that cannot work now is not the fault of the model. */
  private async judgeArguments(
    written: string,
    schema: Readonly<Record<string, unknown>>,
    { server, tool }: ToolInfo,
  ): Promise<Verdict> {
    try {
      return await this.options.judge.judge(written, { name: `${server}/${tool}`, server, schema });
    } catch (error) {
      return { problem: asSvcError(error).message, isOfTool: true };
    }
  }

  /** The tool, or the reason why the server does not have it. */
  private async find(server: string, tool: string): Promise<ToolInfo | string> {
    const { servers, limits } = this.options;
    try {
      const tools = await servers.tools(server, timeoutSignal(limits.tool_ms));
      return tools.find((one) => one.tool === tool) ?? `The server ${server} has no ${tool} now.`;
    } catch (error) {
      return asSvcError(error).message;
    }
  }

  private begin(run_id: RunKey, { call, server, tool, digest, starts, ...made }: ToolCall): void {
    const key = approvalId(run_id, call);
    const before = this.begun.get(key);
    if (before?.starts === starts || server === null || tool === null) return;
    before?.abort.abort();
    const { kernel, servers, limits, log } = this.options;
    const abort = new AbortController();
    this.begun.set(key, { run_id, call, starts, abort });
    const isByPerson = made.approval === 'ask';
    const { tool_ms: timeout_ms } = limits;
    const reporter = new Reporter(kernel.clock, limits.tool_report_ms, (text) =>
      kernel.tryAppend(run_id, { type: 'run.tool_reported', call, text }).catch(() => false),
    );
    const { take: report } = reporter;
    const options = { report, id: key, signal: abort.signal, timeout_ms, digest, isByPerson };
    servers
      .call(server, tool, JSON.parse(made.arguments || '{}'), options)
      .then(
        (answer): NewEvent<RunEvent> => ({ type: 'run.tool_finished', call, ...answer }),
        (thrown: unknown): NewEvent<RunEvent> => {
          const error = asSvcError(thrown);
          // After an unexpected error it is not known whether the call was sent.
          if (hasCode(error, 'tool_lost', 'internal'))
            return { type: 'run.tool_lost', call, error: error.summary() };
          return { type: 'run.tool_finished', call, text: error.message, is_error: true };
        },
      )
      .then((event) => {
        // Proposed in this order, so the result does not wait for the commit of the words.
        reporter.flush().catch(() => {});
        return abort.signal.aborted ? false : kernel.tryAppend(run_id, event);
      })
      .catch((error: unknown) =>
        log.error({ err: error, run_id, call }, 'the result of a tool could not be recorded'),
      );
  }

  private forgetEnded(run_id: RunKey, { status, context: { calls } }: RunSnapshot): void {
    for (const [key, begun] of this.begun) {
      if (begun.run_id !== run_id) continue;
      const isOver = status !== 'active' || calls[begun.call - 1]?.state !== 'started';
      if (!isOver) continue;
      begun.abort.abort();
      this.begun.delete(key);
    }
  }

  private runInBackground(run_id: RunKey, { call }: ToolCall, work: () => Promise<void>): void {
    const key = approvalId(run_id, call);
    if (this.asking.has(key)) return;
    this.asking.add(key);
    work()
      .catch((error: unknown) =>
        this.options.log.error({ err: error, run_id, call }, 'a call of a tool was not decided'),
      )
      .finally(() => this.asking.delete(key));
  }

  private propose(run_id: RunKey, event: NewEvent<RunEvent>): void {
    if (this.isClosed) return;
    this.options.kernel
      .tryAppend(run_id, event)
      .catch((error: unknown) =>
        this.options.log.error({ err: error, run_id }, 'an event of a tool could not be recorded'),
      );
  }
}

/** Whether the call would be worked on again now. */
function canBeGivenUp({ state }: ToolCall): boolean {
  return state === 'made' || state === 'allowed';
}

function lostText({ losses, starts, name }: ToolCall): string {
  return starts === 0
    ? `The daemon ended ${losses} times in a row before the call of ${name} was decided. ` +
        'It has not begun.'
    : `The daemon or the server ended ${losses} times in a row while ${name} worked.`;
}

/** How often a call with the same result may come before the run ends. */
const SAME_MAX = 3;

function decisionOf(call: number, approval: Exclude<ToolPolicy, 'ask'>): NewEvent<RunEvent> {
  if (approval === 'allow') return { type: 'run.tool_allowed', call, by: 'policy' };
  // A log may have a policy of a newer version: it denies.
  approval satisfies 'deny';
  const reason = 'The configuration does not allow this tool.';
  return { type: 'run.tool_denied', call, by: 'policy', reason };
}
