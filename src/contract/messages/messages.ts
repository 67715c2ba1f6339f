import * as v from 'valibot';
import { invalidRequest } from '../check.ts';
import { audioFormats, fileTypeOf, isBase64 } from '../options.ts';
import { anything, flag, name, object, oneOf, text, whole } from '../vocabulary.ts';
import type { MediaPart, Message, MessagePart, Role } from './parts.ts';

/** The messages of a request, and what their parts may be. */

/** Longest name of a tool or a schema, in characters. */
const NAME_MAX = 64;
const NAME = /^[A-Za-z0-9_.:-]{1,64}$/;
const toolName = v.pipe(
  text,
  v.regex(NAME, `must have 1 to ${NAME_MAX} letters, digits, or the characters _ . : -`),
);
const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const;

/** What a provider must get back with a part: see `Opaque`. */
export const opaque = object({
  form: name(64),
  data: text,
  provider: v.exactOptional(text),
  model: v.exactOptional(text),
});
const returned = { opaque: v.exactOptional(opaque) };

const textPart = object({ type: v.literal('text'), text, ...returned });
const imagePart = object({ type: v.literal('image'), media_type: oneOf(IMAGES), data: text });
const audioPart = object({
  type: v.literal('audio'),
  media_type: oneOf(Object.values(audioFormats)),
  data: text,
});
const reasoningPart = object({ type: v.literal('reasoning'), text, ...returned });
const refusalPart = object({ type: v.literal('refusal'), text });
const toolCallPart = object({
  type: v.literal('tool_call'),
  id: name(256),
  name: toolName,
  arguments: text,
  ...returned,
});
const toolResultPart = object({
  type: v.literal('tool_result'),
  id: name(256),
  text,
  is_error: v.optional(flag, false),
});

const parts = v.variant(
  'type',
  [textPart, imagePart, audioPart, reasoningPart, refusalPart, toolCallPart, toolResultPart],
  'must be an object with the type text, image, audio, reasoning, refusal, tool_call or ' +
    'tool_result.',
);

/** A string is shorthand for one text part. */
const content = v.union(
  [
    v.pipe(
      text,
      v.transform((value): MessagePart[] => [{ type: 'text', text: value }]),
    ),
    v.array(parts),
  ],
  'must be a text, or a list of parts.',
);

const ROLES = ['system', 'user', 'assistant', 'tool'] as const satisfies readonly Role[];

export const message = object({
  role: oneOf(ROLES),
  content,
  continued: v.exactOptional(v.literal(true)),
});

export const tool = object({
  name: toolName,
  description: v.nullish(text, null),
  /** A JSON schema. */
  parameters: v.optional(anything, {}),
});

/** A tool of a record. */
export const recordedTool = object({
  ...tool.entries,
  server: v.exactOptional(text),
  tool: v.exactOptional(text),
  /** Its calls need an approval, also where the configuration allows them. */
  ask: v.exactOptional(v.literal(true)),
  /** What its server says of it, in the words of MCP. */
  annotations: v.exactOptional(v.record(text, v.boolean())),
});

export const toolChoice = v.union(
  [oneOf(['auto', 'none', 'required']), object({ name: toolName })],
  'must be auto, none, required, or an object with the name of a tool.',
);

export const responseFormat = object({
  type: oneOf(['json']),
  name: v.nullish(toolName, null),
  /** A JSON schema; null: any JSON object. */
  schema: v.nullish(anything, null),
});

const PARTS_OF: Readonly<Record<Role, ReadonlySet<MessagePart['type']>>> = {
  system: new Set(['text']),
  user: new Set(['text', 'image', 'audio']),
  assistant: new Set(['text', 'reasoning', 'refusal', 'tool_call']),
  tool: new Set(['tool_result']),
};

/**
 * Checks what the schema cannot: the parts of each role, that files are of their type, and that
 * each tool result follows its call. Throws invalid_request with the path of the part as `param`.
 */
export function checkMessages(messages: readonly Message[]): void {
  if (messages.length === 0)
    throw invalidRequest('messages', 'messages must have at least one message.');
  const calls = new Set<string>();
  for (const [index, { role, content }] of messages.entries()) {
    const at = `messages.${index}.content`;
    if (content.length === 0 && role !== 'assistant')
      throw invalidRequest(at, `${at} must have at least one part.`);
    for (const [place, part] of content.entries()) {
      const param = `${at}.${place}`;
      if (!PARTS_OF[role].has(part.type))
        throw invalidRequest(
          param,
          `${param} has the type ${part.type}, which no message of the ${role} has.`,
        );
      if ('media_type' in part) checkMedia(part, param);
      if (part.type === 'tool_call') calls.add(part.id);
      if (part.type === 'tool_result' && !calls.has(part.id))
        throw invalidRequest(
          param,
          `${param} answers the tool call ${JSON.stringify(part.id)}, which is in no ` +
            'message before it.',
        );
    }
  }
}

function checkMedia({ type, media_type, data }: MediaPart, param: string): void {
  if (!isBase64(data))
    throw invalidRequest(param, `${param} has data of type ${type} that is not base64.`);
  if (fileTypeOf(data) !== media_type)
    throw invalidRequest(
      param,
      `${param} is no ${media_type}: its first bytes are of another kind of file.`,
    );
}

/** A part of an answer. */
export const answerPart = v.variant('type', [
  object({ type: v.literal('text'), text, ...returned }),
  object({ type: v.literal('reasoning'), text, ...returned }),
  object({ type: v.literal('refusal'), text, ...returned }),
  object({ type: v.literal('tool_call'), id: text, name: text, arguments: text, ...returned }),
]);

const recordedFile = object({
  type: oneOf(['image', 'audio']),
  media_type: text,
  size_bytes: whole,
});

/** A message of a record. Files have their size instead of their data. */
export const recordedMessage = object({
  role: oneOf(['system', 'user', 'assistant', 'tool']),
  content: v.array(
    v.variant('type', [
      ...answerPart.options,
      recordedFile,
      object({
        type: v.literal('tool_result'),
        id: text,
        text,
        is_error: flag,
        media: v.exactOptional(v.array(recordedFile)),
      }),
    ]),
  ),
});
