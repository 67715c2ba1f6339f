import type { Failure } from '../../machines/events.ts';
import { isTerminalEvent } from '../../machines/run/context.ts';
import type { RunPage, RunRecord, SearchPage } from '../contract/contract.ts';
import type { ResponseFormat, Tool, ToolChoice } from '../contract/messages/parts.ts';
import { TIMEOUT_ERROR } from '../contract/words.ts';
import { fromBody, SvcError } from '../errors.ts';
import type { StoredEvent } from '../kernel/store/port.ts';
import type { Grpc } from '../operations/row.ts';
import { shownData } from '../runtime/runs/event-record.ts';

/** Records and events in the form of `runtime.proto`. A field that is null is absent. */

type Part =
  | NonNullable<RunRecord['output_parts']>[number]
  | NonNullable<RunRecord['messages']>[number]['content'][number];

/** The result of an operation as the message that answers it. */
export function messageOf({ answer }: Grpc, result: unknown): object {
  return forms[answer]?.(result as never) ?? (result as object);
}

const forms: Readonly<Record<string, (result: never) => object>> = {
  RunRecord: runMessage,
  RunPage: ({ runs, ...page }: RunPage) => ({ ...page, runs: runs.map(runMessage) }),
  SearchPage: ({ runs, ...page }: SearchPage) => ({ ...page, runs: runs.map(foundMessage) }),
};

function runMessage(run: RunRecord & { shortened?: true }): object {
  const { messages, tools, tool_choice, response_format, output_parts, ...rest } = run;
  return {
    ...rest,
    messages: messages?.map(({ role, content }) => ({ role, content: content.map(partMessage) })),
    tools: tools?.map(toolMessage),
    ...(tool_choice === undefined ? {} : { tool_choice: choiceMessage(tool_choice) }),
    ...(response_format === undefined ? {} : { response_format: formatMessage(response_format) }),
    output_parts: output_parts?.map(partMessage),
  };
}

function foundMessage({ matches, ...rest }: SearchPage['runs'][number]): object {
  return { ...rest, matches: matches.map(([begin, end]) => ({ begin, end })) };
}

function partMessage(part: Part): object {
  const { type, ...rest } = part;
  return { [type]: 'text' in rest && type !== 'tool_result' ? rest.text : rest };
}

function toolMessage({ parameters, ...rest }: Tool): object {
  return { ...rest, parameters_json: JSON.stringify(parameters) };
}

function choiceMessage(choice: ToolChoice): object {
  return typeof choice === 'string' ? { mode: choice } : choice;
}

function formatMessage({ schema, ...rest }: ResponseFormat): object {
  return { ...rest, ...(schema === null ? {} : { schema_json: JSON.stringify(schema) }) };
}

/**
 * The updates of one run. It owns how the run ended, which its call ends with. An update has the
 * position of its event.
 */
export class RunUpdates {
  private deadline = '';
  private end: { error: SvcError | null } | null = null;

  /** Null: the run has not ended in what was sent. */
  get outcome(): { error: SvcError | null } | null {
    return this.end;
  }

  updateOf({ seq, type, data, at }: Pick<StoredEvent, 'seq' | 'type' | 'data' | 'at'>): object {
    if (type === 'run.deadline_passed') this.deadline = String(data.deadline);
    if (isTerminalEvent(type)) return { seq, ended: this.endOf(type, data) };
    if (type === 'run.accepted') return { seq, accepted: acceptedOf(data) };
    if (type !== 'run.output_appended')
      return {
        seq,
        event: {
          type,
          at: new Date(at).toISOString(),
          data_json: JSON.stringify(shownData({ data })),
        },
      };
    return { seq, output: { kind: 'text', ...data } };
  }

  private endOf(type: string, data: Readonly<Record<string, unknown>>): object {
    const error = this.errorOf(type, data);
    this.end = { error };
    const state = type.slice('run.'.length);
    return error === null ? { ...data, state } : { state, error: error.body() };
  }

  private errorOf(type: string, { error }: Readonly<Record<string, unknown>>): SvcError | null {
    if (type === 'run.completed') return null;
    if (type === 'run.cancelled') return new SvcError('run_cancelled');
    if (type === 'run.timed_out')
      return new SvcError('run_timed_out', TIMEOUT_ERROR[this.deadline]);
    const { retryable, ...failure } = error as Failure;
    return fromBody(failure, { retryable });
  }
}

function acceptedOf({ run_id, request }: Readonly<Record<string, unknown>>): object {
  const { provider, model, cloud } = (request ?? {}) as Record<string, unknown>;
  return { run_id, provider, model, cloud };
}
