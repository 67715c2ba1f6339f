import * as v from 'valibot';
import { invalidRequest } from '../../contract/check.ts';
import { asOpaque, opaqueInExtra } from '../../contract/messages/opaque-forms.ts';
import {
  DETAILS,
  type MediaPart,
  type Message,
  type MessagePart,
  type Opaque,
} from '../../contract/messages/parts.ts';
import { audioFormats } from '../../contract/options.ts';
import { anything, object, oneOf, text } from '../../contract/vocabulary.ts';

import { thoughtIn } from '../seal.ts';
import type { FileTexts } from './files.ts';

/** The messages of a chat request, and their form in a run. */

const textPart = object({ type: v.literal('text'), text });
const imagePart = object({
  type: v.literal('image_url'),
  image_url: object({
    url: text,
    /** How large the model sees it. svc leaves it to the model. */
    detail: v.nullish(oneOf(['auto', 'low', 'high'])),
  }),
});
const audioPart = object({
  type: v.literal('input_audio'),
  input_audio: object({ data: text, format: oneOf(['wav', 'mp3']) }),
});
const filePart = object({
  type: v.literal('file'),
  file: object({
    file_data: text,
    filename: v.nullish(text),
    file_id: v.nullish(v.never('must be null: svc keeps no files.')),
  }),
});
export type FilePart = v.InferOutput<typeof filePart>;
const refusalPart = object({ type: v.literal('refusal'), refusal: text });

const content = v.union([text, v.array(textPart)], 'must be a text, or a list of parts of text.');
const shown = v.union(
  [
    text,
    v.array(
      v.variant(
        'type',
        [textPart, imagePart, audioPart, filePart],
        'must be an object with the type text, image_url, input_audio or file.',
      ),
    ),
  ],
  'must be a text, or a list of parts.',
);
const answered = v.union(
  [
    text,
    v.array(
      v.variant(
        'type',
        [textPart, refusalPart],
        'must be an object with the type text or refusal.',
      ),
    ),
  ],
  'must be a text, or a list of parts.',
);

/** What Gemini must get back. */
const extra = { extra_content: v.nullish(anything) };

const toolCall = object({
  id: text,
  type: v.literal('function', 'must be function: svc has no other tools.'),
  function: object({
    name: text,
    arguments: text,
    /** Clients of OpenAI add it when they read an answer. */
    parsed_arguments: v.optional(v.unknown()),
  }),
  /** From a streamed answer. */
  index: v.optional(v.number()),
  ...extra,
});

/** Models of svc do not see names of participants. */
const participant = { name: v.nullish(text) };

const systemMessage = { content, ...participant };
const assistantMessage = object({
  role: v.literal('assistant'),
  content: v.nullish(answered),
  refusal: v.nullish(text),
  reasoning_content: v.nullish(text),
  /** What OpenRouter and vLLM call it. */
  reasoning: v.nullish(text),
  /** What OpenRouter must get back. */
  reasoning_details: v.nullish(v.array(anything)),
  tool_calls: v.nullish(v.array(toolCall, 'must be a list of tool calls.')),
  ...extra,
  ...participant,
  /** Fields that clients copy from an answer. No answer of svc has them. */
  annotations: v.nullish(v.array(anything)),
  parsed: v.optional(v.unknown()),
  audio: v.nullish(v.never('must be null: svc keeps no audio of answers.')),
  function_call: v.nullish(v.never('must be null: use tool_calls.')),
});

export const chatMessage = v.variant(
  'role',
  [
    object({ role: v.literal('system'), ...systemMessage }),
    object({ role: v.literal('developer'), ...systemMessage }),
    object({ role: v.literal('user'), content: shown, ...participant }),
    assistantMessage,
    object({ role: v.literal('tool'), content, tool_call_id: text, ...participant }),
  ],
  'must be one of system, developer, user, assistant, tool.',
);
export type ChatMessage = v.InferOutput<typeof chatMessage>;

export function messageOf(message: ChatMessage, index: number, texts: FileTexts): Message {
  switch (message.role) {
    case 'system':
    case 'developer':
      return { role: 'system', content: textParts(message.content) };
    case 'user':
      return { role: 'user', content: userParts(message.content, index, texts) };
    case 'assistant':
      return { role: 'assistant', content: assistantParts(message) };
    case 'tool': {
      const result = textParts(message.content).map((part) => part.text);
      const { tool_call_id: id } = message;
      return {
        role: 'tool',
        content: [{ type: 'tool_result', id, text: result.join(''), is_error: false }],
      };
    }
  }
}

type Texts = v.InferOutput<typeof content>;
function textParts(content: Texts): { type: 'text'; text: string }[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content;
}

function userParts(
  content: v.InferOutput<typeof shown>,
  index: number,
  texts: FileTexts,
): MessagePart[] {
  if (typeof content === 'string') return textParts(content);
  return content.map((part, place) => {
    if (part.type === 'text') return part;
    if (part.type === 'input_audio') {
      const { data, format } = part.input_audio;
      return { type: 'audio', media_type: audioFormats[format], data };
    }
    if (part.type === 'file') return { type: 'text', text: texts.get(part) ?? '' };
    return imageOf(part.image_url.url, `messages.${index}.content.${place}.image_url.url`);
  });
}

function assistantParts(message: Extract<ChatMessage, { role: 'assistant' }>): MessagePart[] {
  const { content, refusal, tool_calls, reasoning_details, extra_content } = message;
  const thought = message.reasoning_content || message.reasoning || '';
  const texts = content == null ? [] : typeof content === 'string' ? textParts(content) : content;
  const parts: MessagePart[] = [];
  const [own, others] = [[] as MessagePart[], [] as object[]];
  for (const detail of reasoning_details ?? []) {
    const sealed = thoughtIn(detail, 'messages');
    if (sealed === null) others.push(detail);
    else own.push(sealed);
  }
  const details = others.length > 0 ? JSON.stringify(others) : '';
  parts.push(...own);
  // The details that svc sealed have the thought, too.
  if (details !== '' || (thought !== '' && own.length === 0))
    parts.push({ type: 'reasoning', text: thought, ...toOpaqueField(asOpaque(DETAILS, details)) });
  for (const part of texts) {
    if (part.type === 'refusal') parts.push({ type: 'refusal', text: part.refusal });
    else if (part.text !== '') parts.push(part);
  }
  if (refusal) parts.push({ type: 'refusal', text: refusal });
  const opaque = opaqueInExtra(extra_content);
  if (opaque !== undefined) parts.push({ type: 'text', text: '', opaque });
  for (const { id, function: called, ...call } of tool_calls ?? [])
    parts.push({
      type: 'tool_call',
      id,
      name: called.name,
      arguments: called.arguments,
      ...toOpaqueField(opaqueInExtra(call.extra_content)),
    });
  return parts;
}

const toOpaqueField = (opaque: Opaque | undefined) => (opaque === undefined ? {} : { opaque });

/**
 * Throws invalid_request for an address: the daemon loads nothing from the network for a client.
 */
export function imageOf(url: string, param: string): MediaPart {
  const [, media_type, data] = /^data:(image\/[a-z0-9.+-]+);base64,(.*)$/is.exec(url) ?? [];
  if (media_type === undefined || data === undefined)
    throw invalidRequest(
      param,
      `${param} must be a data URL such as data:image/png;base64,… The daemon loads no ` +
        'addresses for its clients.',
    );
  return { type: 'image', media_type: media_type.toLowerCase(), data };
}
