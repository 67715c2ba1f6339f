import type { Usage } from '../../../machines/run/context.ts';
import { hasEnded, type ToolCall } from '../../../machines/tool-call.ts';
import type { RunRecord } from '../../contract/contract.ts';
import type { Opaque, OutputPart, ReasoningPart } from '../../contract/messages/parts.ts';
import { REDACTED } from '../../contract/messages/parts.ts';
import { argumentsObject } from '../../json.ts';
import type { Answer } from '../answer.ts';
import { toApiId } from '../ids.ts';
import type { AnswerEnd } from '../pieces.ts';
import { sealBeside, sealOpaque, unsealOpaque } from '../seal.ts';
import { toolOfCall } from '../served-calls.ts';

/** An answer in the form of Anthropic's API. */

/** A message without content, as a stream begins. Its end has the counts of the provider. */
export function emptyMessage(
  run: Pick<RunRecord, 'id'>,
  model: string,
  input_tokens: number | null = null,
): object {
  return {
    id: toApiId('msg_', run.id),
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    container: null,
    ...stopFieldsOf(null),
    usage: usageOf({ input_tokens, output_tokens: null }),
  };
}

/** The whole message. `thoughts`: whether it shows what the model thought. */
export function messageOf(
  run: Pick<RunRecord, 'id'>,
  { model, thoughts }: { model: string; thoughts: boolean },
  answer: Answer,
): object {
  const shown = answer.said.filter(
    (one) => isCall(one) || ((thoughts || one.type !== 'reasoning') && !isSilent(one)),
  );
  const begun = new Set<number>();
  return {
    ...emptyMessage(run, model),
    content: shown.flatMap((one) =>
      isCall(one) ? callBlocks(answer.run, one, begun) : [...blocksBefore(one), blockOf(one, run)],
    ),
    ...stopFieldsOf({ ...answer, calls: answer.calls.length > 0, refused: answer.refusal !== '' }),
    usage: usageOf(answer.usage),
  };
}

/** Facts that are known once the answer is complete. */
export interface Ended extends Omit<AnswerEnd, 'type'> {
  calls: boolean;
  refused: boolean;
}

/** Why an answer ended. Null: it has not. */
export function stopFieldsOf(end: Ended | null): object {
  const stop_reason = end === null ? null : stopReason(end);
  return {
    stop_reason,
    stop_sequence: stop_reason === 'stop_sequence' ? end?.stop_sequence : null,
    stop_details:
      stop_reason === 'refusal' ? { type: 'refusal', category: null, explanation: null } : null,
  };
}

function stopReason({ finish_reason, stop_sequence, calls, refused }: Ended): string {
  if (refused || finish_reason === 'content_filter') return 'refusal';
  if (finish_reason === 'length') return 'max_tokens';
  if (finish_reason === 'tool_calls' || calls) return 'tool_use';
  return stop_sequence === undefined ? 'end_turn' : 'stop_sequence';
}

/** Unknown counts are 0: clients add them up. Cached tokens count apart from the others. */
export function usageOf(usage: Usage): object {
  const { input_tokens, output_tokens, cached_tokens = 0, reasoning_tokens } = usage;
  return {
    input_tokens: Math.max(0, (input_tokens ?? 0) - cached_tokens),
    output_tokens: output_tokens ?? 0,
    cache_creation: null,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached_tokens,
    output_tokens_details:
      reasoning_tokens === undefined ? null : { thinking_tokens: reasoning_tokens },
    server_tool_use: null,
    service_tier: null,
  };
}

/** This API has no field for opaque data of a text. */
function isSilent(part: OutputPart): boolean {
  return part.type === 'text' && part.text === '' && part.opaque !== undefined;
}

function isCall(one: OutputPart | ToolCall): one is ToolCall {
  return !('type' in one);
}

/**
 * The blocks of a call that svc carries out, after a change of it. `begun`: the blocks that it had
 * before.
 */
export function callBlocks(
  { id: run_id, ...run }: Pick<RunRecord, 'id' | 'tools'>,
  call: ToolCall,
  begun: Set<number>,
): { type: string; input?: unknown }[] {
  const id = `mcptoolu_${run_id.slice('run_'.length)}_${call.call}`;
  const { server: server_name, tool: name } = toolOfCall(run, call);
  const input = argumentsObject(call.arguments);
  const use = { type: 'mcp_tool_use', id, name, server_name, input };
  const { text = '', is_error = false } = call.result ?? {};
  const content = [{ type: 'text', text, citations: null }];
  const result = { type: 'mcp_tool_result', tool_use_id: id, is_error, content };
  const isNew = !begun.has(call.call);
  begun.add(call.call);
  return [...(isNew ? [use] : []), ...(hasEnded(call) ? [result] : [])];
}

/** Opaque data that the provider needs back with a call. */
function blocksBefore(part: OutputPart): object[] {
  const data = part.type === 'tool_call' ? sealBeside(part) : null;
  return data === null ? [] : [{ type: 'redacted_thinking', data }];
}

/** A refusal is text here. The stop reason marks it. */
function blockOf(part: OutputPart, run: Pick<RunRecord, 'id'>): object {
  switch (part.type) {
    case 'text':
    case 'refusal':
      return { type: 'text', text: part.text };
    case 'reasoning':
      return thoughtBlock(part, run);
    case 'tool_call':
      return {
        type: 'tool_use',
        id: part.id,
        name: part.name,
        input: argumentsObject(part.arguments),
        caller: { type: 'direct' },
      };
  }
}

type Thought = Pick<ReasoningPart, 'text' | 'opaque'>;

/** A block of thoughts: readable, or opaque to all but its author. */
function thoughtBlock(thought: Thought, run: Pick<RunRecord, 'id'>): object {
  const { text, opaque } = thought;
  return (
    redactedBlock(thought) ?? {
      type: 'thinking',
      thinking: text,
      signature: signatureOf(run, opaque),
    }
  );
}

/**
 * The opaque block of thoughts without text, or of a call. Null: the thoughts have a text, or a
 * signature instead.
 */
export function redactedBlock({ text, opaque }: Thought, call?: string): object | null {
  if (opaque === undefined || opaque.form === SIGNATURE || text !== '') return null;
  const { form, data } = opaque;
  const own = call === undefined ? opaque : { ...opaque, call };
  return { type: 'redacted_thinking', data: form === REDACTED ? data : sealOpaque(own) };
}

/**
 * The author's signature. Without one, it names the run that thought this: clients leave out
 * thoughts without a signature.
 */
export function signatureOf({ id }: Pick<RunRecord, 'id'>, opaque?: Opaque): string {
  if (opaque === undefined) return id;
  return opaque.form === SIGNATURE ? opaque.data : sealOpaque(opaque);
}

const SIGNATURE = 'signature';

/** Opaque data that a client returns to the author of its thoughts. A run is not an author. */
export function parseSignature(
  written: string | null | undefined,
  form: typeof SIGNATURE | typeof REDACTED = SIGNATURE,
): { opaque?: Opaque } {
  if (written == null || written === '' || written.startsWith('run_')) return {};
  return { opaque: unsealOpaque(written, 'messages') ?? { form, data: written } };
}
