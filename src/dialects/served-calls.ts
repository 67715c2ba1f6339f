import type { RunEvent } from '../../machines/run/context.ts';
import { callsAfter, callsIn, phaseOf } from '../../machines/run/turns.ts';
import { awaitsApproval, type ToolCall } from '../../machines/tool-call.ts';
import {
  type OutputPart,
  type Piece,
  partsAfter,
  type RunRequest,
} from '../contract/messages/parts.ts';

/** An event of a run, from the log. `at` is in milliseconds since the epoch. */
export interface RunLogEvent {
  readonly type: string;
  readonly at: number;
  readonly data: Readonly<Record<string, unknown>>;
}

/**
 * The calls that svc carries out for a run: a fold of its events, from the first. Each call is what
 * it is in the machine of the run.
 */
export class ServedCalls {
  all: readonly ToolCall[] = [];
  /** The calls about which the run asked each time that it did nothing but wait for approvals. */
  readonly asked: (readonly ToolCall[])[] = [];
  private parts: readonly OutputPart[] = [];

  /** The calls that the event changes, as they are after it. */
  after({ type, at, data }: RunLogEvent): readonly ToolCall[] {
    if (type === 'run.started' && data.resumes !== true) this.parts = [];
    if (data.kind === 'tool_call')
      this.parts = partsAfter(this.parts, '', data as unknown as Piece);
    if (type === 'run.turn_completed')
      this.all = [...this.all, ...callsIn({ parts: this.parts, calls: this.all }, at)];
    if (this.all.length === 0) return NONE;
    const event = { ...data, type, at } as unknown as RunEvent;
    const before = this.all;
    this.all = callsAfter(before, event) ?? before;
    const changed = this.all.filter((call, index) => call !== before[index]);
    const waiting = this.all.filter(awaitsApproval);
    const asked = this.asked.at(-1) ?? NONE;
    // While an approval still waits, no new one can have been requested.
    const isAsked = asked.some(({ call }) => waiting.some((one) => one.call === call));
    if (changed.length > 0 && phaseOf(this.all) === 'awaiting_approval' && !isAsked)
      this.asked.push(waiting);
    return changed;
  }
}

const NONE: readonly ToolCall[] = [];

/** The server and the tool of a call. For an unknown tool: the name that the model wrote. */
export function toolOfCall({ tools = [] }: Pick<RunRequest, 'tools'>, { name, ...call }: ToolCall) {
  const known = tools.find((tool) => tool.name === name);
  return { server: call.server ?? known?.server ?? '', tool: call.tool ?? known?.tool ?? name };
}

/** Whether the call has begun, or never will: from then on clients see it. */
export function isShown({ starts, ended_at, state }: ToolCall): boolean {
  return starts > 0 || (ended_at !== null && state !== 'dropped');
}
