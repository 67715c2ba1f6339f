import type { RunOutput, RunRequest } from '../events.ts';

/**
 * The request of a run and the parts of its answer. Both are plain data in the log.
 *
 * The wire formats of OpenAI, Anthropic and Ollama are translated to these types at the transports.
 */

export type { RunOutput, RunRequest };

export type Role = 'system' | 'user' | 'assistant' | 'tool';

export interface TextPart extends Returned {
  readonly type: 'text';
  readonly text: string;
}

/** An image or sound in the message itself: `data` is base64 of a file of this media type. */
export interface MediaPart {
  readonly type: 'image' | 'audio';
  readonly media_type: string;
  readonly data: string;
}

/**
 * What a provider must get back with a part, as it came. Only its author can read it, so it goes to
 * no other provider or model. `form`: the name of its field, such as `signature`.
 */
export interface Opaque {
  readonly form: string;
  readonly data: string;
  /** Absent: a client sent it to a provider whose API has no such form, so no provider gets it. */
  readonly provider?: string;
  readonly model?: string;
}

/** The provider and model that get the opaque data back. */
type Author = Required<Pick<Opaque, 'provider' | 'model'>>;

interface Returned {
  readonly opaque?: Opaque;
}

/** Text that the model wrote before its answer. */
export interface ReasoningPart extends Returned {
  readonly type: 'reasoning';
  readonly text: string;
}

/** Text in which the model refuses to answer. */
export interface RefusalPart extends Returned {
  readonly type: 'refusal';
  readonly text: string;
}

/** The model calls a tool. `arguments` is JSON as the model wrote it; it may be invalid. */
export interface ToolCallPart extends Returned {
  readonly type: 'tool_call';
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** What a tool answered. `id` is the id of its call. */
export interface ToolResultPart {
  readonly type: 'tool_result';
  readonly id: string;
  readonly text: string;
  readonly is_error: boolean;
  /** Files of the result. The text has a line for each. */
  readonly media?: readonly MediaPart[];
}

export type MessagePart =
  | TextPart
  | MediaPart
  | ReasoningPart
  | RefusalPart
  | ToolCallPart
  | ToolResultPart;

export interface Message {
  readonly role: Role;
  readonly content: readonly MessagePart[];
  /** The last message is the beginning of the answer, which continues after its last word. */
  readonly continued?: true;
}

/** A function that the model may call. `parameters` is a JSON schema. */
export interface Tool {
  readonly name: string;
  readonly description: string | null;
  readonly parameters: Readonly<Record<string, unknown>>;
  /** The tool server that has it, and its name there. Absent: the client carries it out. */
  readonly server?: string;
  readonly tool?: string;
  /** Its calls need an approval, also where the configuration allows them. */
  readonly ask?: true;
  /** What its server says of it, in the words of MCP. */
  readonly annotations?: Readonly<Record<string, boolean>>;
}

/** `name`: the model must call this tool. */
export type ToolChoice = 'auto' | 'none' | 'required' | { readonly name: string };

/** The form of the answer. `schema` is a JSON schema; null: any JSON object. */
export interface ResponseFormat {
  readonly type: 'json';
  readonly name: string | null;
  readonly schema: Readonly<Record<string, unknown>> | null;
}

/** The API through which a run was requested, such as `openai.responses`, and its own fields. */
export interface SourceRequest {
  readonly api: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A token of the answer with the natural logarithm of its probability. */
export interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  /** The likeliest tokens at this position, most likely first. */
  readonly top: readonly { readonly token: string; readonly logprob: number }[];
}

/** The kinds of output besides text. */
export type OutputKind = 'reasoning' | 'tool_call' | 'refusal';

/** Which call a piece of output belongs to. */
export interface CallName {
  readonly id: string;
  readonly name: string;
  /** The tool server with which svc carries out the call. Absent: the client does. */
  readonly server?: string;
}

/**
 * A piece of the answer. Without `kind` it is text. A piece of a call has a part of its arguments.
 */
export interface Piece {
  readonly text: string;
  readonly kind?: OutputKind;
  readonly call?: CallName;
  /** Belongs to the part that the piece ends. */
  readonly opaque?: Opaque;
}

export type OutputPart = TextPart | ReasoningPart | RefusalPart | ToolCallPart;

/**
 * The parts of an answer after one more piece. An answer that is only text has no parts: its text
 * says it all. Only a call begins without text, and what is opaque.
 */
export function partsAfter(
  parts: readonly OutputPart[],
  output: string,
  piece: Piece,
): readonly OutputPart[] {
  if (piece.opaque === undefined) {
    if (parts.length === 0 && piece.kind === undefined) return parts;
    if (piece.text === '' && piece.kind !== 'tool_call') return parts;
  }
  const before: readonly OutputPart[] =
    parts.length > 0 || output === '' ? parts : [{ type: 'text', text: output }];
  const index = partOf(before, piece);
  const grown = growPart(before[index], piece);
  return index < before.length ? before.with(index, grown) : [...before, grown];
}

/** Where a piece belongs: the last part if it is of its kind, a call by its id, or a new part. */
export function partOf(parts: readonly OutputPart[], { kind, call, opaque }: Piece): number {
  if (kind === 'tool_call') {
    const known = parts.findIndex((part) => part.type === 'tool_call' && part.id === call?.id);
    return known < 0 ? parts.length : known;
  }
  const last = parts.at(-1);
  const isOpen = last?.type === (kind ?? 'text') && last.opaque === undefined;
  return isOpen && opaque?.form !== REDACTED ? parts.length - 1 : parts.length;
}

/** The form of thoughts that have no text. They are a part of their own. */
export const REDACTED = 'redactedData';
/** Gemini's form, in each of its APIs. */
export const THOUGHT = 'thoughtSignature';
/** The form of OpenAI's Responses: a whole item of reasoning, as JSON. */
export const ITEM = 'reasoningEncryptedContent';
/** OpenRouter's form: a list of JSON. */
export const DETAILS = 'reasoning_details';

function growPart(part: OutputPart | undefined, { kind, text, call, ...piece }: Piece): OutputPart {
  const opaque = piece.opaque ?? part?.opaque;
  const returned = opaque === undefined ? {} : { opaque };
  if (kind === 'tool_call') {
    const { id = '', name = '' } = call ?? {};
    const before = part?.type === 'tool_call' ? part.arguments : '';
    return { type: kind, id, name, arguments: before + text, ...returned };
  }
  const before = part === undefined ? '' : textOf(part);
  return { type: kind ?? 'text', text: before + text, ...returned };
}

/** What the provider must get back with a part. Empty: nothing. */
export function opaqueOf(part: MessagePart): string {
  return opaqueIn(part)?.data ?? '';
}

/** The opaque data of a part. Undefined: it has none. */
export function opaqueIn(part: MessagePart): Opaque | undefined {
  return 'opaque' in part ? part.opaque : undefined;
}

/** Whether another author wrote the opaque data of the part. */
function isForeign(part: MessagePart, { provider, model }: Author): boolean {
  const opaque = opaqueIn(part);
  return opaque !== undefined && (opaque.provider !== provider || opaque.model !== model);
}

/**
 * The messages as this provider and model gets them, without signatures of other models. The
 * thoughts of other models are left out whole.
 */
export function messagesFor(messages: readonly Message[], author: Author): readonly Message[] {
  const foreign = (part: MessagePart) => isForeign(part, author);
  if (!messages.some(({ content }) => content.some(foreign))) return messages;
  return messages.flatMap((message) => {
    if (!message.content.some(foreign)) return [message];
    const content = message.content.flatMap((part) => {
      if (!foreign(part)) return [part];
      const { opaque: _, ...rest } = part as OutputPart;
      return rest.type === 'reasoning' ? [] : [rest];
    });
    return content.length === 0 ? [] : [{ ...message, content }];
  });
}

export function partsIn(messages: readonly Message[]): MessagePart[] {
  return messages.flatMap(({ content }) => content);
}

/**
 * How many opaque parts this provider and model gets back, and how many belong to other models. The
 * result of a tool has nothing opaque.
 */
export function countOpaque(parts: readonly MessagePart[], author: Author) {
  const counts = { kept: 0, left_out: 0 };
  for (const part of parts)
    if (opaqueIn(part) !== undefined) counts[isForeign(part, author) ? 'left_out' : 'kept'] += 1;
  return counts;
}

/** Opaque data that a client sends back in one of these forms belongs to the requested model. */
export function assignAuthor(
  messages: readonly Message[],
  { provider, model }: Author,
  forms: readonly string[],
): readonly Message[] {
  const isSent = (part: MessagePart) => {
    const opaque = opaqueIn(part);
    return opaque !== undefined && opaque.provider === undefined && forms.includes(opaque.form);
  };
  const withOwner = (part: MessagePart) =>
    isSent(part) ? { ...part, opaque: { ...(opaqueIn(part) as Opaque), provider, model } } : part;
  return messages.map((message) =>
    message.content.some(isSent)
      ? { ...message, content: message.content.map(withOwner) }
      : message,
  );
}

/** Whether the part is a file, and no text. */
export function isMedia(part: MessagePart): part is MediaPart {
  return part.type === 'image' || part.type === 'audio';
}

/** The files that a part is or has. */
export function filesIn(part: MessagePart): readonly MediaPart[] {
  if (part.type === 'tool_result') return part.media ?? [];
  return isMedia(part) ? [part] : [];
}

/** The text of a part. A file has no text. */
export function textOf(part: MessagePart): string {
  if (isMedia(part)) return '';
  return part.type === 'tool_call' ? part.arguments : part.text;
}

/** The text of the last message of the user: what the run is about. */
export function promptOf({ messages }: { readonly messages: readonly Message[] }): string {
  return plainText(messages.findLast(({ role }) => role === 'user'));
}

/** The texts of the system messages. Null without any. */
export function systemOf({ messages }: { readonly messages: readonly Message[] }): string | null {
  const texts = messages.filter(({ role }) => role === 'system').map(plainText);
  return texts.length === 0 ? null : texts.join('\n\n');
}

/** Whether prompt and system say all: at most one system text, then one text of the user. */
export function isShort({ messages }: { readonly messages: readonly Message[] }): boolean {
  const roles = messages.map(({ role }) => role).join(' ');
  return (
    (roles === 'user' || roles === 'system user') &&
    messages.every(({ content }) => content.length === 1 && content[0]?.type === 'text')
  );
}

/** The messages of the short form. */
export function shortMessages(prompt: string, system: string | null): Message[] {
  const user: Message = { role: 'user', content: [{ type: 'text', text: prompt }] };
  return system === null
    ? [user]
    : [{ role: 'system', content: [{ type: 'text', text: system }] }, user];
}

function plainText(message: Message | undefined): string {
  const texts = (message?.content ?? []).flatMap((part) =>
    part.type === 'text' ? [part.text] : [],
  );
  return texts.join('');
}

/** The id of what a person decides about a call of a run. */
export function approvalId(run_id: string, call: number): string {
  return `${run_id}.${call}`;
}
