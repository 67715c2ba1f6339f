import * as v from 'valibot';
import { invalidRequest } from '../../contract/check.ts';
import type { Message, MessagePart, Role } from '../../contract/messages/parts.ts';
import { REDACTED } from '../../contract/messages/parts.ts';
import { anything, flag, object, text } from '../../contract/vocabulary.ts';
import { servedName } from '../../runtime/tools/served-tools.ts';
import { Besides } from '../seal.ts';
import { parseSignature } from './answer.ts';
import { documentParts, type FileTexts } from './documents.ts';

/** The messages of a request of Anthropic's API, and the same as messages of a run. */

/** A cache changes no answer. It is accepted anywhere, and has no effect. */
export const cache_control = v.nullish(anything);

/** A field that would change the answer, and that a run does not have. */
export const unsupported = v.nullish(
  v.never('is not supported here. Send the request without it.'),
);

const TEXTS = 'must be a text, or a list of blocks.';

const textBlock = object({
  type: v.literal('text'),
  text,
  cache_control,
  citations: v.nullish(v.array(v.never('is not supported here.'))),
});

const imageBlock = object({
  type: v.literal('image'),
  source: v.variant(
    'type',
    [object({ type: v.literal('base64'), media_type: text, data: text })],
    'must be base64: the daemon fetches no images and keeps no files.',
  ),
  transformations: unsupported,
  cache_control,
});

const documentBlock = object({
  type: v.literal('document'),
  source: v.variant(
    'type',
    [
      object({ type: v.literal('base64'), media_type: text, data: text }),
      object({ type: v.literal('text'), media_type: v.nullish(text), data: text }),
      object({
        type: v.literal('content'),
        content: v.union(
          [text, v.array(blockVariant([textBlock, imageBlock], 'must be text or image.'))],
          TEXTS,
        ),
      }),
    ],
    'must be base64, text or content: the daemon fetches no documents and keeps no files.',
  ),
  title: v.nullish(text),
  context: v.nullish(text),
  citations: v.nullish(
    object({ enabled: v.nullish(v.literal(false, 'must be false: svc makes no citations.')) }),
  ),
  cache_control,
});
export type DocumentBlock = v.InferOutput<typeof documentBlock>;

const toolUseBlock = object({
  type: v.literal('tool_use'),
  id: text,
  name: text,
  /** A text is forwarded as the model wrote it. */
  input: v.union([anything, text], 'must be an object.'),
  caller: v.nullish(anything),
  toolset_name: unsupported,
  cache_control,
});

const toolResultBlock = object({
  type: v.literal('tool_result'),
  tool_use_id: text,
  content: v.nullish(
    v.union(
      [
        text,
        v.array(
          blockVariant([textBlock, imageBlock, documentBlock], 'must be text, image or document.'),
        ),
      ],
      TEXTS,
    ),
  ),
  is_error: v.nullish(flag),
  toolset_name: unsupported,
  cache_control,
});

/** A call that svc carried out, and its result, as an answer has them. */
const mcpUseBlock = object({
  type: v.literal('mcp_tool_use'),
  id: text,
  name: text,
  server_name: text,
  input: v.union([anything, text], 'must be an object.'),
  cache_control,
});
const mcpResultBlock = object({
  type: v.literal('mcp_tool_result'),
  tool_use_id: text,
  content: v.nullish(v.union([text, v.array(textBlock)], TEXTS)),
  is_error: v.nullish(flag),
  cache_control,
});

const thinkingBlock = object({
  type: v.literal('thinking'),
  thinking: text,
  signature: v.nullish(text),
});
/** Only its author can read it. */
const redactedBlock = object({ type: v.literal('redacted_thinking'), data: text });

const system = v.array(blockVariant([textBlock], 'must be text.'));
const user = v.array(
  blockVariant(
    [textBlock, imageBlock, documentBlock, toolResultBlock],
    'must be text, image, document or tool_result.',
  ),
);
const assistant = v.array(
  blockVariant(
    [textBlock, thinkingBlock, redactedBlock, toolUseBlock, mcpUseBlock, mcpResultBlock],
    'must be text, thinking, redacted_thinking, tool_use, mcp_tool_use or mcp_tool_result.',
  ),
);
type ToolResult = v.InferOutput<typeof toolResultBlock>;
type Block = v.InferOutput<typeof user | typeof assistant>[number];

export const texts = v.union([text, system], TEXTS);

export const message = v.variant(
  'role',
  [
    object({ role: v.literal('user'), content: v.union([text, user], TEXTS) }),
    object({ role: v.literal('assistant'), content: v.union([text, assistant], TEXTS) }),
    object({ role: v.literal('system'), content: texts }),
  ],
  'must be user, assistant or system.',
);
export type SentMessage = v.InferOutput<typeof message>;

function blockVariant<const O extends v.VariantOptions<'type'>>(options: O, message: string) {
  return v.variant('type', options, message);
}

/** Messages of a run, and the place in the request of each of their parts. */
export interface Conversation {
  messages: Message[];
  places: string[][];
}

/**
 * The messages of a run. One message of a user may have results of tools and more. It becomes a
 * message for each result and one for the rest. Images of results are in that last one, because
 * most models see images of the user only.
 *
 * `earlier`: the messages that these continue. A system text replaces the earlier one.
 */
export function conversationOf(
  system: string | readonly Block[] | null,
  sent: readonly SentMessage[],
  { earlier = [], texts }: { earlier?: readonly Message[]; texts: FileTexts },
): Conversation {
  const made: Conversation = { messages: [], places: [] };
  if (system !== null) addMessage(made, 'system', system, 'system', texts);
  const isReplaced = system !== null && earlier[0]?.role === 'system';
  for (const message of earlier.slice(isReplaced ? 1 : 0)) {
    made.messages.push(message);
    made.places.push([]);
  }
  for (const [index, { role, content }] of sent.entries())
    addMessage(made, role, content, `messages.${index}.content`, texts);
  continueLast(made.messages);
  return made;
}

/** The answer continues the last message, if that is text of the assistant. */
function continueLast(messages: Message[]): void {
  const last = messages.at(-1);
  if (last?.role !== 'assistant') return;
  if (last.content.some(({ type }) => type === 'tool_call'))
    throw invalidRequest('messages', 'messages must end with the results of the tool calls.');
  messages[messages.length - 1] = { ...last, continued: true };
}

function addMessage(
  { messages, places }: Conversation,
  role: Exclude<Role, 'tool'>,
  content: string | readonly Block[],
  at: string,
  texts: FileTexts,
): void {
  let parts: MessagePart[] | null = null;
  const open = (as: Role): MessagePart[] => {
    const content: MessagePart[] = [];
    messages.push({ role: as, content });
    places.push([]);
    return content;
  };
  if (typeof content === 'string') {
    open(role).push({ type: 'text', text: content });
    places.at(-1)?.push(at);
    return;
  }
  const add = (part: MessagePart, place: string) => {
    const isResult = part.type === 'tool_result';
    if (isResult) parts = null;
    const into: MessagePart[] = isResult ? open('tool') : (parts ?? open(role));
    if (!isResult) parts = into;
    into.push(part);
    places.at(-1)?.push(place);
  };
  let shown: [MessagePart, string][] = [];
  const besides = new Besides();
  for (const [index, block] of content.entries()) {
    const isNote = role === 'system' && block.type === 'text' && ATTRIBUTION.test(block.text);
    const contents = isNote ? [] : partsOf(block, texts);
    if (contents.length === 0) continue;
    if (block.type !== 'tool_result') {
      for (const [image, place] of shown) add(image, place);
      shown = [];
    }
    for (const each of contents) {
      const part = besides.take(each);
      if (part !== null) add(part, `${at}.${index}`);
    }
    if (block.type === 'tool_result') shown.push(...imagesOf(block, `${at}.${index}`, texts));
  }
  for (const [image, place] of shown) add(image, place);
  if (content.length === 0) open(role);
}

/**
 * The first line of Claude Code is for the server. It changes with the first prompt, and would keep
 * every cache of the rest from being used.
 */
const ATTRIBUTION = /^x-anthropic-billing-header:[^\n]*$/;

/** The images of a result, each after a text that says what it belongs to. */
function imagesOf(
  { tool_use_id, content }: ToolResult,
  at: string,
  texts: FileTexts,
): [MessagePart, string][] {
  if (content == null || typeof content === 'string') return [];
  return content.flatMap((block, index) => {
    const images = partsOf(block, texts).filter(({ type }) => type === 'image');
    const place = `${at}.content.${index}`;
    const text = `This image is the result of the tool call ${tool_use_id}:`;
    return images.flatMap((image): [MessagePart, string][] => [
      [{ type: 'text', text }, place],
      [image, place],
    ]);
  });
}

/** The parts of a block. None: nothing of it reaches a model. */
function partsOf(block: Block, texts: FileTexts): MessagePart[] {
  switch (block.type) {
    case 'text':
      return [{ type: 'text', text: block.text }];
    case 'image':
      return [{ type: 'image', media_type: block.source.media_type, data: block.source.data }];
    case 'document':
      return documentParts(block, texts);
    case 'thinking': {
      const signed = parseSignature(block.signature);
      if (block.thinking === '' && signed.opaque === undefined) return [];
      return [{ type: 'reasoning', text: block.thinking, ...signed }];
    }
    case 'redacted_thinking':
      return [{ type: 'reasoning', text: '', ...parseSignature(block.data, REDACTED) }];
    case 'mcp_tool_use':
    case 'tool_use': {
      const { id, input } = block;
      const isServed = block.type === 'mcp_tool_use';
      const name = isServed ? servedName(block.server_name, block.name) : block.name;
      const written = typeof input === 'string' ? input : JSON.stringify(input);
      return [{ type: 'tool_call', id, name, arguments: written }];
    }
    case 'mcp_tool_result':
    case 'tool_result': {
      const { tool_use_id: id, content, is_error } = block;
      const text = resultText(content, texts);
      return [{ type: 'tool_result', id, text, is_error: is_error ?? false }];
    }
  }
}

function resultText(content: ToolResult['content'], files: FileTexts): string {
  if (content == null || typeof content === 'string') return content ?? '';
  const texts = content
    .flatMap((block) => partsOf(block, files))
    .flatMap((part) => (part.type === 'text' ? [part.text] : []));
  // Servers refuse an empty result.
  return texts.length === 0 && content.length > 0 ? 'The next message has it.' : texts.join('\n');
}
