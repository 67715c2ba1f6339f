import type { SentName } from '../../../../machines/conversation.ts';
import { invalidRequest } from '../../../contract/check.ts';
import type { Message, MessagePart, Opaque, OutputPart } from '../../../contract/messages/parts.ts';
import type { Runtime } from '../../../operations/port.ts';
import { servedName } from '../../../runtime/tools/served-tools.ts';
import type { Reading } from '../../documents/documents.ts';
import { asItem, Besides, unsealOpaque } from '../../seal.ts';
import { imageOf } from '../chat-messages.ts';
import { fileText } from '../files.ts';
import { summaryPart } from './compaction.ts';
import { customArguments } from './custom-input.ts';
import { type Item, runOfItem } from './items.ts';
import { readResponseItems } from './read.ts';
import type { InputItem, InputMessage } from './schemas.ts';
import { nameInRun, type SentNames } from './tools.ts';

/**
 * The messages of an input.
 *
 * 1. What a model said in one turn is one message: reasoning, then text, then calls.
 * 2. A result of a tool follows its call, in this input or before it.
 * 3. A reference is replaced by the output item that it names.
 * 4. `sent`: the client's names of calls, by call id, where the run has others. Absent: none
 *    differ.
 * 5. An image in a result is in a message of the user after it: most models see images only there.
 */
export async function messagesOf(
  runtime: Pick<Runtime, 'runs'>,
  input: string | readonly InputItem[],
  earlier: readonly Message[],
  reading: Reading,
): Promise<{ messages: Message[]; sent?: SentNames }> {
  if (typeof input === 'string') return { messages: [{ role: 'user', content: textParts(input) }] };
  const sent = new Map<string, SentName>();
  const calls = new Set(earlier.flatMap(({ content }) => content.flatMap(callId)));
  const find = references(runtime);
  const messages: { role: Message['role']; content: MessagePart[] }[] = [];
  /** Adds to the turn of the model, or begins the next one. */
  const answer = (parts: readonly MessagePart[]) => {
    const last = messages.at(-1);
    const begins = parts.some(({ type }) => type !== 'tool_call');
    // Only calls follow what was said, so the last part says whether anything was.
    const open = last?.role === 'assistant' && !(begins && last.content.slice(-1).some(isSaid));
    if (open) for (const part of parts) last.content.push(part);
    else messages.push({ role: 'assistant', content: [...parts] });
  };
  const besides = new Besides();
  /** Images of the results so far, which follow the last one of them. */
  let shown: MessagePart[] = [];
  const show = () => {
    if (shown.length > 0) messages.push({ role: 'user', content: shown });
    shown = [];
  };
  for (const [index, written] of input.entries()) {
    const at = `input.${index}`;
    const item = written.type === 'item_reference' ? await find(written.id, at) : written;
    const isResult = item.type?.endsWith('call_output') === true;
    if (!isResult) show();
    switch (item.type) {
      case 'message':
      case undefined: {
        const { role, parts } = await partsOf(item, at, reading);
        if (role === 'assistant') answer(parts);
        else messages.push({ role, content: parts });
        break;
      }
      case 'compaction':
        messages.push({ role: 'user', content: [summaryPart(item.encrypted_content, at)] });
        break;
      case 'mcp_call': {
        const { server_label, name, output, error } = item;
        const id = item.id ?? `mcp_${index}`;
        sent.set(id, { name, server: server_label });
        const call = { id, name: servedName(server_label, name), arguments: item.arguments };
        answer([{ type: 'tool_call', ...call }]);
        const text = output ?? (typeof error === 'string' ? error : JSON.stringify(error ?? null));
        messages.push(resultOf(id, text, output == null));
        break;
      }
      case 'function_call_output':
      case 'custom_tool_call_output': {
        const { call_id: id, output } = item;
        if (item.type === 'custom_tool_call_output' && !sent.has(id))
          sent.set(id, { name: '', custom: true });
        if (!calls.has(id))
          throw invalidRequest(`${at}.call_id`, `${at}.call_id names no call of a tool before it.`);
        const parts = await userParts(output, `${at}.output`, reading);
        const text = parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
        const images = parts.filter(({ type }) => type === 'image');
        // Servers refuse an empty result.
        const note = text === '' && images.length > 0 ? 'The next message has it.' : text;
        messages.push(resultOf(id, note));
        for (const image of images)
          shown.push(
            { type: 'text', text: `This image is the result of the tool call ${id}:` },
            image,
          );
        break;
      }
      case 'function_call':
      case 'custom_tool_call':
      case 'reasoning': {
        const parts = itemParts(item, at).flatMap((part) => besides.take(part) ?? []);
        if (item.type !== 'reasoning' && (item.type === 'custom_tool_call' || item.namespace))
          sent.set(item.call_id, sentNameOf(item));
        for (const id of parts.flatMap(callId)) calls.add(id);
        if (parts.length > 0) answer(parts);
        break;
      }
      // No model reads the others. Of a call of svc it reads the one with the result.
    }
  }
  show();
  return { messages, ...(sent.size === 0 ? {} : { sent: Object.fromEntries(sent) }) };
}

function resultOf(id: string, text: string, is_error = false) {
  const result = { type: 'tool_result' as const, id, text, is_error };
  return { role: 'tool' as const, content: [result] as MessagePart[] };
}

/** What the model said after its reasoning. More reasoning or text is another turn. */
function isSaid({ type }: MessagePart): boolean {
  return type !== 'reasoning';
}

function callId(part: MessagePart): string[] {
  return part.type === 'tool_call' ? [part.id] : [];
}

type ModelItem = Extract<InputItem, { type: 'function_call' | 'custom_tool_call' | 'reasoning' }>;
function itemParts(item: ModelItem, at: string): OutputPart[] {
  if (item.type !== 'reasoning') {
    const name = nameInRun(item.name, item.namespace);
    const written = item.type === 'function_call' ? item.arguments : customArguments.of(item.input);
    return [{ type: 'tool_call', id: item.call_id, name, arguments: written }];
  }
  const texts = (item.content?.length ?? 0) > 0 ? item.content : item.summary;
  const text = (texts ?? []).map((part) => part.text).join('\n\n');
  const opaque = encryptedIn(item, `${at}.encrypted_content`);
  if (text === '' && opaque === null) return [];
  return [{ type: 'reasoning', text, ...(opaque === null ? {} : { opaque }) }];
}

/** Data that only the author of an item can read. An id of svc is not that of the author. */
function encryptedIn(
  { id, summary, content, encrypted_content }: Extract<ModelItem, { type: 'reasoning' }>,
  param: string,
): Opaque | null {
  if (encrypted_content == null || encrypted_content === '') return null;
  const isOwn = id == null || runOfItem(id) !== null;
  const item = {
    ...(isOwn ? {} : { id }),
    summary: summary ?? [],
    ...(content ? { content } : {}),
  };
  return unsealOpaque(encrypted_content, param) ?? asItem({ ...item, encrypted_content });
}

function sentNameOf({
  type,
  name,
  namespace,
}: Exclude<ModelItem, { type: 'reasoning' }>): SentName {
  return {
    name,
    ...(namespace ? { namespace } : {}),
    ...(type === 'custom_tool_call' ? { custom: true } : {}),
  };
}

async function partsOf(
  message: InputMessage,
  at: string,
  reading: Reading,
): Promise<{ role: 'system' | 'user' | 'assistant'; parts: MessagePart[] }> {
  if (message.role === 'assistant') {
    const { content } = message;
    if (typeof content === 'string') return { role: 'assistant', parts: textParts(content) };
    const parts = content.map(
      (part): MessagePart =>
        part.type === 'refusal'
          ? { type: 'refusal', text: part.refusal }
          : { type: 'text', text: part.text },
    );
    return { role: 'assistant', parts };
  }
  if (message.role !== 'user') return { role: 'system', parts: textParts(message.content) };
  return { role: 'user', parts: await userParts(message.content, `${at}.content`, reading) };
}

type Shown = Extract<InputMessage, { role: 'user' }>['content'];
async function userParts(content: Shown, at: string, reading: Reading): Promise<MessagePart[]> {
  if (typeof content === 'string') return textParts(content);
  const parts: MessagePart[] = [];
  for (const [place, part] of content.entries()) {
    const param = `${at}.${place}`;
    if (part.type === 'input_text') parts.push({ type: 'text', text: part.text });
    else if (part.type === 'input_file')
      parts.push({ type: 'text', text: await fileText(part, `${param}.file_data`, reading) });
    else if (part.image_url == null)
      throw invalidRequest(`${param}.image_url`, `${param}.image_url is missing.`);
    else parts.push(imageOf(part.image_url, `${param}.image_url`));
  }
  return parts;
}

type Texts = string | readonly { readonly text: string }[];
function textParts(content: Texts): { type: 'text'; text: string }[] {
  return typeof content === 'string'
    ? [{ type: 'text', text: content }]
    : content.map(({ text }) => ({ type: 'text', text }));
}

/** Finds output items by their ids. Each run is read once. */
function references(runtime: Pick<Runtime, 'runs'>) {
  const read = new Map<string, readonly Item[]>();
  return async (
    id: string,
    at: string,
  ): Promise<Exclude<InputItem, { type: 'item_reference' }>> => {
    const run_id = runOfItem(id) ?? '';
    const isNew = run_id !== '' && !read.has(run_id);
    const said = isNew ? await readResponseItems(runtime, run_id).catch(() => null) : null;
    if (isNew) read.set(run_id, said?.items ?? []);
    const item = read.get(run_id)?.find((one) => one.id === id);
    // What svc sends as output is valid as input, too.
    if (item !== undefined) return item as never;
    throw invalidRequest(
      `${at}.id`,
      `${at}.id names no output item of a response that is complete.`,
    );
  };
}
