import type { Failure } from '../../../../machines/events.ts';
import type { Completion, FinishReason, Usage } from '../../../../machines/run/context.ts';
import type { RunRequest, SourceRequest } from '../../../contract/messages/parts.ts';
import { formError, fromBody, type SvcError } from '../../../errors.ts';
import { runIdOf, toApiId } from '../../ids.ts';
import type { McpTool } from '../../mcp-tools.ts';
import { bodyOf, modelOf, renameParams } from '../parts.ts';
import type { Item } from './items.ts';
import { type SentNames, shownChoice, shownTools, type Toolbox } from './tools.ts';

/** The `api` of the runs that are responses. */
export const RESPONSES = 'openai.responses';

/** Fields of a response that its run does not have. They are in the log, as `asked_as.fields`. */
export interface ResponseFields {
  /** The first message is the instructions. The next response does not inherit them. */
  instructions?: true;
  /** The client asked with `store: false`: no later request finds the response. */
  unstored?: true;
  /** The response may outlive its connection. */
  background?: true;
  previous_response_id?: string;
  /** The conversation that it belongs to. */
  conversation?: string;
  /** How many of the last messages are new in this response. */
  new_messages?: number;
  /** `strict` of each function. */
  strict?: Toolbox['strict'];
  /** The client's names of its tools, where the run has other names. */
  names?: SentNames;
  /** The client's names of calls in its input, by call id, where `names` has none. */
  sent?: SentNames;
  /** The tools that items of the conversation brought along. Its later responses have them, too. */
  brought?: readonly string[];
  /** The tool servers that it names. */
  servers?: readonly McpTool[];
  /** The answer is a summary of the conversation. */
  compaction?: true;
  /** These fields have no effect. The response repeats them. */
  safety_identifier?: string;
  prompt_cache_key?: string;
}

/** The request of a response. */
export interface ResponseRequest {
  run_id: string;
  /** Its place among the responses of the run: each request for approval ends one. */
  part: number;
  /** Milliseconds since the epoch. */
  created_at: number;
  request: RunRequest;
  fields: ResponseFields;
  metadata: Readonly<Record<string, string>> | null;
}

export type ResponseStatus =
  | 'queued'
  | 'in_progress'
  | 'completed'
  | 'incomplete'
  | 'failed'
  | 'cancelled';

/** How far a response has come. */
export interface ResponseState {
  status: ResponseStatus;
  output: readonly Item[];
  usage: Usage | null;
  error: Failure | null;
  finish_reason: FinishReason | null;
  /** Milliseconds since the epoch. Null: not complete. */
  completed_at: number | null;
}

/** A response that has not ended. */
export const GOES_ON: Omit<ResponseState, 'output'> = {
  status: 'in_progress',
  usage: null,
  error: null,
  finish_reason: null,
  completed_at: null,
};

export const CANCELLED: Failure = {
  code: 'run_cancelled',
  message: 'The response was cancelled.',
  retryable: false,
};

export function fieldsOf(asked_as: SourceRequest | null): ResponseFields | null {
  return asked_as?.api === RESPONSES ? (asked_as.fields as ResponseFields) : null;
}

const RESPONSE = /^(resp_[0-9A-Z]{26})_(\d{1,4})$/;

export function responseId({ run_id, part }: Pick<ResponseRequest, 'run_id' | 'part'>): string {
  return toApiId('resp_', run_id) + (part === 0 ? '' : `_${part}`);
}

/** The run of a response, and its place in it. Throws run_unknown. */
export function placeOfResponse(id: string): { run_id: string; part: number } {
  const [, first = id, part = '0'] = RESPONSE.exec(id) ?? [];
  return { run_id: runIdOf('resp_', first), part: Number(part) };
}

/** The object `response`. */
export function responseObject(source: ResponseRequest, state: ResponseState): Item {
  const { request, fields, metadata } = source;
  const { names = {} } = fields;
  const { tools = [] } = request;
  const { error, finish_reason, completed_at } = state;
  const seconds = (at: number) => Math.floor(at / 1000);
  const incomplete = state.status === 'incomplete';
  return {
    id: responseId(source),
    object: 'response',
    created_at: seconds(source.created_at),
    status: state.status,
    background: fields.background === true,
    ...(fields.conversation === undefined ? {} : { conversation: { id: fields.conversation } }),
    completed_at: completed_at === null ? null : seconds(completed_at),
    error: error === null ? null : errorOf(error),
    incomplete_details: incomplete ? { reason: incompleteReasonOf(finish_reason) } : null,
    instructions: fields.instructions === true ? instructionsOf(request) : null,
    max_output_tokens: request.max_tokens,
    max_tool_calls: null,
    metadata: { ...metadata },
    model: modelOf(request),
    output: state.output,
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id:
      source.part > 0
        ? responseId({ ...source, part: source.part - 1 })
        : (fields.previous_response_id ?? null),
    reasoning: { effort: request.reasoning_effort ?? null, summary: null },
    service_tier: 'default',
    store: fields.unstored !== true,
    // A parameter without a value has OpenAI's default: a provider does not report its own.
    temperature: request.temperature ?? 1,
    text: { format: formatOf(request), verbosity: request.verbosity ?? 'medium' },
    tool_choice: shownChoice(request.tool_choice ?? 'auto', { names, tools }),
    tools: [...shownTools(tools, names, fields.strict), ...(fields.servers ?? [])],
    top_logprobs: request.logprobs ?? 0,
    top_p: request.top_p ?? 1,
    presence_penalty: request.presence_penalty ?? 0,
    frequency_penalty: request.frequency_penalty ?? 0,
    safety_identifier: fields.safety_identifier ?? null,
    prompt_cache_key: fields.prompt_cache_key ?? null,
    truncation: 'disabled',
    usage: usageOf(state.usage),
    user: null,
  };
}

/** The parameters of a run in the words of this API. */
export const inResponse = renameParams({
  messages: 'input',
  max_tokens: 'max_output_tokens',
  response_format: 'text.format',
  reasoning_effort: 'reasoning.effort',
  verbosity: 'text.verbosity',
});

function errorOf(failure: Failure): Item {
  const { code, message, type, param } = bodyOf(inResponse(fromBody(failure)) as SvcError);
  return { code, message, type: type === 'provider_error' ? 'server_error' : type, param };
}

/** How a response ends. The API has no reason for an answer of a wrong form: it has failed. */
export function endingOf(
  end: Pick<Completion, 'finish_reason'> & Partial<Pick<Completion, 'form_problem'>>,
  { provider }: Pick<RunRequest, 'provider'>,
): { status: 'completed' | 'incomplete' | 'failed'; error: Failure | null } {
  const misfit = formError({ ...end, provider });
  if (misfit !== null) return { status: 'failed', error: misfit.summary() };
  return {
    status: incompleteReasonOf(end.finish_reason) === null ? 'completed' : 'incomplete',
    error: null,
  };
}

/** Why a response is incomplete. Null: it is complete. */
function incompleteReasonOf(reason: FinishReason | null): string | null {
  return REASONS[reason ?? 'other'] ?? null;
}

const REASONS: Readonly<Record<FinishReason, string | null>> = {
  length: 'max_output_tokens',
  repetition: 'max_output_tokens',
  content_filter: 'content_filter',
  stop: null,
  tool_calls: null,
  not_json: null,
  wrong_form: null,
  other: null,
};

function instructionsOf({ messages }: RunRequest): string | null {
  const part = messages[0]?.content[0];
  return part?.type === 'text' ? part.text : null;
}

function formatOf({ response_format }: RunRequest): Item {
  if (response_format === undefined) return { type: 'text' };
  const { schema, name } = response_format;
  if (schema === null) return { type: 'json_object' };
  return { type: 'json_schema', name: name ?? 'answer', schema, strict: true, description: null };
}

/** Null if the provider does not count. */
export function usageOf(usage: Usage | null): Item | null {
  if (usage === null || (usage.input_tokens === null && usage.output_tokens === null)) return null;
  const input_tokens = usage.input_tokens ?? 0;
  const output_tokens = usage.output_tokens ?? 0;
  return {
    input_tokens,
    input_tokens_details: {
      cached_tokens: usage.cached_tokens ?? 0,
      cache_write_tokens: usage.cache_write_tokens ?? 0,
    },
    output_tokens,
    output_tokens_details: { reasoning_tokens: usage.reasoning_tokens ?? 0 },
    total_tokens: input_tokens + output_tokens,
  };
}

/** The usage of a run after its earlier responses. An unknown number stays unknown. */
export function subtractUsage(all: Usage, before: Usage | null): Usage {
  if (before === null) return all;
  const remaining = Object.entries(all).map(([name, count]) => {
    const earlier = before[name as keyof Usage];
    return [name, count === null || earlier === null ? null : count - (earlier ?? 0)];
  });
  return Object.fromEntries(remaining);
}
