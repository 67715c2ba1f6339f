import type { SentName } from '../../../../machines/conversation.ts';
import type {
  Message,
  MessagePart,
  Opaque,
  OutputPart,
  TokenLogprob,
  ToolResultPart,
} from '../../../contract/messages/parts.ts';
import { audioFormatOf } from '../../../contract/options.ts';
import { parseForeignJson } from '../../../json.ts';
import { sealBeside, sealOpaque } from '../../seal.ts';
import { sealSummary as sealedSummary } from './compaction.ts';
import { inputOf } from './custom-input.ts';
import { type SentNames, sentName } from './tools.ts';

/**
 * Messages and parts of answers as items of the Responses API.
 *
 * 1. Each part of an answer is one output item. Its index is the index of the part.
 * 2. Ids come from the id of the run and that index, so they are the same after a restart.
 */

export type Item = Readonly<Record<string, unknown>>;
export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

/** The content of a run id, which its response and its items share. */
const RUN = /^run_([0-9A-Z]{26})$/;
const ITEM = /^(?:msg|fc|rs|cmp|mcp[alr]?)_([0-9A-Z]{26})_\d{1,6}$/;

/** The run of an output item. Null: the id is not of an output item. */
export function runOfItem(id: string): string | null {
  const [, key] = ITEM.exec(id) ?? [];
  return key === undefined ? null : `run_${key}`;
}

const PREFIX = { text: 'msg', refusal: 'msg', reasoning: 'rs', tool_call: 'fc' } as const;

export function itemId(run_id: string, part: { readonly type: OutputPart['type'] }, index: number) {
  return run_id.replace(RUN, `${PREFIX[part.type]}_$1_${index}`);
}

/**
 * The only content of an item that is text. Calls have arguments instead. Reasoning is a summary:
 * programs for OpenAI show no other.
 */
export function contentOf(part: OutputPart, logprobs: readonly TokenLogprob[] = []): Item {
  if (part.type === 'refusal') return { type: 'refusal', refusal: part.text };
  if (part.type === 'reasoning') return { type: 'summary_text', text: part.text };
  const text = part.type === 'text' ? part.text : part.arguments;
  return { type: 'output_text', text, annotations: [], logprobs: logprobs.map(logprobOf) };
}

/** The item of an answer that is a summary. */
export function compactionItem(run_id: string, answer: readonly OutputPart[]): Item {
  const id = run_id.replace(RUN, 'cmp_$1_0');
  return { type: 'compaction', id, encrypted_content: sealedSummary(answer) };
}

/** An output item. One that is empty so far has no content. */
export function itemOf(
  id: string,
  part: OutputPart,
  status: ItemStatus,
  { names, logprobs = [] }: { names: SentNames; logprobs?: readonly TokenLogprob[] },
): Item {
  if (part.type === 'tool_call') {
    const { custom, ...called } = sentName(names, part.name);
    const body =
      custom === true
        ? { type: 'custom_tool_call', input: inputOf(part.arguments) }
        : { type: 'function_call', arguments: part.arguments };
    return { id, call_id: part.id, ...called, ...body, status };
  }
  const isEmpty = part.text === '' && (status === 'in_progress' || part.type === 'reasoning');
  const content = isEmpty ? [] : [contentOf(part, logprobs)];
  return part.type === 'reasoning'
    ? { type: 'reasoning', id, summary: content, ...encryptedField(part.opaque), status }
    : { type: 'message', id, role: 'assistant', content, status };
}

function encryptedField(opaque: Opaque | undefined): { encrypted_content?: string } {
  return opaque === undefined ? {} : { encrypted_content: sealOpaque(opaque) };
}

/** The item before a call, with the opaque data that the provider needs back. */
export function itemsBefore(run_id: string, part: OutputPart, index: number): Item[] {
  const encrypted_content = part.type === 'tool_call' ? sealBeside(part) : null;
  if (encrypted_content === null) return [];
  const id = itemId(run_id, { type: 'reasoning' }, index);
  return [{ type: 'reasoning', id, summary: [], encrypted_content, status: 'completed' }];
}

/** Where an item is. */
export function at({ id, output_index }: { id: string; output_index: number }): Item {
  return { item_id: id, output_index };
}

/** The names of the events of a text. */
export const NAMES = {
  text: 'output_text',
  reasoning: 'reasoning_summary_text',
  refusal: 'refusal',
} as const;

/** Which text of its item a part is: the only one. A call has no texts. */
export function textIndexOf({ type }: OutputPart): Item {
  if (type === 'tool_call') return {};
  return type === 'reasoning' ? { summary_index: 0 } : { content_index: 0 };
}

/** A part as it begins. */
export function withoutContent(part: OutputPart): OutputPart {
  return part.type === 'tool_call' ? { ...part, arguments: '' } : { ...part, text: '' };
}

/** Thoughts that only their author can read. */
export function isThought(part: OutputPart): boolean {
  return part.type === 'reasoning' && part.text === '';
}

/** This API has a field for opaque data only in reasoning. */
export function isHidden(part: OutputPart): boolean {
  return part.type !== 'tool_call' && part.type !== 'reasoning' && part.text === '';
}

export function logprobOf({ token, logprob, top }: TokenLogprob): Item {
  const bytes = (of: string) => [...Buffer.from(of)];
  return {
    token,
    logprob,
    bytes: bytes(token),
    top_logprobs: top.map((one) => ({ ...one, bytes: bytes(one.token) })),
  };
}

/**
 * The items of an input, oldest first. `names`: of tools. `sent`: of calls, by their id. `first`:
 * the number of the first item.
 */
export function inputItems(
  run_id: string,
  messages: readonly Message[],
  { names = {}, sent = {} }: { names?: SentNames; sent?: SentNames },
  first = 0,
): Item[] {
  const parts = messages.flatMap(({ content }) => content);
  const results = new Map(
    parts.flatMap((part) => (part.type === 'tool_result' ? [[part.id, part]] : [])),
  );
  const called = new Map(Object.entries(sent));
  const itemOfPart = (part: MessagePart): Item[] => {
    if (part.type === 'tool_result') {
      const { server, custom } = called.get(part.id) ?? {};
      if (server !== undefined) return [];
      const type = custom === true ? 'custom_tool_call_output' : 'function_call_output';
      return [{ type, call_id: part.id, output: part.text, status: 'completed' }];
    }
    if (part.type !== 'tool_call') return [itemOf('', part as OutputPart, 'completed', { names })];
    const name = called.get(part.id) ?? sentName(names, part.name);
    called.set(part.id, name);
    if (name.server === undefined)
      return [itemOf('', part, 'completed', { names: { [part.name]: name } })];
    return [servedItem(name, part.arguments, results.get(part.id))];
  };
  const items = messages.flatMap(({ role, content }): Item[] =>
    role === 'system' || role === 'user'
      ? [{ type: 'message', role, content: content.map(inputPart), status: 'completed' }]
      : content.flatMap(itemOfPart),
  );
  return items.map((item, n) => ({ ...item, id: run_id.replace(RUN, `in_$1_${first + n}`) }));
}

/** A call that a tool server carried out, as a client sent it. */
function servedItem(
  { name, server }: SentName,
  written: string,
  { text = '', is_error = false }: Partial<ToolResultPart> = {},
): Item {
  const parsed = parseForeignJson(text);
  const error = is_error ? (typeof parsed === 'object' ? parsed : text) : null;
  return {
    type: 'mcp_call',
    server_label: server,
    name,
    arguments: written,
    approval_request_id: null,
    output: is_error ? null : text,
    error,
    status: error === null ? 'completed' : 'failed',
  };
}

function inputPart(part: MessagePart): Item {
  if (part.type === 'image')
    return {
      type: 'input_image',
      image_url: `data:${part.media_type};base64,${part.data}`,
      detail: 'auto',
    };
  if (part.type === 'audio') {
    const { data, media_type } = part;
    return { type: 'input_audio', input_audio: { data, format: audioFormatOf(media_type) } };
  }
  return { type: 'input_text', text: part.type === 'text' ? part.text : '' };
}
