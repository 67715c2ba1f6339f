import * as v from 'valibot';
import type { Message, MessagePart, Tool } from '../../../machines/messages.ts';
import { wrong } from '../../contract/check.ts';
import { anything, object, oneOf, text } from '../../contract/vocabulary.ts';

/** The messages and tools of a request of Ollama's API, and what they are for a run. */

const toolCall = object({
  id: v.nullish(text),
  type: v.nullish(text),
  function: object({ name: text, arguments: v.nullish(anything), index: v.nullish(v.number()) }),
});

export const images = v.nullish(v.array(text, 'must be a list of images in base64.'));

export const message = object({
  role: oneOf(['system', 'user', 'assistant', 'tool']),
  content: v.nullish(text),
  thinking: v.nullish(text),
  images,
  tool_calls: v.nullish(v.array(toolCall, 'must be a list of tool calls.')),
  tool_name: v.nullish(text),
  tool_call_id: v.nullish(text),
});
type SentMessage = v.InferOutput<typeof message>;

export const tool = object({
  type: v.literal('function', 'must be function.'),
  function: object({ name: text, description: v.nullish(text), parameters: v.nullish(anything) }),
});

export function toolOf({ function: called }: v.InferOutput<typeof tool>): Tool {
  const { name, description = null, parameters } = called;
  return { name, description, parameters: parameters ?? {} };
}

/** Throws invalid_request for an image that is none, and for a result without its call. */
export function messagesOf(sent: readonly SentMessage[]): Message[] {
  const calls = new Calls();
  return sent.map((one, index) => {
    const at = `messages.${index}`;
    const { role, content, thinking, images, tool_calls } = one;
    if (role === 'tool') {
      const id = calls.answered(one, at);
      return { role, content: [{ type: 'tool_result', id, text: content ?? '', is_error: false }] };
    }
    const parts: MessagePart[] = thinking ? [{ type: 'reasoning', text: thinking }] : [];
    const shown = imagesOf(images, at);
    const called = (tool_calls ?? []).map((call) => calls.made(call));
    const isSilent = shown.length + called.length + parts.length > 0 && !content;
    if (!isSilent) parts.push({ type: 'text', text: content ?? '' });
    return { role, content: [...parts, ...shown, ...called] };
  });
}

export function imagesOf(images: readonly string[] | null | undefined, at: string): MessagePart[] {
  return (images ?? []).map((data, place) => {
    const media_type = mediaTypeOf(data);
    if (media_type !== null) return { type: 'image', media_type, data };
    const param = `${at === '' ? '' : `${at}.`}images.${place}`;
    throw wrong(param, `${param} must be a PNG, JPEG, GIF or WebP file in base64.`);
  });
}

/** Ollama's images have no type: their first bytes say it. */
function mediaTypeOf(data: string): string | null {
  const head = Buffer.from(data.slice(0, 24), 'base64').toString('latin1');
  return SIGNATURES.find(([begins]) => begins.test(head))?.[1] ?? null;
}
const SIGNATURES: readonly [RegExp, string][] = [
  [/^\x89PNG/, 'image/png'],
  [/^\xff\xd8\xff/, 'image/jpeg'],
  [/^GIF8[79]a/, 'image/gif'],
  [/^RIFF[\s\S]{4}WEBP/, 'image/webp'],
];

/**
 * The calls of a conversation. Most clients send them without ids. Then a result belongs to the
 * first call of its tool that has no result yet.
 */
class Calls {
  /** The calls without a result, by id, by name, and all of them under the empty text. */
  private readonly open = new Map<string, Set<Call>>();
  private count = 0;

  made({
    id,
    function: { name, arguments: written },
  }: v.InferOutput<typeof toolCall>): MessagePart {
    this.count += 1;
    const call = { id: id || `call_${this.count}`, name };
    for (const key of keysOf(call)) {
      const calls = this.open.get(key) ?? new Set();
      this.open.set(key, calls.add(call));
    }
    return { type: 'tool_call', ...call, arguments: JSON.stringify(written ?? {}) };
  }

  answered({ tool_call_id, tool_name }: SentMessage, at: string): string {
    const key = tool_call_id ? `id ${tool_call_id}` : tool_name ? `name ${tool_name}` : '';
    const [call] = this.open.get(key) ?? [];
    if (call === undefined)
      throw wrong(at, `${at} is the result of a tool, but no message before it calls the tool.`);
    for (const each of keysOf(call)) this.open.get(each)?.delete(call);
    return call.id;
  }
}

interface Call {
  id: string;
  name: string;
}

function keysOf({ id, name }: Call): readonly string[] {
  return [`id ${id}`, `name ${name}`, ''];
}
