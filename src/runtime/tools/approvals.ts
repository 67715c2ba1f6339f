import type { RunSnapshot } from '../../../machines/run/chart.ts';
import { awaitsApproval, type ToolCall } from '../../../machines/tool-call.ts';
import { isoTime } from '../../async/clock.ts';
import { Notifier } from '../../async/notifier.ts';
import type { ApprovalChanges, ApprovalRecord, DecisionInput } from '../../contract/approvals.ts';
import { invalidRequest } from '../../contract/check.ts';
import { approvalId } from '../../contract/messages/parts.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { isRun, type RunKey } from '../../kernel/stream.ts';
import type { ToolServers } from '../../ports/tools.ts';

type Servers = Pick<ToolServers, 'allowAlways' | 'target' | 'changes'>;

/**
 * Calls that wait for a person: they need an approval, or their result is not known. It owns
 * nothing: the runs have it.
 */
export class Approvals {
  private readonly kernel: Kernel;
  private readonly servers: Servers;
  private readonly changed = new Notifier();
  /** All watchers share it until the next change. */
  private newest: Newest | null = null;

  constructor(kernel: Kernel, servers: Servers) {
    this.kernel = kernel;
    this.servers = servers;
    kernel.subscribe({ machine: 'run' }, (_, { context }) => {
      if (context.calls.length === 0) return;
      this.newest = null;
      this.changed.notify();
    });
  }

  /** The oldest first. */
  list(): ApprovalRecord[] {
    return this.listWaiting().map(({ run_id, call }) => this.record(run_id, call));
  }

  /**
   * The newest, then what changes of them, the oldest first. A slow reader gets several changes as
   * one.
   */
  async *watch(signal: AbortSignal): AsyncGenerator<ApprovalChanges, void> {
    let sent: Pick<Newest, 'versions'> & { older: number | null } = NOTHING_SENT;
    this.newest = null;
    while (!signal.aborted) {
      const changed = this.changed.next(signal);
      this.newest ??= this.findNewest();
      const { calls, versions, older } = this.newest;
      const approvals = calls
        .filter(({ id }) => versions.get(id) !== sent.versions.get(id))
        .map(({ run_id, call }) => this.record(run_id, call));
      const removed = [...sent.versions.keys()].filter((id) => !versions.has(id));
      if (approvals.length > 0 || removed.length > 0 || older !== sent.older)
        yield {
          approvals,
          ...(removed.length === 0 ? {} : { removed }),
          ...(older === 0 ? {} : { older }),
        };
      sent = { versions, older };
      await changed;
    }
  }

  /** The view of watchers: the newest calls, as many as fit. */
  private findNewest(): Newest {
    const waiting = this.listWaiting();
    const calls: Newest['calls'] = [];
    let bytes = 0;
    for (const { run_id, call } of waiting.slice(-WATCHED_MAX).reverse()) {
      bytes += call.arguments.length;
      if (calls.length > 0 && bytes > WATCHED_BYTES) break;
      calls.unshift({ id: approvalId(run_id, call.call), run_id, call });
    }
    const versionOf = ({ state, approve_until }: ToolCall) => `${state} ${approve_until}`;
    return {
      calls,
      versions: new Map(calls.map(({ id, call }) => [id, versionOf(call)])),
      older: waiting.length - calls.length,
    };
  }

  /** The calls that wait, the oldest first. */
  private listWaiting(): WaitingCall[] {
    return [...this.kernel.instances.values()]
      .flatMap(({ stream, snapshot }) =>
        isRun(stream)
          ? (snapshot as RunSnapshot).context.calls
              .filter(waits)
              .map((call) => ({ run_id: stream, call }))
          : [],
      )
      .toSorted((a, b) => sinceOf(a.call) - sinceOf(b.call));
  }

  /** With the changes that the call makes. Throws approval_unknown. */
  async get(id: string): Promise<ApprovalRecord> {
    const { run_id, call } = this.find(id);
    return this.record(run_id, call, await this.changesOf(call));
  }

  /**
   * Resolves when the decision is durable. Throws approval_unknown, invalid_request,
   * approval_decided if another decision came first, and not_ready for a run of an earlier boot
   * that is not recovered: its deadlines are still those of that boot.
   */
  async decide(
    id: string,
    { decision, reason, always, result }: Omit<DecisionInput, 'id'>,
    by: string,
  ): Promise<ApprovalRecord> {
    const { run_id, call } = this.find(id);
    if (this.kernel.instance(run_id)?.recent.at(-1)?.boot_id !== this.kernel.boot_id)
      throw new SvcError('not_ready');
    const isApproval = awaitsApproval(call);
    if (isApproval !== (decision === 'allow' || decision === 'deny'))
      throw invalidRequest(
        'decision',
        isApproval
          ? 'decision must be allow or deny: the call has not begun.'
          : 'decision must be repeat, result or skip: the call was cut off, and its result is ' +
              'not known.',
      );
    if (decision === 'result' && result == null)
      throw invalidRequest('result', 'result must have the text that the tool answered.');
    const { call: number, server, tool } = call;
    const of = { call: number, by };
    const taken = await this.kernel.tryAppend(
      run_id,
      decision === 'allow'
        ? { type: 'run.tool_allowed', ...of }
        : decision === 'deny'
          ? { type: 'run.tool_denied', ...of, reason: reason ?? 'A person denied it.' }
          : {
              type: 'run.tool_decided',
              ...of,
              decision,
              ...(decision === 'result' ? { text: result ?? '' } : {}),
            },
    );
    if (!taken) throw new SvcError('approval_decided');
    if (decision === 'allow' && always === true && server !== null && tool !== null)
      await this.servers.allowAlways(server, tool, call.digest);
    return this.record(run_id, this.callOf(run_id, number) ?? call);
  }

  private find(id: string): { run_id: RunKey; call: ToolCall } {
    const [run_id = '', number = ''] = id.split('.');
    const call = isRun(run_id) ? this.callOf(run_id, Number(number)) : undefined;
    if (!isRun(run_id) || call === undefined || call.state === 'made')
      throw new SvcError('approval_unknown', `Nothing with the id ${JSON.stringify(id)} waits.`);
    if (!waits(call)) throw new SvcError('approval_decided');
    return { run_id, call };
  }

  private async changesOf({ server, tool, arguments: args }: ToolCall): Promise<string | null> {
    if (server === null || tool === null) return null;
    return this.servers.changes(server, tool, JSON.parse(args || '{}'));
  }

  private callOf(run_id: RunKey, number: number): ToolCall | undefined {
    return this.kernel.tail(run_id)?.context.calls[number - 1];
  }

  private record(run_id: RunKey, call: ToolCall, changes: string | null = null): ApprovalRecord {
    const { name, state, description, approve_until } = call;
    // A call that was given up before it was requested has no tool yet.
    const { server, tool } =
      call.server !== null
        ? call
        : (this.kernel.tail(run_id)?.context.request.tools?.find((each) => each.name === name) ??
          call);
    return {
      id: approvalId(run_id, call.call),
      run: run_id,
      server: server ?? '',
      tool: tool ?? name,
      target: server == null ? null : this.servers.target(server),
      description,
      arguments: call.arguments,
      changes,
      state,
      since: isoTime(sinceOf(call)),
      until: state === 'lost' || approve_until === null ? null : isoTime(approve_until),
      ...(call.report === undefined ? {} : { report: call.report }),
    };
  }
}

interface WaitingCall {
  run_id: RunKey;
  call: ToolCall;
}

/** The state of a watcher: the newest calls, their changing fields, and how many are older. */
interface Newest {
  calls: (WaitingCall & { id: string })[];
  versions: ReadonlyMap<string, string>;
  older: number;
}

const NOTHING_SENT = { versions: new Map<string, string>(), older: null };

/**
 * Most calls of a watcher's view, and most characters of their arguments. At least one call fits.
 */
export const [WATCHED_MAX, WATCHED_BYTES] = [100, 1_048_576];

function sinceOf({ state, started_at, requested_at }: ToolCall): number {
  return (state === 'lost' ? (started_at ?? requested_at) : requested_at) ?? 0;
}

function waits(call: ToolCall): boolean {
  return call.state === 'lost' || awaitsApproval(call);
}
