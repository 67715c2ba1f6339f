import type { Completion, RunEvent, Usage } from '../../src/contract/events.ts';
import type {
  Message,
  MessagePart,
  OutputPart,
  RunRequest,
  Tool,
} from '../../src/contract/messages/parts.ts';
import { messagesFor } from '../../src/contract/messages/parts.ts';
import type { NewEvent } from '../events.ts';
import { awaitsApproval, callAfter, hasEnded, newCall, type ToolCall } from '../tool-call.ts';
import type { RunContext } from './context.ts';

/**
 * The turns of a run with tools. The model answers with calls, svc carries them out, and the model
 * is called again with their results, until it answers without a call.
 */

/** A complete turn of the model that called tools. */
export interface Turn {
  readonly attempt: number;
  readonly output: string;
  readonly parts: readonly OutputPart[];
  readonly usage: Usage;
  /** Why the answer did not have the requested form. Null: the turn called tools. */
  readonly problem: string | null;
}

/** What a run with calls waits for. */
export type Phase = 'continuing' | 'calling' | 'awaiting_decision' | 'awaiting_approval';

/** Calls at work come first, then those that wait for a person. */
export function phaseOf(calls: readonly ToolCall[]): Phase {
  const open = calls.filter((call) => !hasEnded(call));
  if (open.length === 0) return 'continuing';
  if (open.some((call) => call.state !== 'lost' && !awaitsApproval(call))) return 'calling';
  return open.some(({ state }) => state === 'lost') ? 'awaiting_decision' : 'awaiting_approval';
}

/** The calls after an event. Null: no call accepts it. */
export function callsAfter(
  calls: readonly ToolCall[],
  event: RunEvent,
): readonly ToolCall[] | null {
  let isTaken = false;
  const next = calls.map((call) => {
    if ('call' in event && event.call !== call.call) return call;
    const changed = callAfter(call, event);
    isTaken ||= changed !== null;
    return changed ?? call;
  });
  return isTaken ? limitFiles(next) : null;
}

/** The calls, with only the newest files of their results that fit in one request. */
function limitFiles(calls: readonly ToolCall[]): readonly ToolCall[] {
  let room = FILES_MAX;
  const kept = calls.toReversed().map((call): ToolCall => {
    if (call.result?.media === undefined) return call;
    const { media, text, ...result } = call.result;
    room -= media.reduce((sum, { data }) => sum + data.length, 0);
    return room >= 0 ? call : { ...call, result: { ...result, text: `${text}\n${OLD_FILES}` } };
  });
  return room >= 0 ? calls : kept.toReversed();
}

/**
 * Characters of base64 in all files of results that one request has. APIs take requests of 20 MB
 * and more, and a run with many screenshots needs the newest ones.
 */
export const FILES_MAX = 16 * 1024 * 1024;
const OLD_FILES = '[svc: its files were left out: those of later results fill the request]';

/** The calls among the parts of an answer. */
export function callParts(parts: readonly OutputPart[]) {
  return parts.filter((part) => part.type === 'tool_call');
}

/** The calls with which the present answer ends. */
export function callsIn({ parts, calls }: Pick<RunContext, 'parts' | 'calls'>, at: number) {
  return callParts(parts).map(({ id, name, arguments: args }, index) =>
    newCall({ call: calls.length + index + 1, id, name, arguments: args, at }),
  );
}

/** The next request to the provider: the original one, with the turns and results since. */
export function requestNow({
  request,
  turns,
  calls,
}: Pick<RunContext, 'request' | 'turns' | 'calls'>): RunRequest {
  const { tools = [], tool_choice: choice } = request;
  const messages = messagesFor([...request.messages, ...messagesIn(turns, calls)], request);
  if (!tools.some(isServed)) return { ...request, messages };
  const isFirst = turns.length === 0;
  const chosen = isFirst && typeof choice === 'object' ? toolsOfServer(tools, choice.name) : [];
  return {
    ...request,
    ...(chosen.length > 0 ? { tool_choice: 'required' } : {}),
    // Only the first turn must call a tool. The answer could not end otherwise.
    ...(isFirst || choice === undefined ? {} : { tool_choice: 'auto' }),
    tools: (chosen.length > 0 ? chosen : tools).map(({ name, description, parameters }) => ({
      name,
      description,
      parameters,
    })),
    messages,
  };
}

/** The tools that a choice `mcp:<server>` forces: any of that server. */
export function toolsOfServer<T extends Pick<Tool, 'server'>>(
  tools: readonly T[],
  name: string,
): T[] {
  return tools.filter((tool) => isServed(tool) && name === `mcp:${tool.server}`);
}

/** Whether svc carries out the calls of this tool. */
export function isServed({ server }: Pick<Tool, 'server'>): boolean {
  return server !== undefined;
}

/** How much the tools of one run may do. */
export interface TurnBounds {
  tool_turns: number;
  tool_calls: number;
}

/**
 * The event for a complete answer of the model. It ends the turn if svc carries out its calls, and
 * the run otherwise. A turn that also calls tools of the client ends the run, as only the client
 * can continue.
 */
export function afterAnswer(
  { attempt, request: { tools = [] }, parts, turns, calls }: RunContext,
  end: Omit<Completion, 'attempt'>,
  bounds: TurnBounds,
): NewEvent<RunEvent> {
  const made = callParts(parts);
  const isOfClient = ({ name }: { name: string }) =>
    tools.some((tool) => tool.name === name && !isServed(tool));
  const completed = { type: 'run.completed', attempt, ...end } as const;
  if (made.length === 0 || !tools.some(isServed) || made.some(isOfClient))
    return { ...completed, usage: sumOfUsage(turns, end.usage) };
  const fail = (message: string): NewEvent<RunEvent> => ({
    type: 'run.failed',
    attempt,
    error: { code: 'tool_limit', message, retryable: false },
  });
  if (turns.length >= bounds.tool_turns)
    return fail(`The model called tools in ${turns.length} turns, as many as one run may have.`);
  if (calls.length + made.length > bounds.tool_calls)
    return fail(
      `The model made ${calls.length + made.length} calls; one run may have ${bounds.tool_calls}.`,
    );
  return { type: 'run.turn_completed', attempt, usage: end.usage };
}

/** Whether the model may be called again for an answer in the requested form. */
export function mayAskAgain({ ask_again, turns }: Pick<RunContext, 'ask_again' | 'turns'>) {
  return ask_again && turns.every(({ problem }) => problem === null);
}

/** The turns as messages. A call that is open has no result yet. */
export function messagesIn(turns: readonly Turn[], calls: readonly ToolCall[]): Message[] {
  let next = 0;
  return turns.flatMap(({ parts, output, problem }): Message[] => {
    if (problem !== null)
      return [
        { role: 'assistant', content: parts.length === 0 ? textParts(output) : parts },
        { role: 'user', content: textParts(`${problem} ${AGAIN}`) },
      ];
    const count = callParts(parts).length;
    const results = calls
      .slice(next, next + count)
      .filter(({ ended_at }) => ended_at !== null)
      .map(
        ({ id, result }): MessagePart => ({
          type: 'tool_result',
          id,
          ...(result ?? { text: '', is_error: true }),
        }),
      );
    next += count;
    const said: Message = { role: 'assistant', content: parts };
    return results.length === 0 ? [said] : [said, { role: 'tool', content: results }];
  });
}

/** Counts that a turn may lack. */
const ADDED = [
  ...(['cached_tokens', 'cache_write_tokens', 'reasoning_tokens'] as const),
  ...(['drafted_tokens', 'accepted_tokens'] as const),
];

const textParts = (text: string) => [{ type: 'text', text }] as const;
const AGAIN = 'Answer again, in the form that was asked for.';

/** The usage of all turns together. A number that a turn lacks is unknown. */
export function sumOfUsage(turns: readonly Pick<Turn, 'usage'>[], last: Usage): Usage {
  if (turns.length === 0) return last;
  const all = [...turns.map(({ usage }) => usage), last];
  const sum = (name: keyof Usage) => {
    const counts = all.map((usage) => usage[name]);
    return counts.some((count) => count == null)
      ? null
      : counts.reduce<number>((total, count) => total + (count ?? 0), 0);
  };
  const more = ADDED.filter((name) => all.some((usage) => usage[name] !== undefined));
  return {
    input_tokens: sum('input_tokens'),
    output_tokens: sum('output_tokens'),
    ...Object.fromEntries(
      more.map((name) => [name, all.reduce((total, usage) => total + (usage[name] ?? 0), 0)]),
    ),
  };
}
